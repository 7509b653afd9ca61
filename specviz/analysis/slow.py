"""Why a run is slower, or faster, than plain decoding: its measured time, taken apart so that the parts add up exactly.

Per step, with t the measured median time of a plain token and m the committed tokens a step:

    gain       m·t − (time of a step): what a step saves; negative where the method loses
    credit     (m − 1)·t: the tokens that came without a plain token's time of their own (one is produced by the pass itself)
    drafting   the proposer's passes
    verifying  the target's pass beyond a plain pass: n tokens instead of one
    overhead   everything outside of passes (propose − its passes, commit) beyond what a plain token has of it
    gain     = credit − (drafting + verifying + overhead)

    full       (deepest path)·t: the credit had every candidate of the deepest path been accepted and kept
    refused    the part of it that low acceptance cost; cut: the part that the end of the text or the budget cut off
    credit   = full − refused − cut

So full = gain + refused + drafting + verifying + overhead + cut: each of the five is what a step would gain if that cause alone were
gone. Everything is measured or counted. Without a measured baseline there is no answer, and none is estimated.
assets/player/slow.js is the twin in JavaScript, which follows a run while it streams.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Literal

from specviz.analysis.quantities import number
from specviz.analysis.verdicts import Explanation
from specviz.trace import Header, Step

CauseName = Literal["refused", "drafting", "verifying", "overhead", "cut"]
CAUSES: tuple[CauseName, ...] = ("refused", "drafting", "verifying", "overhead", "cut")
ENOUGH = 8  # steps; a shorter run says little about the next one
SAME = 1.03  # speeds closer than this are the clock's scatter


@dataclass(frozen=True)
class Work:
    """Counts and seconds of some steps; they add up.

    `depth` sums the deepest path of each tree, `accepted` the accepted candidates, those included that were cut off afterwards.
    `empty` counts steps without candidates, `passes` the proposer's passes, `drafting` their seconds. `deepest` is the largest depth.
    """

    steps: int = 0
    tokens: int = 0
    candidates: int = 0
    depth: int = 0
    deepest: int = 0
    accepted: int = 0
    empty: int = 0
    passes: int = 0
    drafting: float = 0.0
    propose: float = 0.0
    verify: float = 0.0
    commit: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        sums = {field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        return Work(**(sums | {"deepest": max(self.deepest, other.deepest)}))

    @property
    def decode(self) -> float:
        """Seconds of decoding."""
        return self.propose + self.verify + self.commit


@dataclass(frozen=True)
class Why:
    """The parts of the difference, in seconds a step. `plain` is t, `plain_pass` the target's pass in it; `work` took some time."""

    work: Work
    plain: float
    plain_pass: float

    @property
    def tokens(self) -> float:
        """m: committed tokens a step."""
        return self.work.tokens / self.work.steps

    @property
    def step(self) -> float:
        """The time of a step."""
        return self.work.decode / self.work.steps

    @property
    def gain(self) -> float:
        """What a step saves against plain decoding of the same tokens."""
        return self.tokens * self.plain - self.step

    @property
    def speedup(self) -> float:
        """How many times as fast as plain decoding."""
        return self.tokens * self.plain / self.step

    @property
    def full(self) -> float:
        """The credit, had every candidate of the deepest path been accepted and kept."""
        return self.work.depth / self.work.steps * self.plain

    @property
    def refused(self) -> float:
        """What low acceptance cost."""
        return (self.work.depth - self.work.accepted) / self.work.steps * self.plain

    @property
    def cut(self) -> float:
        """What was accepted in vain: tokens behind the end of the text or the budget."""
        return (self.work.accepted + self.work.steps - self.work.tokens) / self.work.steps * self.plain

    @property
    def credit(self) -> float:
        """The tokens that came without a plain token's time of their own."""
        return (self.tokens - 1) * self.plain

    @property
    def drafting(self) -> float:
        """The proposer's passes."""
        return self.work.drafting / self.work.steps

    @property
    def verifying(self) -> float:
        """The target's pass over n tokens, beyond a plain pass; may be negative by the clock's scatter."""
        return self.work.verify / self.work.steps - self.plain_pass

    @property
    def overhead(self) -> float:
        """Everything outside of passes, beyond what a plain token has of it; may be negative by the clock's scatter."""
        return (self.work.propose - self.work.drafting + self.work.commit) / self.work.steps - (self.plain - self.plain_pass)


