"""The cost model of a run: what a step should cost by the measured times of the passes, and when speculation pays.

    m · t_plain  >  K · t_draft + t_verify(n) + the time outside of the passes            speculation pays
    speed-up     =  m · t_plain / (K · t_draft + t_verify(n) + the time outside)
    m            =  (1 − α^(K+1)) / (1 − α)                                               expected tokens a step

after Leviathan et al. 2023 (eq. 1 for m, theorem 3.8 for the speed-up), who take t_verify(n) = t_plain. Here t_verify(n) is what a pass of
n = 1 + candidates tokens was measured to take on this machine, which is more. Measured: t_plain (the median time of a plain token in the
run's own baseline), the passes of `Header.timings`, and the time outside of passes (from the run's steps). Computed: everything else.

Between two measured sizes of a pass its time is interpolated linearly; beyond the largest one there is no time, and none is made up.
assets/player/cost.js is the twin in JavaScript, which the page's sliders use.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median
from typing import Literal

from specviz.analysis.acceptance import Acceptance
from specviz.analysis.speed import expected_tokens
from specviz.trace import Header, Step

LONGEST = 16  # candidates of a chain: what is asked about, where the run's own chain is not longer

Curve = tuple[tuple[int, float], ...]  # (size, value), ascending by size
AlphaKind = Literal["overlap", "observed"]


@dataclass(frozen=True)
class Prediction:
    """A step as the model expects it, in seconds. `at` is what was asked about: K, or the number of candidates.

    `rows` are the tokens of the verify pass, `expected` the tokens a step yields. `outside` is the time outside of the passes.
    """

    at: int
    rows: int
    expected: float
    drafting: float
    verifying: float
    outside: float
    plain: float

    @property
    def cost(self) -> float:
        """Seconds a step."""
        return self.drafting + self.verifying + self.outside

    @property
    def break_even(self) -> float:
        """Tokens a step from which on the step is worth its time."""
        return self.cost / self.plain

    @property
    def speedup(self) -> float:
        """How many times as fast as plain decoding."""
        return self.expected * self.plain / self.cost


@dataclass(frozen=True)
class CostModel:
    """The measured times, and the tree that the run proposes.

    `plain` is t_plain; `verify` gives the seconds of a target pass by its tokens, `draft` those of a pass of the proposer. `levels` are the
    candidates by depth: all 1 for a chain; `fed` are those among them that have children, None where only the last level has none. With
    `once` a single call proposes all depths (heads); otherwise each depth takes a pass; without `draft` proposing takes none (n-gram
    lookup). `trees` gives the expected tokens of the calibrated tree by its candidates. `hits` is the share of steps in which anything was
    proposed. Outside of its passes a step takes `per_step`, and `per_draft` for each drafting pass.
    """

    plain: float
    verify: Curve
    draft: Curve = ()
    levels: tuple[int, ...] = (1,) * LONGEST
    fed: tuple[int, ...] | None = None
    once: bool = False
    trees: Curve = ()
    hits: float = 1.0
    per_step: float = 0.0
    per_draft: float = 0.0

    @property
    def ratio(self) -> float:
        """c = t_draft / t_plain: one pass of the proposer against a plain token."""
        return self.draft[0][1] / self.plain if self.draft else 0.0

    def with_ratio(self, ratio: float) -> "CostModel":
        """The same machine with another proposer: all its passes take ratio / `self.ratio` times as long."""
        if self.ratio == 0:  # nothing to scale: passes that all take the same time
            return replace(self, draft=tuple((size, ratio * self.plain) for size in (1, self.verify[-1][0])) if ratio else ())
        return replace(self, draft=tuple((size, seconds * ratio / self.ratio) for size, seconds in self.draft))

    def calls(self, k: int) -> tuple[int, ...]:
        """The tokens of each of the proposer's passes, for K levels: the root, then what has children in every level but the last.

        That the first pass may have one more token to read, after a step in which everything was accepted, is left out.
        """
        if not self.draft or k == 0:
            return ()
        return (self.draft[0][0],) if self.once else (1, *(self.fed or self.levels)[: k - 1])

    def predict(self, alpha: float, k: int) -> Prediction | None:
        """A step of K levels, each of which is passed with chance α; None where a pass would be larger than any that was measured."""
        return self._prediction(k, 1 + sum(self.levels[:k]), expected_tokens(alpha, k), self.calls(k))

    def predict_tree(self, candidates: int) -> Prediction | None:
        """A step of the calibrated tree of so many candidates; its expected tokens are those of the heads' calibration."""
        expected = interpolate(self.trees, candidates)
        return None if expected is None else self._prediction(candidates, 1 + candidates, expected, self.calls(1))

    def _prediction(self, at: int, rows: int, expected: float, calls: tuple[int, ...]) -> Prediction | None:
        drafts = [seconds for tokens in calls if (seconds := interpolate(self.draft, tokens)) is not None]
        verify, alone = interpolate(self.verify, rows), interpolate(self.verify, 1)
        if verify is None or alone is None or len(drafts) < len(calls):
            return None
        hit = self.hits
        verifying, outside = hit * verify + (1 - hit) * alone, self.per_step + hit * self.per_draft * len(calls)
        return Prediction(at, rows, 1 + hit * (expected - 1), hit * sum(drafts), verifying, outside, self.plain)

    def by_depth(self, alpha: float) -> list[Prediction]:
        """K = 1, 2, … as far as the passes were measured."""
        return _known(self.predict(alpha, k) for k in range(1, len(self.levels) + 1))

    def by_size(self) -> list[Prediction]:
        """The calibrated trees, as far as the passes were measured."""
        return _known(self.predict_tree(candidates) for candidates, _ in self.trees)

    def break_even_alpha(self, k: int) -> float | None:
        """The α from which on K levels are worth their time; None where not even α = 1 is enough (see `Prediction.break_even`)."""
        least, most = self.predict(0.0, k), self.predict(1.0, k)
        if least is None or most is None or most.speedup < 1:
            return None
        low, high = 0.0, 0.0 if least.speedup >= 1 else 1.0
        for _ in range(50):  # halvings: expected tokens rise with α, the costs do not depend on it
            middle = (low + high) / 2
            found = self.predict(middle, k)
            low, high = (low, middle) if found is not None and found.speedup >= 1 else (middle, high)
        return high


