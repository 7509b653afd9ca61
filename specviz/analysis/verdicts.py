"""Why each candidate was accepted, refused or left alone: the arithmetic of the verdict, in this step's own numbers.

The result is language-neutral: a locale key and its arguments (texts of tokens as they are; numbers through `quantities.number`).
assets/player holds the twin in JavaScript, which explains re-judged steps; both follow this specification.

    how(config)    "greedy" at temperature 0, else the rule. epsilon and delta are the config's, not the recorded threshold.
    name(id)       step.texts[id], or "#id" where the step does not name it. `names(a, b)`: where two different ids have the same text,
                   both get " #id" behind it.
    node           v = tree[node], row = rows[v.parent], siblings = children of v.parent in order.

explain(step, node, config) →
    root           verdict.root
    untested       some ancestor x is refused:                     verdict.below_refused      token = text of x (the nearest one)
                   how is typical:                                 verdict.typical.beside     as for typical below
                   a is the first untested node of the path to v, s the accepted sibling of a:
                       a is v                                      verdict.sibling_accepted   token = text of s
                       else                                        verdict.below_untested     token = text of a, sibling = text of s
                   no such s:                                      verdict.untested
    greedy         verdict.greedy.accepted | verdict.greedy.refused   token, argmax = names(v.token_id, row.argmax)
    match          verdict.match.accepted | verdict.match.refused     token, drawn = names(v.token_id, row.draw); p = number(v.p)
    rejection      verdict.FORM.accepted | verdict.FORM.refused, FORM = "drawn" | "chosen" (q_test is 1: p alone decides), and ".later"
                   behind it where v has earlier siblings (p is the residual then; token = text of the sibling before v)
                       p, q = compared(p_test, q_test)             "chosen": no q, p as ratio below
                       ratio, u = compared(min(1, p_test / q_test), u, 1)    p_test / 0 is 1, and 0 / 0 is 0
    typical        verdict.typical.accepted | verdict.typical.refused
                       p, threshold = compared(v.p, min(ε, δ·e^(−H)));  epsilon, delta, entropy = number(…)

explain_extra(step, config) → the token that no candidate proposed; row = rows[stopped_at]
    cut off        (the last emitted token has a node)             verdict.extra.cut          dropped = their count
    greedy         verdict.KIND.greedy, KIND = plain | bonus | recovered        token, p (row.p of that token)
    drawn from p   verdict.KIND.drawn; under typical verdict.recovered.typical; under match verdict.recovered.match   token, p, u
    rejection      recovered: verdict.recovered.residual, or verdict.recovered.rest where the last candidate's q_test is 1
                       token, p (row.residual of that token), u
    p is number of the row's entry, "?" where the row does not name the token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.analysis.quantities import compared, number
from specviz.config import DecodeConfig
from specviz.trace import Node, Row, Step

Args = dict[str, str]


@dataclass(frozen=True)
class Explanation:
    """A sentence of the catalogue: `t(lang, key, **args)`."""

    key: str
    args: Args


def explain(step: Step, node: int, config: DecodeConfig) -> Explanation:
    """Why `node` has its verdict. The verdicts must be those of `config`'s rule (a re-judged step carries new ones)."""
    verdict = step.tree[node].verdict
    if verdict == "root":
        return Explanation("verdict.root", {})
    if verdict == "untested":
        return _untested(step, node, config)
    how = _how(config)
    form, args = {"greedy": _greedy, "match": _match, "rejection": _rejection, "typical": _typical}[how](step, node, config)
    return Explanation(f"verdict.{form}.{verdict}", args)


def explain_extra(step: Step, config: DecodeConfig) -> Explanation:
    """Where the token came from that no candidate proposed (recovered, bonus or plain); or that it was cut off."""
    last = step.emitted[-1]
    if last.node is not None:
        return Explanation("verdict.extra.cut", {"dropped": str(step.dropped)})
    row, how = step.rows[step.stopped_at], _how(config)
    args = {"token": _name(step, last.token_id)}
    if how == "greedy":
        return Explanation(f"verdict.{last.kind}.greedy", args | {"p": number(_entry(row, row.p, last.token_id))})
    source = "drawn"
    column: Sequence[float] | None = row.p
    if last.kind == "recovered":
        source = how
        if how == "rejection":
            chosen = step.tree[step.children(step.stopped_at)[-1]].q_test == 1
            source, column = "rest" if chosen else "residual", row.residual
    return Explanation(f"verdict.{last.kind}.{source}", args | {"p": number(_entry(row, column, last.token_id)), "u": number(row.u)})


