"""Medusa-1 heads (Cai et al. 2024) on stored hidden states: the target stays as it is and never runs.

Head k (1-based) at token t predicts token t+k+1 as softmax(W₂·(h_t + SiLU(W₁·h_t + b))). W₁ and b start at zero and W₂ at the target's
LM head, so that at first every head is the LM head (the paper zeroes W₁; a random bias would spoil the equality). W₂ is shared and stays
the target's (second format), or is each head's own and is trained (first format, `untied`).

The loss is Σ_k 0.8^k · CE_k. Labels are the tokens t+k+1 of the text, or the distribution that the target had there, softmax(E·h_{t+k}),
of which a drawn token is one draw: the same gradient in expectation, with less variance. Heads and labels are restricted to the tokens
of `token_map`, the most frequent of the corpus; a soft label is renormalised there, a token outside is no label.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.files import write_tensors, write_text
from specviz.models.medusa import residual
from specviz.training import data
from specviz.training.corpus import Corpus
from specviz.training.loop import Schedule

LABELS = ("soft", "text")
DECAY = 0.8  # λ_k = 0.8^k, as published
RANKS = 10
FILE = "medusa.safetensors"


@dataclass(frozen=True)
class Recipe(Schedule):
    """How heads are trained; `vocabulary` is the number of tokens that they score, `labels` (of LABELS) what they are judged by."""

    heads: int = 4
    layers: int = 1
    vocabulary: int = 4096
    untied: bool = False
    labels: str | None = None  # None: by the kind of corpus
    batch: int = 2048
    peak: float = 2e-3


class Blocks:
    """The trained part of all heads, fp32: W₁ [k, layers, d, d] and b [k, layers, d], zero at first; W₂ [k, v, d] where it is untied."""

    def __init__(
        self, heads: int, width: int, layers: int = 1, head: Float[Tensor, "v d"] | None = None, device: torch.device | str = "cpu"
    ):
        self.weight = torch.zeros(heads, layers, width, width, device=device, requires_grad=True)
        self.bias = torch.zeros(heads, layers, width, device=device, requires_grad=True)
        self.own = None if head is None else head.float().repeat(heads, 1, 1).requires_grad_()

    def __len__(self) -> int:
        return len(self.weight)

    def parameters(self) -> dict[str, Tensor]:
        """All trained tensors."""
        return {"weight": self.weight, "bias": self.bias} | ({} if self.own is None else {"own": self.own})

    def logits(self, k: int, hidden: Float[Tensor, "n d"], head: Float[Tensor, "v d"]) -> Float[Tensor, "n v"]:
        """Scores of head `k` (0-based); `head` is the shared W₂."""
        state = hidden
        for weight, bias in zip(self.weight[k], self.bias[k], strict=True):
            state = residual(state, weight.to(state.dtype), bias.to(state.dtype))
        return F.linear(state, head if self.own is None else self.own[k].to(state.dtype))

    def state(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The weights under the names of the public formats: the first where W₂ is untied, else the second."""
        named, layers = {}, self.weight.shape[1]
        for i in range(len(self)):
            for j in range(layers):
                named[f"{i}.{j}.linear.weight"] = self.weight[i, j].detach().to(dtype)
                named[f"{i}.{j}.linear.bias"] = self.bias[i, j].detach().to(dtype)
            if self.own is not None:
                named[f"{i}.{layers}.weight"] = self.own[i].detach().to(dtype)
        return {name: tensor.contiguous() for name, tensor in named.items()}

    @torch.no_grad()
    def start_from(self, folder: Path, token_map: Int[Tensor, "v"] | None = None) -> None:
        """Begin with the trained heads of `folder` (as this module saves them): as many of their heads and blocks as there are here.

        An untied W₂ is taken as well, the rows of those tokens of `token_map`, ours, that those heads score too. Raises Fault where the
        folder holds no heads, or heads of another width.
        """
        path = folder / FILE
        if not path.is_file():
            raise Fault("error.checkpoint_missing", path=folder, wanted=FILE)
        tensors, layers = load_file(path), self.weight.shape[1]
        for i in range(len(self)):
            for j in range(layers):
                for part, own in (("weight", self.weight[i, j]), ("bias", self.bias[i, j])):
                    if (name := f"{i}.{j}.linear.{part}") in tensors:
                        own.copy_(data.fitting(tensors[name], own, name, path))
            if self.own is not None and token_map is not None and (name := f"{i}.{layers}.weight") in tensors:
                theirs = tensors.get("token_map", torch.arange(len(tensors[name]))).long()
                ours = _places(token_map, 1 + max(int(token_map.max()), int(theirs.max())))[theirs]
                self.own[i, ours[ours >= 0]] = tensors[name][ours >= 0].to(self.own)


