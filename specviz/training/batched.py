"""Many independent sequences decoded in lockstep: one token of every row in each pass.

Self-distillation needs hundreds of thousands of tokens from a small model on a CPU. Row by row, every pass reads all weights for
one token; in lockstep the same read serves all rows. Rows may stand at different positions, so a finished row starts anew while
the others go on. Llama-family weights are taken from a loaded transformers model, and nothing else of it is used.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


class LockstepDecoder:
    """A static-cache forward pass for `rows` sequences of at most `length` tokens, one new token each.

    `hidden` below is the target's last hidden state after the final norm: the row that the LM head (and every Medusa head) reads.
    """

    def __init__(self, model: torch.nn.Module, rows: int, length: int):
        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.head_dim
        self.eps = config.rms_norm_eps
        core = model.model
        self.embedding, self.head, self.norm = core.embed_tokens.weight, model.lm_head.weight, core.norm.weight
        self.layers = [self._fused(layer) for layer in core.layers]
        cos, sin = core.rotary_emb(self.embedding[:1, None], torch.arange(length)[None])
        self.cos, self.sin = cos[0], sin[0]  # [length, head_dim]
        shape = (len(self.layers), rows, self.kv_heads, length, self.head_dim)
        self.keys, self.values = self.embedding.new_zeros(shape), self.embedding.new_zeros(shape)
        self.slots = torch.arange(length)
        self.rows = torch.arange(rows)

    @staticmethod
    def _fused(layer: torch.nn.Module) -> tuple[Tensor, ...]:
        attention, mlp = layer.self_attn, layer.mlp
        return (
            layer.input_layernorm.weight,
            torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]),
            attention.o_proj.weight,
            layer.post_attention_layernorm.weight,
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            mlp.down_proj.weight,
        )

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-right, left], dim=-1) * sin

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, "rows"], positions: Int[Tensor, "rows"]) -> Float[Tensor, "rows d"]:
        """Feed one token a row at its own position; returns the hidden state that predicts each row's next token."""
        rows = len(tokens)
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        unseen = self.slots > positions[:, None]  # [rows, length]
        x = self.embedding[tokens]
        for i, (norm1, qkv, out, norm2, gate_up, down) in enumerate(self.layers):
            fused = F.linear(F.rms_norm(x, norm1.shape, norm1, self.eps), qkv)
            q, k, v = fused.view(rows, -1, self.head_dim).split([self.heads, self.kv_heads, self.kv_heads], dim=1)
            self.keys[i, self.rows, :, positions] = self._rotate(k, cos, sin)
            self.values[i, self.rows, :, positions] = v
            q = self._rotate(q, cos, sin).view(rows, self.kv_heads, -1, self.head_dim)
            # The whole buffer, not the filled part: on a CPU the product with a slice is seven times slower than with all of it.
            scores = (q @ self.keys[i].transpose(-1, -2)).float() * self.head_dim**-0.5
            weights = scores.masked_fill_(unseen[:, None, None], -torch.inf).softmax(-1).to(x.dtype)
            x = x + F.linear((weights @ self.values[i]).view(rows, -1), out)
            gate, up = F.linear(F.rms_norm(x, norm2.shape, norm2, self.eps), gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.rms_norm(x, self.norm.shape, self.norm, self.eps)

    @torch.inference_mode()
    def logits(self, hidden: Float[Tensor, "rows d"]) -> Float[Tensor, "rows vocab"]:
        """The target's LM head over a batch of hidden states."""
        return F.linear(hidden, self.head)


def sample_top_k(
    logits: Float[Tensor, "rows vocab"], k: int, temperature: Float[Tensor, "rows"], generator: torch.Generator
) -> Int[Tensor, "rows"]:
    """One draw a row from the `k` most likely tokens at the row's own temperature (> 0)."""
    values, ids = logits.topk(k, dim=-1)
    choice = torch.multinomial((values.float() / temperature[:, None]).softmax(-1), 1, generator=generator)
    return ids.gather(1, choice)[:, 0]
