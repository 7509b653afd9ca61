"""What every way of proposing has in common."""

import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.engine.costs import ModelShape
from specviz.engine.lm import Heads
from specviz.engine.tree import TokenTree
from specviz.trace import Match, Pass, PassKind


@dataclass
class Committed:
    """The run so far, as a proposer may see it: committed tokens, and the target's hidden state before the last of them.

    `hidden` is the row that the LM head turned into the last committed token (the root); None before the target has seen anything.
    """

    ids: list[int]
    hidden: Float[Tensor, "d"] | None
    config: DecodeConfig
    generator: torch.Generator


@dataclass(frozen=True)
class Proposal:
    """A tree of candidates, the passes that it cost, and the places of the text that it was copied from (see `Step.matches`)."""

    tree: TokenTree
    passes: tuple[Pass, ...] = ()
    matches: tuple[Match, ...] | None = None


@runtime_checkable
class Proposer(Protocol):
    """A way of proposing. It may keep state between steps (a draft's cache); `keep` tells it which of its candidates survived."""

    def begin(self, ids: list[int]) -> tuple[Pass, ...]:
        """See the prompt, before the first step; returns the passes that this took."""
        ...

    def propose(self, committed: Committed, depth: int) -> Proposal:
        """Candidates that follow the last committed token, at most `depth` deep."""
        ...

    def keep(self, path: tuple[int, ...]) -> None:
        """After the verdict: `path` are the accepted nodes of the last proposal."""
        ...


def pass_of(kind: PassKind, shape: ModelShape, tokens: int, context: int, seconds: float, scored: int | None = None) -> Pass:
    """The record of a pass: its computed costs beside its measured time."""
    flops, moved = shape.flops(tokens, context, scored), shape.bytes(tokens, context, scored)
    weights = shape.weight_bytes(tokens if scored is None else scored)
    return Pass(kind=kind, tokens=tokens, context=context, flops=flops, bytes=moved, weights=weights, seconds=seconds)


def heads_pass(heads: Heads, seconds: float) -> Pass:
    """The record of one call of Medusa heads."""
    counts = {"flops": heads.flops(), "bytes": heads.bytes(), "weights": heads.weight_bytes()}
    return Pass(kind="draft", tokens=1, context=0, **counts, seconds=seconds)


def clock(device: torch.device) -> float:
    """Seconds now, after all work queued on the device is done: only then is a difference of two readings the time of a pass."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()