def interpolate(curve: Curve, at: float) -> float | None:
    """The value of a measured curve at `at`, linear between its points; None outside of them."""
    for (low, before), (high, after) in pairwise(curve):
        if low <= at <= high:
            return before + (after - before) * (at - low) / (high - low)
    return curve[0][1] if curve and curve[0][0] == at else None


def best(predictions: Sequence[Prediction], by: Callable[[Prediction], float] = lambda one: one.speedup) -> Prediction | None:
    """The one with most of `by` (by default the largest speed-up: the most tokens a second); the first of equals."""
    return max(predictions, key=by, default=None)


def alpha(counts: Acceptance) -> tuple[float, AlphaKind] | None:
    """α, the chance that a level is passed, and where it comes from; None where nothing was tested.

    "overlap": the mean of 1 − TV(p, q) over the tests (Leviathan et al. 2023, corollary 3.6), for chains drawn from q under rejection.
    "observed": elsewhere, levels passed ÷ levels reached, over all depths together: given that a level was reached, was any of its
    candidates accepted?
    """
    if counts.expected_rate is not None:
        return max(0.0, counts.expected_rate), "overlap"  # a TV from rounded probabilities may exceed 1 by a hair
    reached = sum(depth.reached for depth in counts.depths)
    return (sum(depth.accepted for depth in counts.depths) / reached, "observed") if reached else None


def cost_model(header: Header, steps: Sequence[Step]) -> CostModel | None:
    """The model of a run; None where its passes were not measured, or nothing was proposed."""
    proposing = [step for step in steps if len(step.tree) > 1]
    verify, draft = measured(header, "plain", "verify"), measured(header, "draft")
    method = header.config.method
    if header.timings is None or not proposing or interpolate(verify, 1) is None or (method in ("draft", "medusa") and not draft):
        return None
    per_step, per_draft = _outside(proposing, method)
    baseline = header.baseline
    return CostModel(
        plain=baseline.seconds_per_token if baseline and baseline.seconds else verify[0][1],
        verify=verify,
        draft=draft,
        levels=_levels(proposing),
        fed=_fed(proposing),
        once=method == "medusa",
        trees=tuple((tree.candidates, tree.tokens) for tree in header.timings.trees),
        hits=len(proposing) / len(steps) if method == "ngram" else 1.0,  # elsewhere only the budget's end leaves a step without
        per_step=per_step,
        per_draft=per_draft,
    )


def measured(header: Header, *kinds: str) -> Curve:
    """The median seconds of the measured passes of these kinds, by their tokens."""
    passes = [work for work in header.timings.passes if work.kind in kinds] if header.timings else []
    sizes = sorted({work.tokens for work in passes})
    return tuple((size, median(work.seconds for work in passes if work.tokens == size)) for size in sizes)


def depth_of(steps: Iterable[Step]) -> int:
    """K of a run: the depth of its deepest tree."""
    return max((max(_depths(step)) for step in steps), default=0)


def _depths(step: Step) -> list[int]:
    depths = [0]
    for node in step.tree[1:]:
        depths.append(depths[node.parent] + 1)
    return depths


def _levels(steps: Sequence[Step]) -> tuple[int, ...]:
    """Candidates by depth: of a chain, as long as anybody may ask for; else of the run's largest tree."""
    if all(node.parent == i for step in steps for i, node in enumerate(step.tree[1:])):
        return (1,) * max(LONGEST, depth_of(steps))
    depths = _depths(max(steps, key=lambda step: len(step.tree)))
    return tuple(depths.count(depth) for depth in range(1, max(depths) + 1))


def _fed(steps: Sequence[Step]) -> tuple[int, ...] | None:
    """Candidates with children by depth, of the run's largest tree; None where all but the last level have some."""
    step = max(steps, key=lambda step: len(step.tree))
    depths, parents = _depths(step), {node.parent for node in step.tree}
    fed = tuple(sum(depths[node] == depth for node in parents if node > 0) for depth in range(1, max(depths)))
    return None if fed == tuple(map(depths.count, range(1, max(depths)))) else fed


def _outside(steps: Sequence[Step], method: str) -> tuple[float, float]:
    """The median time outside of passes: of a step, and, where each level is a pass of a draft, for each of these passes apart."""
    drafts = [[work.seconds for work in step.passes if work.kind == "draft"] for step in steps]
    verify = [sum(work.seconds for work in step.passes if work.kind in ("plain", "verify")) for step in steps]
    decode = [step.seconds.decode - seconds for step, seconds in zip(steps, verify, strict=True)]
    if method != "draft":
        return median(time - sum(passes) for time, passes in zip(decode, drafts, strict=True)), 0.0
    proposing = [(step.seconds.propose - sum(passes)) / len(passes) for step, passes in zip(steps, drafts, strict=True) if passes]
    return median(time - step.seconds.propose for step, time in zip(steps, decode, strict=True)), median(proposing or [0.0])


def _known(predictions: Iterable[Prediction | None]) -> list[Prediction]:
    """Up to the first that is not known."""
    return [one for one in takewhile(lambda found: found is not None, predictions) if one is not None]
