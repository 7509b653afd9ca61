"""What typical acceptance does to the distribution, and the four rules on the same recorded numbers. No model is asked.

Typical acceptance (Cai et al. 2024, section 2.3.1) takes a candidate x where p(x) > t = min(ε, δ·e^(−H(p))), and a draw from p where no
candidate is taken. So what it emits at a place of the text has a distribution e of its own, and KL(e‖p) = Σ e ln(e/p) says how far that
is from p. e is the distribution of the next token given everything before it, over what is random there:

    chosen      the proposer's candidates follow from the text (Medusa's top ranks, copies, a draft's most probable tokens), so does the
                path that is taken: e is all on the accepted x, and KL = −ln p(x), exactly. Where every candidate is refused, and behind
                a whole path, the token is drawn from p: e = p, KL = 0. Given the text before it, the step's start and tree are known,
                so by the chain rule Σ KL over a run's tokens has the KL of the whole text as its mean; for the text that was emitted it
                is ln of how much likelier it was here than under p
    drawn       candidates of a chain drawn from q (a run of the rejection rule, judged again): with r = Σ q(y) over p(y) ≤ t,
                e(x) = q(x)·[p(x) > t] + r·p(x). A record names the top tokens of p and q, and has the mass of all others in one sum.
                Where none of those others passes, e/p is r on all of them, and the sum hides nothing: the KL is exact. Where some may,
                the KL over that partition is at most the true one (log-sum inequality), and it is given as "at least"
    siblings    drawn without replacement: which is taken hangs on what was drawn below each, so no record tells e: None

Rejection and match emit p itself (tests/laws): KL = 0. Greedy emits the argmax: KL(e‖p) = −ln max p, the price of not sampling at all.
At temperature 0 p itself is all on the argmax, every rule emits it, and KL is 0.

Verdicts and tokens must be those of the rule in question: recorded by it, or judged again (engine/rejudge.py). assets/player/typical.js
is the twin in JavaScript; both follow this specification.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from specviz.analysis.acceptance import Acceptance, acceptance
from specviz.config import DecodeConfig
from specviz.trace import Emitted, Row, Step

State = Literal["accepted", "beside", "refused"]
NAMED = 8  # so many most probable tokens of p are named in every row (engine/record.py), if their p is not 0
_HALVINGS = 40


@dataclass(frozen=True)
class Tried:
    """A candidate that typical acceptance judged: all above it pass. "beside": it passes, but the path that is taken goes elsewhere."""

    step: int
    node: int
    entropy: float
    p: float
    state: State


@dataclass(frozen=True)
class EmittedKL:
    """Σ KL(e‖p) in nats over `tokens` committed tokens. `exact`, else at least so much; None where the records do not tell."""

    tokens: int = 0
    nats: float | None = 0.0
    exact: bool = True

    def __add__(self, other: "EmittedKL") -> "EmittedKL":
        nats = None if self.nats is None or other.nats is None else self.nats + other.nats
        return EmittedKL(self.tokens + other.tokens, nats, self.exact and other.exact)

    @property
    def per_token(self) -> float | None:
        """The mean over the tokens."""
        return None if self.nats is None or not self.tokens else self.nats / self.tokens


@dataclass(frozen=True)
class Outcome:
    """A rule over the recorded steps, each judged from its recorded start.

    `counts` and `kl` are over all of them. `parts` is the first step in which other tokens than the recorded ones would be committed, or
    None; from there on the rule's own run would go on elsewhere, so `own` counts the steps up to it alone. `other_text` tells whether a
    word differs there; else the words are those of the record as far as they go, and only their number in that step is another.
    A rule whose numbers were not recorded has None for all of these.
    """

    rule: str
    counts: Acceptance | None = None
    own: Acceptance | None = None
    kl: EmittedKL | None = None
    parts: int | None = None
    other_text: bool = False


def threshold(epsilon: float, delta: float, entropy: float) -> float:
    """min(ε, δ·e^(−H))"""
    return min(epsilon, delta * math.exp(-entropy))


def tried(step: Step) -> list[Tried]:
    """The candidates of a step that were judged; its verdicts are those of the typical rule."""
    found: list[Tried] = []
    reached = {0}
    for node, candidate in enumerate(step.tree):
        if not node or candidate.parent not in reached:
            continue
        verdict = candidate.verdict
        state: State = "beside" if verdict == "untested" or verdict == "root" else verdict
        if state != "refused":
            reached.add(node)
        found.append(Tried(step.index, node, step.rows[candidate.parent].entropy, candidate.p or 0.0, state))
    return found


def emitted_kl(step: Step, config: DecodeConfig) -> EmittedKL:
    """KL(e‖p), summed over the committed tokens of a step; verdicts and tokens are those of `config`'s rule."""
    count = len(step.emitted)
    if config.temperature == 0 or config.rule in ("rejection", "match"):
        return EmittedKL(count, 0.0)
    if config.rule == "greedy":
        return sum((EmittedKL(1, _surprise(step, token)) for token in step.emitted), EmittedKL())
    place = _place_of_chosen(step) if _chosen(step) else _place_of_drawn(step, config)
    return sum((place(token) for token in step.emitted), EmittedKL())