@dataclass(frozen=True)
class Cause:
    """One cause: what a step would gain without it, in seconds, and why in words."""

    name: CauseName
    seconds: float
    share: float
    why: Explanation


def work(step: Step) -> Work:
    """The counts and seconds of one step."""
    drafts = [each.seconds for each in step.passes if each.kind == "draft"]
    depths = [0]
    for node in step.tree[1:]:
        depths.append(depths[node.parent] + 1)
    return Work(
        steps=1, tokens=len(step.emitted), candidates=len(step.tree) - 1, depth=max(depths), deepest=max(depths),
        accepted=len(step.emitted) + step.dropped - 1, empty=int(len(step.tree) == 1), passes=len(drafts), drafting=sum(drafts),
        propose=step.seconds.propose, verify=step.seconds.verify, commit=step.seconds.commit,
    )  # fmt: skip


def silence(steps: Sequence[Step], header: Header) -> str | None:
    """The key of the sentence that stands where there is nothing to take apart, or None."""
    if header.config.method == "plain":
        return "slow.plain"
    if header.baseline is None or not header.baseline.seconds or not header.baseline.seconds_per_token:
        return "slow.no_baseline"
    return None if any(step.seconds.decode for step in steps) else "slow.no_steps"


def why(steps: Iterable[Step], header: Header) -> Why | None:
    """The parts over `steps`: those of a run, or any prefix of them; None where `silence` has the word."""
    steps = list(steps)
    if silence(steps, header) or header.baseline is None:
        return None
    plain = header.baseline.seconds_per_token
    passes = [each.seconds for each in header.baseline.passes]
    return Why(sum(map(work, steps), Work()), plain, min(plain, median(passes or [plain])) or plain)


def headline(found: Why) -> Explanation:
    """How much slower or faster, and from which three numbers."""
    ratio = max(found.speedup, 1 / found.speedup)
    values = {"step": ms(found.step), "tokens": number(found.tokens), "plain": ms(found.tokens * found.plain)}
    return Explanation(f"slow.{pace(found)}", values if ratio < SAME else {"times": number(ratio), **values})


def pace(found: Why) -> Literal["slower", "same", "faster"]:
    """How the run compares with plain decoding."""
    if max(found.speedup, 1 / found.speedup) < SAME:
        return "same"
    return "faster" if found.speedup > 1 else "slower"


def causes(found: Why) -> list[Cause]:
    """What keeps a step from its full credit, the largest first; a cause that costs nothing is none. Shares are of their sum."""
    held = [(name, getattr(found, name)) for name in CAUSES if getattr(found, name) > 0]
    total = sum(seconds for _, seconds in held)
    held.sort(key=lambda each: -each[1])
    return [Cause(name, seconds, seconds / total, _because(name, found)) for name, seconds in held]


def notes(found: Why) -> list[Explanation]:
    """What to know before believing it: a run that is too short, and steps that had nothing to verify."""
    done = found.work
    said = [Explanation("slow.short", {"steps": str(done.steps)})] if done.steps < ENOUGH else []
    if done.empty and (not done.passes or 10 * done.empty >= done.steps):  # without passes: lookup, which may find nothing at any step
        counted = {"empty": str(done.empty), "steps": str(done.steps), "share": number(100 * done.empty / done.steps, 2)}
        said.append(Explanation("slow.empty", counted))
    return said


def _because(name: CauseName, found: Why) -> Explanation:
    done = found.work
    if name == "refused":
        values = {"depth": number(done.depth / done.steps), "accepted": number(done.accepted / done.steps), "plain": ms(found.plain)}
    elif name == "drafting":
        values = {"passes": number(done.passes / done.steps), "each": ms(done.drafting / done.passes)}
    elif name == "verifying":
        spent = done.verify / done.steps
        rows = number(1 + done.candidates / done.steps)
        values = {"rows": rows, "verify": ms(spent), "plain": ms(found.plain_pass), "ratio": number(spent / found.plain_pass)}
    elif name == "overhead":
        values = {"propose": ms((done.propose - done.drafting) / done.steps), "commit": ms(done.commit / done.steps)}
    else:
        values = {"cut": str(done.accepted + done.steps - done.tokens)}
    return Explanation(f"slow.because.{name}", values)


def ms(seconds: float) -> str:
    """Seconds as the number of milliseconds; what is less than half a microsecond is the rounding of sums."""
    return number(1000 * seconds if abs(seconds) >= 5e-7 else 0)