def _how(config: DecodeConfig) -> str:
    return "greedy" if config.greedy else config.rule


def _untested(step: Step, node: int, config: DecodeConfig) -> Explanation:
    path = step.path(node)
    refused = [above for above in path if step.tree[above].verdict == "refused"]
    if refused:
        return Explanation("verdict.below_refused", {"token": step.tree[refused[-1]].text})
    if _how(config) == "typical":
        return Explanation("verdict.typical.beside", _typical(step, node, config)[1])
    first = next(above for above in path if step.tree[above].verdict == "untested")
    siblings = step.children(step.tree[first].parent)
    taken = next((step.tree[other].text for other in siblings if step.tree[other].verdict == "accepted"), None)
    if taken is None:
        return Explanation("verdict.untested", {})
    if first == node:
        return Explanation("verdict.sibling_accepted", {"token": taken})
    return Explanation("verdict.below_untested", {"token": step.tree[first].text, "sibling": taken})


def _greedy(step: Step, node: int, config: DecodeConfig) -> tuple[str, Args]:
    token, argmax = _names(step, step.tree[node].token_id, _parent_row(step, node).argmax)
    return "greedy", {"token": token, "argmax": argmax}


def _match(step: Step, node: int, config: DecodeConfig) -> tuple[str, Args]:
    candidate = step.tree[node]
    drawn = _parent_row(step, node).draw
    token, drawn_text = _names(step, candidate.token_id, candidate.token_id if drawn is None else drawn)
    return "match", {"token": token, "drawn": drawn_text, "p": number(candidate.p)}


def _rejection(step: Step, node: int, config: DecodeConfig) -> tuple[str, Args]:
    candidate = step.tree[node]
    chosen = candidate.q_test == 1
    p, q = compared(candidate.p_test, candidate.q_test)
    chance, u, _ = compared(_chance(candidate), candidate.u, 1)
    args = {"p": chance, "u": u} if chosen else {"p": p, "q": q, "ratio": chance, "u": u}
    siblings = step.children(candidate.parent)
    place = siblings.index(node)
    form = "chosen" if chosen else "drawn"
    return (f"{form}.later", args | {"token": step.tree[siblings[place - 1]].text}) if place else (form, args)


def _chance(candidate: Node) -> float | None:
    """min(1, p / q) of a rejection test."""
    p, q = candidate.p_test, candidate.q_test
    if p is None or q is None:
        return None
    return min(1.0, p / q) if q > 0 else float(p > 0)


def _typical(step: Step, node: int, config: DecodeConfig) -> tuple[str, Args]:
    entropy = _parent_row(step, node).entropy
    bar = min(config.epsilon, config.delta * math.exp(-entropy))
    p, threshold = compared(step.tree[node].p, bar)
    numbers = {"epsilon": config.epsilon, "delta": config.delta, "entropy": entropy}
    return "typical", {"p": p, "threshold": threshold} | {name: number(value) for name, value in numbers.items()}


def _parent_row(step: Step, node: int) -> Row:
    return step.rows[step.tree[node].parent]


def _name(step: Step, token: int) -> str:
    return step.texts.get(token, f"#{token}")


def _names(step: Step, a: int, b: int) -> tuple[str, str]:
    """Two tokens by their texts, told apart by their ids where the texts are the same (halves of a character, say)."""
    first, second = _name(step, a), _name(step, b)
    return (f"{first} #{a}", f"{second} #{b}") if first == second and a != b else (first, second)


def _entry(row: Row, column: Sequence[float] | None, token: int) -> float | None:
    return column[row.ids.index(token)] if column is not None and token in row.ids else None