def _chosen(step: Step) -> bool:
    return all(node.q_test == 1 for node in step.tree[1:])


def _place_of_chosen(step: Step) -> Callable[[Emitted], EmittedKL]:
    return lambda token: EmittedKL(1, 0.0 if token.node is None else _surprise(step, token))


def _place_of_drawn(step: Step, config: DecodeConfig) -> Callable[[Emitted], EmittedKL]:
    chain = all(node.parent == i and node.q_test is not None for i, node in enumerate(step.tree[1:]))

    def place(token: Emitted) -> EmittedKL:
        node = step.stopped_at if token.node is None else step.tree[token.node].parent
        if not step.children(node):
            return EmittedKL(1, 0.0)
        row = step.rows[node]
        return drawn_kl(row, threshold(config.epsilon, config.delta, row.entropy)) if chain else EmittedKL(1, None)

    return place


def _surprise(step: Step, token: Emitted) -> float | None:
    """−ln p(x) of a committed token."""
    if token.node is not None:
        chance = step.tree[token.node].p
    else:
        row = step.rows[step.stopped_at]
        chance = row.p[row.ids.index(token.token_id)] if token.token_id in row.ids else None
    return -math.log(chance) if chance else None


def drawn_kl(row: Row, bar: float) -> EmittedKL:
    """KL(e‖p) over what a row tells, for a candidate drawn from its q against `bar`.

    None of the unnamed tokens passes where the least of the NAMED most probable ones does not, or all of them together do not reach the
    bar. Else the share of their q that passes is unknown, and taken as the one that makes the KL least (it is convex in that share).
    """
    if row.q is None:
        return EmittedKL(1, None)
    tail_q = row.q_tail or 0.0
    passing = [q if p > bar else 0.0 for p, q in zip(row.p, row.q, strict=True)]
    refused = sum(row.q) - sum(passing)

    def bound(share: float) -> float:
        rest = refused + (1 - share) * tail_q
        cells = [(q + rest * p, p) for q, p in zip(passing, row.p, strict=True)]
        cells.append((share * tail_q + rest * row.p_tail, row.p_tail))
        return sum(e * math.log(e / p) for e, p in cells if e > 0 and p > 0)

    least_named = row.p[NAMED - 1] if len(row.p) >= NAMED else 0.0
    unknown = least_named > bar and (row.p_tail > bar or bar == 0)
    return EmittedKL(1, max(0.0, _least(bound) if unknown else bound(0.0)), exact=not unknown)


def _least(function: Callable[[float], float]) -> float:
    """The least value of a convex function on [0, 1], by thirds; what is returned is a value of the function, a hair above the least."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        third = (high - low) / 3
        if function(low + third) <= function(high - third):
            high -= third
        else:
            low += third
    return function((low + high) / 2)


def judgeable(step: Step, config: DecodeConfig) -> bool:
    """Whether a step holds the numbers that the rule reads: at temperature 0 the argmax alone, else also what was drawn."""
    if config.greedy:
        return True
    if any(row.draw is None for row in step.rows):
        return False
    return config.rule != "rejection" or all(None not in (node.u, node.p_test, node.q_test) for node in step.tree[1:])


def compare(steps: Sequence[Step], judged: Mapping[str, Sequence[Step] | None], configs: Mapping[str, DecodeConfig]) -> list[Outcome]:
    """What each rule would have made of the recorded `steps`; `judged` are they as it judges them, None where it cannot."""
    return [Outcome(rule) if again is None else _outcome(rule, steps, again, configs[rule]) for rule, again in judged.items()]


def _outcome(rule: str, steps: Sequence[Step], again: Sequence[Step], config: DecodeConfig) -> Outcome:
    parts = next((i for i, (a, b) in enumerate(zip(steps, again, strict=True)) if _ids(a) != _ids(b)), None)
    kl = sum((emitted_kl(step, config) for step in again), EmittedKL())
    other = parts is not None and _other_text(steps[parts:], _ids(again[parts]))
    own = again if parts is None else again[: parts + 1]
    return Outcome(rule, acceptance(again, config), acceptance(own, config), kl, parts, other)


def _other_text(recorded: Sequence[Step], tokens: Sequence[int]) -> bool:
    """Whether `tokens` differ from those of the recorded steps, as far as both go."""
    text: list[int] = []
    for step in recorded:
        if len(text) >= len(tokens):
            break
        text += _ids(step)
    return any(a != b for a, b in zip(tokens, text, strict=False))


def _ids(step: Step) -> list[int]:
    return [token.token_id for token in step.emitted]
