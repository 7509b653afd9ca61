"""From logits to distributions, and from distributions to tokens.

Warping comes before p and q are compared: speculative sampling is lossless for the *warped* target, whatever the proposer does.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.i18n import Fault

_BLOCK = 256  # tokens summed up before one of them is looked for
_NUCLEUS = 2048  # candidates among which top-p looks first; a full sort of the vocabulary costs more than the forward pass


def warp(logits: Float[Tensor, "n V"], config: DecodeConfig, text: Sequence[int], paths: Sequence[Sequence[int]]) -> Float[Tensor, "n V"]:
    """Distributions after repetition penalty, temperature, top-k and top-p; row i answers the tokens of `text`, then those of paths[i].

    Always in fp32 (half precision loses mass over a large vocabulary); fp64 logits stay fp64. At temperature 0 the rows are those of
    temperature 1: the argmax is the same, and that is all that decides. Raises Fault when the model's numbers are not finite.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if config.repetition_penalty != 1:
        logits = penalised(logits, config.repetition_penalty, text, paths)
    p = torch.softmax(logits if config.shown_temperature == 1 else logits / config.shown_temperature, dim=-1)
    if not torch.isfinite(p[:, 0]).all():  # one number that is not finite makes a whole row of the softmax so
        raise Fault("error.not_finite")
    if not 0 < config.top_k < p.shape[-1] and config.top_p == 1:
        return p
    if 0 < config.top_k < p.shape[-1]:
        p = p.masked_fill(p < p.topk(config.top_k, dim=-1).values[:, -1:], 0)
        p = p / p.sum(dim=-1, keepdim=True)  # top-p is a share of what top-k left
    if config.top_p < 1:
        p = _nucleus(p, config.top_p)
    return p / p.sum(dim=-1, keepdim=True)


def penalised(logits: Float[Tensor, "n V"], penalty: float, text: Sequence[int], paths: Sequence[Sequence[int]]) -> Float[Tensor, "n V"]:
    """Divide positive logits of tokens already seen by `penalty`, multiply negative ones (Keskar et al. 2019, section 4.1).

    A candidate's row has seen the candidates above it, and nothing of the other branches.
    """
    logits = logits.clone()
    for row, path in zip(logits, paths, strict=True):
        seen = torch.tensor(sorted({*text, *path}), device=logits.device)
        row[seen] = torch.where(row[seen] > 0, row[seen] / penalty, row[seen] * penalty)
    return logits


def _nucleus(p: Float[Tensor, "n V"], top_p: float) -> Float[Tensor, "n V"]:
    """Keep the smallest set of most probable tokens whose mass reaches `top_p` (Holtzman et al. 2020, section 3.1)."""
    size = min(_NUCLEUS, p.shape[-1])
    values, ids = p.topk(size, dim=-1)
    if size < p.shape[-1] and (values.sum(dim=-1) < top_p).any():
        values, ids = p.sort(dim=-1, descending=True)
    before = values.cumsum(dim=-1) - values
    kept = values.masked_fill(before >= top_p, 0)
    return torch.zeros_like(p).scatter_(-1, ids, kept)


def draw(p: Float[Tensor, "n V"], u: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
    """The token that each uniform picks from its row, by inverse CDF; never one of probability 0. Rows need not sum to 1.

    Sums are in fp64. First a block of tokens is picked, then a token of it: a running sum over a whole vocabulary costs more than a draft.
    """
    if p.shape[-1] <= _BLOCK:
        mass = p.double()
        return _pick(mass, u.double() * mass.sum(dim=-1))[0]
    blocks = torch.nn.functional.pad(p, (0, -p.shape[-1] % _BLOCK)).unflatten(-1, (-1, _BLOCK))
    mass = blocks.sum(dim=-1, dtype=torch.float64)
    block, rest = _pick(mass, u.double() * mass.sum(dim=-1))
    within = blocks[torch.arange(len(p), device=p.device), block].double()
    return block * _BLOCK + _pick(within, rest)[0]


def _pick(mass: Float[Tensor, "n m"], aim: Float[Tensor, "n"]) -> tuple[Int[Tensor, "n"], Float[Tensor, "n"]]:
    """Where the running sum of each row passes `aim`, and how far `aim` lies behind the sum before that place."""
    sums = mass.cumsum(dim=-1)
    last = mass.shape[-1] - 1 - (mass > 0).flip(-1).int().argmax(dim=-1)  # where `aim` was rounded up to the total
    place = torch.minimum(torch.searchsorted(sums, aim[:, None], right=True)[:, 0], last)[:, None]
    return place[:, 0], aim - (sums - mass).gather(1, place)[:, 0]


def draw_without_replacement(q: Float[Tensor, "n V"], count: int, generator: torch.Generator) -> list[list[int]]:
    """Up to `count` different tokens from every row, one drawn after the other without putting back; fewer where fewer have q > 0."""
    left = q
    drawn: list[list[int]] = [[] for _ in q]
    for _ in range(min(count, q.shape[1])):
        tokens = draw(left, torch.rand(len(q), generator=generator, dtype=torch.float64).to(q.device)).clamp(max=q.shape[1] - 1)[:, None]
        for row, token, mass in zip(drawn, tokens.tolist(), left.gather(1, tokens).tolist(), strict=True):
            row += token if mass[0] > 0 else []  # an empty row has nothing more to draw
        left = left.scatter(1, tokens, 0) if count > 1 else left
    return drawn


def fit(logits: Float[Tensor, "n Vq"], size: int) -> Float[Tensor, "n V"]:
    """A proposer's logits over the target's vocabulary: padded heads may differ in size though the tokenizer is the same.

    Ids that the target does not have are cut off, ids that the proposer does not have get probability 0.
    """
    missing = size - logits.shape[-1]
    return logits[:, :size] if missing <= 0 else torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
