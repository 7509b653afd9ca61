"""How fast a run was, against plain decoding on the same machine and prompt, and what the models of the literature would expect.

A step's time is propose + verify + commit. Writing the step down is kept apart: decoding alone would not pay it. The prompt's pass
(prefill) belongs to neither side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.analysis.quantities import Quantity, ratio
from specviz.trace import Baseline, Step


@dataclass(frozen=True)
class Speed:
    """Seconds of some steps, summed, and the tokens they committed; `plain` is the measured median time of a plain token."""

    tokens: int
    propose: float
    verify: float
    commit: float
    record: float
    plain: float | None

    @property
    def decode(self) -> float:
        """Seconds of decoding, without the recording."""
        return self.propose + self.verify + self.commit

    @property
    def per_token(self) -> float | None:
        """Seconds a token; None without tokens."""
        return ratio(self.decode, self.tokens)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as plain decoding; below 1 it is slower. None without a baseline."""
        return self.plain / self.per_token if self.plain is not None and self.per_token else None

    def shares(self) -> dict[str, float | None]:
        """What fraction of the decoding time each part took."""
        return {part: ratio(getattr(self, part), self.decode) for part in ("propose", "verify", "commit")}

    def quantities(self) -> tuple[Quantity, ...]:
        """The figures, each with its formula."""
        return (
            Quantity("speed.per_token", self.per_token, "formula.per_token", "measured"),
            Quantity("speed.plain", self.plain, "formula.plain_per_token", "measured"),
            Quantity("speed.speedup", self.speedup, "formula.speedup", "measured"),
            Quantity("speed.record", ratio(self.record, self.tokens), "formula.record", "measured"),
        )


def speed(steps: Sequence[Step], baseline: Baseline | None = None) -> Speed:
    """Sum the times of `steps`: those of a trace, or any part of them."""
    parts = {part: sum(getattr(step.seconds, part) for step in steps) for part in ("propose", "verify", "commit", "record")}
    plain = baseline.seconds_per_token if baseline is not None and baseline.seconds else None
    return Speed(tokens=sum(len(step.emitted) for step in steps), **parts, plain=plain)


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens a step of a chain of `k`: (1 − α^(K+1)) / (1 − α), and K + 1 at α = 1 (Leviathan et al. 2023, eq. 1).

    Every candidate is taken to be accepted with the same chance α, independently. Real acceptances vary along the text, and a varying α
    gives more than its mean does. Raises ValueError outside 0 ≤ α ≤ 1, k ≥ 0.
    """
    if not 0 <= alpha <= 1 or k < 0:
        raise ValueError(f"alpha must lie between 0 and 1 and k must not be negative, not {alpha} and {k}.")
    return sum(alpha**i for i in range(k + 1))  # the same sum, without the division that fails at 1


def expected_quantity(alpha: float | None, k: int) -> Quantity:
    """`expected_tokens` as a figure; undefined where α is."""
    value = None if alpha is None else expected_tokens(alpha, k)
    return Quantity("speed.expected_tokens", value, "formula.expected_tokens", "computed")
