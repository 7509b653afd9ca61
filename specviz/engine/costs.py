"""FLOPs and bytes of one forward pass, from a model's dimensions: computed, never measured.

A pass of n tokens over a context of L cached tokens does (Williams et al. 2009 for the roofline; counts as in Kaplan et al. 2020, B.1)

    FLOPs = 2·n·P + 2·h·V·d + 4·n·(L + n)·H·D·layers      P weights of the layers' linear maps; h rows scored by the LM head
    bytes = weights once + keys and values read (L) and written (n) + n embedding rows + h rows of logits

Grouped-query attention lowers the bytes of keys and values, not the FLOPs. Every row pays for all L + n keys: the mask hides scores, it
does not save the products. The bytes are the least that must come from memory: what passes between layers stays in the processor's
caches (a few percent of the weights for the largest trees) and is left out, and so are norms, biases and what a program copies.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """The dimensions that decide the cost of a pass. `head_rows` are the tokens that the LM head scores (V, or fewer for a draft)."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    head_rows: int
    bytes_per_value: int

    @property
    def layer_weights(self) -> int:
        """P: weights of the linear maps of all layers (q, k, v, o; gate, up, down)."""
        attention = self.width * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.width * self.ffn)

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one cached token, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.bytes_per_value

    def weight_bytes(self, scored: int) -> int:
        """Weights that a pass reads: those of the LM head only where it scores any token."""
        return (self.layer_weights + (self.head_rows * self.width if scored else 0)) * self.bytes_per_value

    def flops(self, tokens: int, context: int, scored: int | None = None) -> int:
        """Operations of a pass of `tokens` over `context`; the LM head scores `scored` of them (all, where None)."""
        scored = tokens if scored is None else scored
        linear = 2 * tokens * self.layer_weights + 2 * scored * self.head_rows * self.width
        attention = 4 * tokens * (context + tokens) * self.heads * self.head_dim * self.layers
        return linear + attention

    def bytes(self, tokens: int, context: int, scored: int | None = None) -> int:
        """Bytes that a pass must move at least."""
        scored = tokens if scored is None else scored
        rows = tokens * self.width + scored * self.head_rows
        return self.weight_bytes(scored) + rows * self.bytes_per_value + (context + tokens) * self.kv_bytes_per_token
