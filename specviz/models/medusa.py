"""Medusa heads (Cai et al. 2024, eq. 1): from one hidden state, guesses at the tokens after the next.

Head k (1-based) reads the target's last hidden state h_t, whose LM head predicts token t+1, and predicts token t+k+1:

    p_k = softmax(W₂ · (h + SiLU(W₁·h + b)))        W₁: d×d, one or more such residual blocks; W₂: V×d, the target's LM head or a copy
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from specviz.engine.linear import Linear, product
from specviz.trace import ModelInfo


def residual(hidden: Float[Tensor, "*n d"], weight: Float[Tensor, "d d"], bias: Float[Tensor, "d"] | None) -> Float[Tensor, "*n d"]:
    """One residual block: h + SiLU(W₁·h + b)."""
    return hidden + F.silu(F.linear(hidden, weight, bias))


@dataclass(frozen=True)
class MedusaHeads:
    """Heads ready to use: `blocks[head][layer]` is (W₁, b or None), `lm_heads[head]` a W₂ (the same tensor in all where it is shared).

    `token_map` names the vocabulary ids that the rows of W₂ score (None: row i is token i). `accuracies[head][rank]` is measured.
    """

    info: ModelInfo
    blocks: tuple[tuple[tuple[Tensor, Tensor | None], ...], ...]
    lm_heads: tuple[Tensor, ...]
    vocab_size: int
    token_map: Int[Tensor, "v"] | None = None
    accuracies: tuple[tuple[float, ...], ...] | None = None

    @property
    def count(self) -> int:
        """The number of heads."""
        return len(self.blocks)

    @torch.inference_mode()
    def logits(self, hidden: Float[Tensor, "*n d"]) -> Float[Tensor, "k *n V"]:
        """One row a head over the target's vocabulary; -inf where a head does not score a token."""
        scored = self._scores(hidden.reshape(-1, hidden.shape[-1])).unflatten(1, hidden.shape[:-1] or (1,))
        scored = scored if hidden.ndim > 1 else scored[:, 0]
        if self.token_map is None:
            return scored
        full = scored.new_full((*scored.shape[:-1], self.vocab_size), -torch.inf)
        full[..., self.token_map] = scored
        return full

    @cached_property
    def _products(self) -> tuple[list[list[Linear]], list[Linear]]:
        """The blocks and the LM heads, ready to be multiplied with; a shared W₂ once."""
        heads = self.lm_heads[:1] if self.shared else self.lm_heads
        return [[product(*layer) for layer in layers] for layers in self.blocks], [product(head) for head in heads]

    def _scores(self, hidden: Float[Tensor, "n d"]) -> Float[Tensor, "k n v"]:
        blocks, heads = self._products
        states = []
        for layers in blocks:
            state = hidden
            for layer in layers:
                state = state + layer.silu(state)
            states.append(state)
        if self.shared:  # one product for all heads reads W₂ once
            return heads[0](torch.cat(states)).unflatten(0, (self.count, -1))
        return torch.stack([head(state) for state, head in zip(states, heads, strict=True)])

    @property
    def shared(self) -> bool:
        """Whether all heads score with the same W₂."""
        return all(head is self.lm_heads[0] for head in self.lm_heads)

    def flops(self) -> float:
        """Operations of one call: 2·(layers·d² + v·d) a head (activations and biases left out)."""
        blocks = sum(weight.numel() for layers in self.blocks for weight, _ in layers)
        return 2.0 * (blocks + sum(head.numel() for head in self.lm_heads))

    def bytes(self) -> float:
        """Bytes of one call: every weight once (a shared W₂ once for all heads) and the scores written."""
        return self.weight_bytes() + float(sum(head.shape[0] for head in self.lm_heads) * self.lm_heads[0].element_size())

    def weight_bytes(self) -> float:
        """Those of them that are weights."""
        blocks = sum(t.numel() for layers in self.blocks for pair in layers for t in pair if t is not None)
        heads = self.lm_heads[:1] if self.shared else self.lm_heads
        return float((blocks + sum(head.numel() for head in heads)) * self.lm_heads[0].element_size())
