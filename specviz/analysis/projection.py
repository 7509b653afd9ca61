"""What the passes of a run would cost if they served a batch, here or on another machine: computed from the recorded counts and two roofs.

    FLOPs(B) = B · FLOPs        bytes(B) = weights + B · (bytes − weights)        t(B) = max(FLOPs(B) ÷ peak, bytes(B) ÷ bandwidth)

The weights are read once for all B sequences; keys, values, logits and products are each sequence's own. A larger batch therefore raises
the intensity of a pass, up to FLOPs ÷ (bytes − weights). While plain decoding is bound by memory, candidates ride along for little; once a
pass is bound by arithmetic each one costs its full price (Leviathan et al. 2023, 3.4; Williams et al. 2009 for the roofline):

    speed-up(B) = Σ tokens · t(plain, B) ÷ Σ t(pass, B)        over the steps, and over the passes of target and proposer in each

which is m·t(1, B) ÷ (t(n, B) + drafting) where all steps are alike: n tokens in a target pass, m tokens gained. Assumed: every pass
reaches its roof (real ones reach a part of it), and every sequence is as long, and accepts as much, as the one that was recorded.
assets/player/projection.js is the twin of this file.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from specviz.analysis.quantities import ratio
from specviz.trace import Header, Pass, Step

MOST = 4096  # sequences at once: beyond this nobody is asked whether speculation still pays


class Roofs(Protocol):
    """A machine: its peak FLOP/s and its memory's bytes/s, measured or from a datasheet."""

    @property
    def flops(self) -> float:
        """Peak FLOP/s."""
        ...

    @property
    def bandwidth(self) -> float:
        """Bytes/s."""
        ...


@dataclass(frozen=True)
class Load:
    """What a pass asks of a machine: operations, bytes, and how many of the bytes are weights."""

    flops: float
    bytes: float
    weights: float

    def times(self, batch: int) -> "Load":
        """The same pass for `batch` sequences at once."""
        return Load(batch * self.flops, self.weights + batch * (self.bytes - self.weights), self.weights)

    def seconds(self, roofs: Roofs) -> float:
        """The least time that it can take under `roofs`."""
        return max(self.flops / roofs.flops, self.bytes / roofs.bandwidth)


@dataclass(frozen=True)
class Round:
    """A step as the roofline sees it: the tokens that it committed, a plain pass at its context, the target's pass, the proposer's."""

    tokens: int
    plain: Load
    target: Load
    proposer: tuple[Load, ...]


@dataclass(frozen=True)
class Speculation:
    """Speculation against plain decoding under the roofs of a machine, by the batch size. `n` and `m` are means over the steps."""

    rounds: tuple[Round, ...]
    n: float
    m: float

    def cost(self, roofs: Roofs, batch: int = 1) -> float | None:
        """How many times as long as a plain pass the target's passes take."""
        return ratio(*(_total((getattr(one, part) for one in self.rounds), roofs, batch) for part in ("target", "plain")))

    def speedup(self, roofs: Roofs, batch: int = 1) -> float | None:
        """How many times as fast as plain decoding; below 1 speculation does not pay."""
        plain = sum(one.tokens * one.plain.times(batch).seconds(roofs) for one in self.rounds)
        return ratio(plain, _total((load for one in self.rounds for load in (one.target, *one.proposer)), roofs, batch))

    def stops(self, roofs: Roofs) -> int | None:
        """The batch size from which on speculation is no faster than plain decoding; None where it still is at `MOST` sequences.

        Found by doubling, then by halving the interval: the speed-up may rise first, where keys and values outweigh the weights.
        """

        def pays(batch: int) -> bool:
            speedup = self.speedup(roofs, batch)
            return speedup is not None and speedup > 1

        high = 1
        while pays(high):
            if high >= MOST:
                return None
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if pays(middle) else (low, middle)
        return high


def load(work: Pass) -> Load | None:
    """The load of a recorded pass; None where its weights were not recorded, or there is nothing in it."""
    empty = work.weights is None or not (work.flops > 0 and work.bytes > 0)
    return None if empty else Load(work.flops, work.bytes, work.weights or 0.0)


def speculation(header: Header, steps: Sequence[Step]) -> Speculation | None:
    """The steps of a run as loads; None without steps, and where weights or plain passes were not recorded."""
    plain = _plain(header)
    passes = [[work for work in step.passes if work.kind != "prefill"] for step in steps]
    if plain is None or not steps or any(load(work) is None for step in passes for work in step):
        return None
    rounds, widths = [], []
    for step, works in zip(steps, passes, strict=True):
        target = [work for work in works if work.kind != "draft"]
        if len(target) != 1:
            return None
        proposer = _loads(work for work in works if work.kind == "draft")
        rounds.append(Round(len(step.emitted), plain(target[0].context), _loads(target)[0], proposer))
        widths.append(target[0].tokens)
    return Speculation(tuple(rounds), sum(widths) / len(steps), sum(one.tokens for one in rounds) / len(steps))


def _plain(header: Header) -> Callable[[int], Load] | None:
    """The load of a plain pass at any context: its counts are linear in it, so two recorded passes give the line."""
    recorded = [*(header.timings.passes if header.timings else ()), *(header.baseline.passes if header.baseline else ())]
    known = [(work.context, one) for work in recorded if work.kind == "plain" and (one := load(work))]
    if not known:
        return None
    (start, first), (end, last) = known[0], known[-1]

    def at(context: int) -> Load:
        way = (context - start) / (end - start) if end != start else 0.0
        return Load(first.flops + way * (last.flops - first.flops), first.bytes + way * (last.bytes - first.bytes), first.weights)

    return at


def _loads(works: Iterable[Pass]) -> tuple[Load, ...]:
    return tuple(one for work in works if (one := load(work)))


def _total(loads: Iterable[Load], roofs: Roofs, batch: int) -> float:
    return sum(one.times(batch).seconds(roofs) for one in loads)