def soft_cross_entropy(logits: Float[Tensor, "n v"], labels: Float[Tensor, "n v"], counted: Bool[Tensor, "n"]) -> Float[Tensor, ""]:
    """Mean over the counted rows of −Σ_x labels(x) · log softmax(logits)(x)."""
    rows = -(labels * logits.float().log_softmax(-1)).sum(-1)
    return (rows * counted).sum() / counted.sum().clamp(min=1)


def text_cross_entropy(logits: Float[Tensor, "n v"], labels: Int[Tensor, "n"], counted: Bool[Tensor, "n"]) -> Float[Tensor, ""]:
    """Mean over the counted rows of −log softmax(logits)(label); a label of −1 (a token that no head scores) does not count."""
    known = counted & (labels >= 0)
    rows = F.cross_entropy(logits.float(), labels.clamp(min=0), reduction="none")
    return (rows * known).sum() / known.sum().clamp(min=1)


def losses(
    blocks: Blocks,
    hidden: Float[Tensor, "n d"],
    owner: Int[Tensor, "n"],
    head: Float[Tensor, "v d"],
    teacher: Float[Tensor, "n d"] | None = None,
    text: Int[Tensor, "n"] | None = None,
) -> list[Float[Tensor, ""]]:
    """CE_k of every head over learned places in a list; a pair of places of two owners does not count.

    `teacher` are the target's own states at these places (`hidden` itself where it is not trained), for soft labels; with `text`, the
    token behind each place as a row of `head` (−1: none), labels are those.
    """
    labels: Tensor
    if text is None:
        with torch.no_grad():
            labels = F.linear(hidden if teacher is None else teacher, head).float().softmax(-1).to(hidden.dtype)
    else:
        labels = text
    cross_entropy: Callable[..., Tensor] = soft_cross_entropy if text is None else text_cross_entropy
    found = []
    for k in range(1, len(blocks) + 1):
        scores = blocks.logits(k - 1, hidden[:-k], head)  # from h_t, to be compared with what came behind place t+k: token t+k+1
        found.append(cross_entropy(scores, labels[k:], owner[:-k] == owner[k:]))
    return found


def text_labels(corpus: Corpus, rows: Int[Tensor, "n"], token_map: Int[Tensor, "v"], size: int) -> Int[Tensor, "n"]:
    """The token behind each corpus row, as its place in `token_map`; −1 where that has none, or where the conversation ends."""
    following = _places(token_map, size)[corpus.tokens[(rows + 1).clamp(max=len(corpus.tokens) - 1)].long()]
    return torch.where(torch.isin(rows, corpus.ends), -1, following)


def _places(token_map: Int[Tensor, "v"], size: int) -> Int[Tensor, "{size}"]:
    """The place of each id below `size` in `token_map`; −1 where it has none."""
    place = torch.full((size,), -1)
    place[token_map.long()] = torch.arange(len(token_map))
    return place


