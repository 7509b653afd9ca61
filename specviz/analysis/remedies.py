"""What would change a run's speed against plain decoding: computed from its own counts and times, and by the cost model.

With the names of slow.py (t the plain time of a token, m the tokens a step):

    another size    the best of the cost model's predictions (cost.py) by K, by depth, or by the candidates of the calibrated tree
    break-even      m* = (time of a step) ÷ t, and for a run that loses the cost model's α
    all accepted    (mean deepest path + 1)·t ÷ (time of a step)
    the proposer    the most that proposing may take a step to break even: its time + gain
    verifying       were n tokens as quick to verify as one: m·t ÷ (time of a step − verifying)

assets/player/slow.js is the twin in JavaScript.
"""

from collections.abc import Sequence

from specviz.analysis.acceptance import acceptance
from specviz.analysis.cost import CostModel, alpha, best, cost_model, depth_of
from specviz.analysis.quantities import number
from specviz.analysis.slow import Why, ms, pace
from specviz.analysis.verdicts import Explanation
from specviz.trace import Header, Step

BETTER = 1.02  # a prediction that gains less is not worth a sentence
DEAR = 1.15  # from here on verifying n tokens counts as dearer than verifying one


def remedies(found: Why, steps: Sequence[Step], header: Header) -> list[Explanation]:
    """What would change it, most practical first. `steps` are those that `found` was made of."""
    model = cost_model(header, steps)
    known = alpha(acceptance(steps, header.config))
    chance = known[0] if known else None
    said = [
        _another_size(model, chance, steps, header) if model else None,
        _break_even(found),
        _break_even_alpha(found, model.break_even_alpha(depth_of(steps)) if model else None, chance),
        _all_accepted(found),
        _cheaper_proposer(found),
        _free_verifying(found),
    ]
    return [each for each in said if each is not None]


def _another_size(model: CostModel, chance: float | None, steps: Sequence[Step], header: Header) -> Explanation | None:
    candidates, depth = max(len(step.tree) for step in steps) - 1, depth_of(steps)
    if model.trees and header.config.calibrated:
        kind, now, tried = "tree", candidates, model.by_size()
        predicted = model.predict_tree(now)
    elif chance is not None:
        kind, now, tried = "k" if set(model.levels) == {1} else "depth", depth, model.by_depth(chance)
        predicted = model.predict(chance, now)
    else:
        return None
    other = best(tried)
    if other is None or predicted is None or other.speedup < BETTER * predicted.speedup:
        return None
    values = {"size": str(other.at), "now": str(now), "times": number(other.speedup), "predicted": number(predicted.speedup)}
    return Explanation(f"slow.another.{kind}", values)


def _break_even(found: Why) -> Explanation:
    return Explanation("slow.break_even", {"needed": number(found.step / found.plain), "tokens": number(found.tokens)})


def _break_even_alpha(found: Why, needed: float | None, chance: float | None) -> Explanation | None:
    if pace(found) != "slower" or needed is None or chance is None or needed <= chance:
        return None
    return Explanation("slow.break_even_alpha", {"alpha": number(needed), "now": number(chance)})


def _all_accepted(found: Why) -> Explanation:
    times = (found.full + found.plain) / found.step
    return Explanation("slow.all_accepted" if times >= 1 else "slow.even_all_accepted", {"times": number(times)})


def _cheaper_proposer(found: Why) -> Explanation | None:
    if pace(found) != "slower" or not found.work.passes:
        return None
    now = found.work.propose / found.work.steps
    most = now + found.gain
    return Explanation("slow.cheaper_proposer", {"most": ms(most), "now": ms(now)}) if most > 0 else Explanation("slow.free_proposer", {})


def _free_verifying(found: Why) -> Explanation | None:
    ratio = found.work.verify / found.work.steps / found.plain_pass
    if ratio < DEAR:
        return None
    times = found.tokens * found.plain / (found.step - found.verifying)
    rows = 1 + found.work.candidates / found.work.steps
    return Explanation("slow.free_verifying", {"rows": number(rows), "ratio": number(ratio), "times": number(times)})
