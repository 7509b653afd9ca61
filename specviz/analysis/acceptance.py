"""How much of what was proposed was taken. Only committed tokens count: what an EOS or the budget cut off was never tested.

    tested      candidates with a verdict, accepted or refused. What that means is the rule's: rejection tests siblings one by one until
                one is accepted; one argmax (greedy) or one draw (match) decides over all siblings; typical acceptance tests every
                candidate whose ancestors all pass
    drafted     all candidates of the trees
    reached     steps in which any candidate of a depth was tested; accepted ÷ reached is the chance to get past that depth

Prefixes are cheap: `running` gives the counts after every step.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from specviz.analysis.quantities import Quantity, ratio
from specviz.config import DecodeConfig
from specviz.trace import Step


@dataclass(frozen=True)
class Depth:
    """Counts at one depth of the trees."""

    tested: int = 0
    accepted: int = 0
    reached: int = 0

    def __add__(self, other: "Depth") -> "Depth":
        return Depth(self.tested + other.tested, self.accepted + other.accepted, self.reached + other.reached)

    @property
    def rate(self) -> float | None:
        """accepted ÷ reached"""
        return ratio(self.accepted, self.reached)


@dataclass(frozen=True)
class Acceptance:
    """Counts over some steps; they add up. `depths[0]` is depth 1, the children of the root.

    `overlap` is Σ (1 − TV(p, q)) over the `compared` tests for which that is the chance of acceptance: see `comparable`.
    """

    steps: int = 0
    tokens: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    overlap: float = 0.0
    compared: int = 0
    depths: tuple[Depth, ...] = field(default=())

    def __add__(self, other: "Acceptance") -> "Acceptance":
        depths = tuple(a + b for a, b in zip_longest(self.depths, other.depths, fillvalue=Depth()))
        names = ("steps", "tokens", "drafted", "tested", "accepted", "overlap", "compared")
        return Acceptance(**{name: getattr(self, name) + getattr(other, name) for name in names}, depths=depths)

    @property
    def rate(self) -> float | None:
        """The acceptance rate, accepted ÷ tested; None where nothing was tested."""
        return ratio(self.accepted, self.tested)

    @property
    def yield_(self) -> float | None:
        """accepted ÷ drafted, what vLLM calls the acceptance rate; None where nothing was drafted."""
        return ratio(self.accepted, self.drafted)

    @property
    def tokens_per_step(self) -> float | None:
        """Committed tokens a target pass, the recovered or bonus one included; None without steps."""
        return ratio(self.tokens, self.steps)

    @property
    def expected_rate(self) -> float | None:
        """α: the mean of 1 − TV(p, q) over the tests (Leviathan et al. 2023, theorem 3.5); None where it predicts nothing."""
        return self.overlap / self.compared if self.compared and self.compared == self.tested else None

    def quantities(self) -> tuple[Quantity, ...]:
        """The figures, each with its formula. `observed` beside `expected` differ by chance alone."""
        return (
            Quantity("acceptance.tokens_per_step", self.tokens_per_step, "formula.tokens_per_step", "measured"),
            Quantity("acceptance.rate", self.rate, "formula.acceptance_rate", "measured"),
            Quantity("acceptance.yield", self.yield_, "formula.acceptance_yield", "measured"),
            Quantity("acceptance.expected", self.expected_rate, "formula.expected_acceptance", "computed"),
        )


def acceptance(steps: Iterable[Step], config: DecodeConfig) -> Acceptance:
    """The counts over `steps`: those of a trace, or any prefix of them."""
    return sum((count(step, config) for step in steps), Acceptance())


def running(steps: Sequence[Step], config: DecodeConfig) -> Iterator[Acceptance]:
    """The counts after each step, from the first on."""
    return accumulate(count(step, config) for step in steps)


def count(step: Step, config: DecodeConfig) -> Acceptance:
    """The counts of one step."""
    depths = _depths(step)
    committed = len(step.emitted)  # position d of the step holds the candidates of depth d
    tests = [node for node in range(1, len(step.tree)) if _tested(step, node) and depths[node] <= committed]
    overlaps = [1 - (step.rows[step.tree[node].parent].tv or 0.0) for node in tests] if comparable(step, config) else []
    accepted = sum(token.node is not None for token in step.emitted)
    return Acceptance(
        steps=1, tokens=committed, drafted=len(step.tree) - 1, tested=len(tests), accepted=accepted,
        overlap=sum(overlaps), compared=len(overlaps), depths=_by_depth(step, [(depths[node], node) for node in tests]),
    )  # fmt: skip


def comparable(step: Step, config: DecodeConfig) -> bool:
    """Whether a test's chance of acceptance is Σ min(p, q) = 1 − TV(p, q): rejection sampling of a chain that was drawn from q.

    Not so for the argmax, for a draw of the target (that matches with chance Σ p·q), for chosen candidates, for second siblings.
    """
    if config.greedy or config.rule != "rejection" or len(step.tree) == 1:
        return False
    chain = all(node.parent == i for i, node in enumerate(step.tree[1:]))
    drawn = all(node.q_test is not None and node.q is not None and abs(node.q_test - node.q) < 1e-6 for node in step.tree[1:])
    return chain and drawn and all(row.tv is not None for row in step.rows[:-1])


def _tested(step: Step, node: int) -> bool:
    return step.tree[node].verdict in ("accepted", "refused")


def _depths(step: Step) -> list[int]:
    depths = [0]
    for node in step.tree[1:]:
        depths.append(depths[node.parent] + 1)
    return depths


def _by_depth(step: Step, tests: Sequence[tuple[int, int]]) -> tuple[Depth, ...]:
    """`tests` are pairs of depth and node."""
    counts = [Depth()] * max((depth for depth, _ in tests), default=0)
    for depth, node in tests:
        first = counts[depth - 1].tested == 0
        counts[depth - 1] += Depth(1, int(step.tree[node].verdict == "accepted"), int(first))
    return tuple(counts)