class Medusa1:
    """The task (see `loop.Task`): heads for the LM head `head` on the corpus's own hidden states; `start` is the folder of heads to begin
    with."""

    def __init__(self, head: Float[Tensor, "V d"], corpus: Corpus, recipe: Recipe, start: Path | None = None):
        learned, self.held = data.split(corpus)
        data.refuse_unjudgeable(corpus, self.held, recipe.heads + 1)
        self.corpus, self.recipe, self.full = corpus, recipe, head
        self.token_map = data.scored(corpus, learned, recipe.vocabulary, start and start / FILE)
        self.head = head[self.token_map.long().to(head.device)].contiguous()
        self.blocks = Blocks(recipe.heads, head.shape[1], recipe.layers, self.head if recipe.untied else None, head.device)
        if start is not None:
            self.blocks.start_from(start, self.token_map)

    def parameters(self) -> dict[str, Tensor]:
        """See `Task`."""
        return self.blocks.parameters()

    def groups(self) -> list[tuple[list[Tensor], float]]:
        """W₂ starts where it should end nearly, so it moves more slowly."""
        return [([self.blocks.weight, self.blocks.bias], 1.0)] + ([] if self.blocks.own is None else [([self.blocks.own], 0.5)])

    def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
        """Σ_k 0.8^k · CE_k."""
        hidden = self.corpus.hidden[batch.rows].to(self.head)
        text = None
        if self.recipe.labels == "text":
            text = text_labels(self.corpus, batch.rows, self.token_map, len(self.full)).to(self.head.device)
        parts = losses(self.blocks, hidden, batch.owner.to(self.head.device), self.head, text=text)
        return {f"head {k}": (DECAY**k, part) for k, part in enumerate(parts, start=1)}

    def held_out(self) -> dict[str, Any]:
        """How often each head's candidate of a rank is the text's token, on the held-out conversations."""
        return {"text_accuracies": accuracies(self.corpus, self.held, self.blocks, self.head, self.token_map)}

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        """medusa.safetensors and medusa.json."""
        save(self.blocks, self.token_map, folder, {"recipe": vars(self.recipe), **facts})


@torch.inference_mode()
def accuracies(
    corpus: Corpus,
    held: Sequence[int],
    blocks: Blocks,
    head: Float[Tensor, "v d"],
    token_map: Int[Tensor, "v"],
    hidden: Tensor | None = None,
) -> list[list[float]]:
    """accuracies[head][rank]: the share of learned places t where candidate `rank` of head k is token t+k+1 of the held-out texts.

    `hidden` replaces the corpus's states at the learned places of `held`, in order.
    """
    batch = data.batch_of(corpus, held)
    states = (corpus.hidden[batch.rows] if hidden is None else hidden).to(head)
    labels = text_labels(corpus, batch.rows, token_map, max(int(corpus.tokens.max()), int(token_map.max())) + 1)
    inside = ~torch.isin(batch.rows, corpus.ends)
    ranks, found = min(RANKS, len(token_map)), []
    for k in range(1, len(blocks) + 1):
        pairs = (batch.owner[:-k] == batch.owner[k:]) & inside[k:]
        best = torch.cat([blocks.logits(k - 1, part, head).topk(ranks, dim=-1).indices for part in states[:-k][pairs].split(1024)])
        hits = (best.cpu() == labels[k:][pairs][:, None]).float().mean(0)
        found.append([round(hit, 5) for hit in hits.tolist()])
    return found


def save(blocks: Blocks, token_map: Int[Tensor, "v"], out: Path, facts: dict[str, Any], dtype: torch.dtype = torch.bfloat16) -> None:
    """Write medusa.safetensors (a public format and a token map) and medusa.json into the folder `out`."""
    write_tensors({**blocks.state(dtype), "token_map": token_map}, out / FILE)
    config = {"version": "2" if blocks.own is None else "1", "medusa_num_heads": len(blocks), "medusa_num_layers": blocks.weight.shape[1]}
    config |= {"hidden_size": blocks.weight.shape[-1], "truncated_vocab_size": len(token_map)}
    write_text(json.dumps({**config, **facts}, indent=1) + "\n", out / "medusa.json")
