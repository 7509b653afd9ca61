"""Many independent sequences decoded in lockstep: one token of every row in each pass.

Self-distillation needs a million tokens from a small model on a CPU. Row by row, every pass reads all weights for one token; in lockstep
the same read serves all rows. Rows may stand at different positions, so a finished row starts anew while the others go on.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from specviz.engine.fast import FastModel
from specviz.engine.lm import LanguageModel, Output


@runtime_checkable
class Decoder(Protocol):
    """`rows` sequences of at most `length` tokens, one new token each in a step."""

    def step(self, tokens: Int[Tensor, "rows"], positions: Int[Tensor, "rows"]) -> Output:
        """Feed one token a row at its own position: logits of the next token and the hidden state that the LM head reads."""
        ...


def decoder(model: LanguageModel, rows: int, length: int) -> Decoder:
    """The quickest decoder that runs `model`."""
    return Lockstep(model, rows, length) if isinstance(model, FastModel) else RowByRow(model, rows)


class Lockstep:
    """All rows in one pass through the layers of the fast engine, over one static cache."""

    def __init__(self, model: FastModel, rows: int, length: int):
        self.model, self.groups = model, model.shape.kv_heads
        shape = (model.shape.layers, rows, self.groups, length, model.shape.head_dim)
        self.keys = torch.zeros(shape, device=model.device, dtype=model.dtype)
        self.values = torch.zeros_like(self.keys)
        self.slots, self.rows = torch.arange(length, device=model.device), torch.arange(rows, device=model.device)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, "rows"], positions: Int[Tensor, "rows"]) -> Output:
        """See `Decoder`."""
        model = self.model
        tokens, self.positions = tokens.to(model.device), positions.to(model.device)
        self.unseen = (self.slots > self.positions[:, None])[:, None, None]
        x, (cos, sin) = F.embedding(tokens, model.embedding), model.rotary(self.positions, model.dtype)
        for i, layer in enumerate(model.layers):
            x = layer(x, cos, sin, i, [self])
        hidden = model.norm(x)
        return Output(model.head(hidden), hidden)

    def attend(self, layer: int, q: Float[Tensor, "rows h c"], kv: Float[Tensor, "rows g c"]) -> Float[Tensor, "rows hc"]:
        """Write every row's keys and values at its own position, then attend to what that row has written (q is scaled already)."""
        k, v = kv.split(self.groups, dim=1)
        self.keys[layer, self.rows, :, self.positions] = k
        self.values[layer, self.rows, :, self.positions] = v
        grouped = q.view(len(q), self.groups, -1, q.shape[2])
        # The whole buffer, not the filled part: on a CPU the product with a slice is seven times slower than with all of it.
        scores = (grouped @ self.keys[layer].transpose(-1, -2)).masked_fill_(self.unseen, -torch.inf)
        return (scores.softmax(-1) @ self.values[layer]).view(len(q), -1)


class RowByRow:
    """One pass a row, for any model: what the fast engine cannot run is slow, not impossible."""

    def __init__(self, model: LanguageModel, rows: int):
        self.model, self.caches = model, [model.new_cache() for _ in range(rows)]
        self.alone = torch.ones(1, 1, dtype=torch.bool)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, "rows"], positions: Int[Tensor, "rows"]) -> Output:
        """See `Decoder`."""
        outputs = []
        for cache, token, position in zip(self.caches, tokens[:, None], positions[:, None], strict=True):
            cache.keep(int(position), [])
            outputs.append(self.model.forward(cache, token, position, self.alone))
        return Output(torch.cat([output.logits for output in outputs]), torch.cat([output.hidden for output in outputs]))


def sample_top_k(
    logits: Float[Tensor, "rows V"], k: int, temperature: Float[Tensor, "rows"], uniforms: Float[Tensor, "rows"]
) -> Int[Tensor, "rows"]:
    """One draw a row from the `k` most likely tokens at the row's own temperature (0: the most likely), by its own uniform number."""
    values, ids = logits.topk(min(k, logits.shape[-1]), dim=-1)
    scaled = (values - values[:, :1]).float() / temperature.clamp(min=1e-4)[:, None]
    chances = scaled.softmax(-1).cumsum(-1)
    choice = (chances <= uniforms[:, None] * chances[:, -1:]).sum(-1).clamp(max=values.shape[1] - 1)
    return ids.gather(1, choice[:, None])[:, 0]
