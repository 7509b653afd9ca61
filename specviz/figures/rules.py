"""The four rules on the same records: what each would commit in every recorded step, as a strip of bars a rule.

A bar is the accepted candidates and, on top, the one token that no candidate proposed. Behind the step from which a rule's own text would
be another one its bars are hatched: it is judged there on a text that it would not have written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.analysis.typical import Outcome
from specviz.config import RULES
from specviz.figures import plot
from specviz.figures.plot import Fig, Point, signif, takes
from specviz.figures.text import key
from specviz.trace import Step

_GAP = 0.06  # of the height, between two strips
_HOVER = "%{customdata[0]}<br>%{customdata[1]}<extra></extra>"


@dataclass(frozen=True)
class RulesInfo:
    """Each rule's outcome, and the steps as it judges them (none where the records do not hold what it reads)."""

    outcomes: tuple[Outcome, ...]
    judged: Mapping[str, Sequence[Step] | None]


def rules_points(info: RulesInfo) -> list[Point]:
    """A point for each rule and step, `past` those behind its parting."""
    points = []
    for outcome in info.outcomes:
        for i, step in enumerate(info.judged[outcome.rule] or ()):
            past = outcome.parts is not None and i > outcome.parts
            points.append(_point(outcome.rule, i, step, past))
    return points


def _point(rule: str, index: int, step: Step, past: bool) -> Point:
    accepted = sum(token.node is not None for token in step.emitted)
    count = len(step.emitted)
    words = {"rule": rule, "step": index, "at": index + 1, "accepted": accepted, "extra": count - accepted, "tokens": count, "past": past}
    return words | {"place": key("typical.at", step=index + 1), "said": key("rules.said", accepted=accepted, tokens=count)}


def rules_rows(outcomes: Sequence[Outcome]) -> list[Point]:
    """The rows of the table: counts over all recorded starts, then over the steps up to the parting; numbers None where unknown."""
    return [_row(outcome) for outcome in outcomes]


def _row(outcome: Outcome) -> Point:
    counts, own, kl = outcome.counts, outcome.own, outcome.kl
    return {
        "rule": outcome.rule,
        "accepted": counts and counts.accepted,
        "tested": counts and counts.tested,
        "per_step": counts and signif(counts.tokens_per_step),
        "own_steps": own and own.steps,
        "own_per_step": own and signif(own.tokens_per_step),
        "parts": None if outcome.parts is None else outcome.parts + 1,
        "emitted_kl": kl and signif(kl.per_token),
    }


def draw_rules(info: RulesInfo | None = None, current: int | None = None) -> Fig:
    """The base figure, or with `info` that of a run, step `current` standing out. Strips share one scale of tokens, set by their top."""
    points = rules_points(info) if info else []
    top = max((point["tokens"] for point in points), default=2)
    high = (1 - _GAP * (len(RULES) - 1)) / len(RULES)
    floors = [(len(RULES) - 1 - i) * (high + _GAP) for i in range(len(RULES))]  # the first rule on top
    title = {"text": "@rules.axis_step", "font": {"size": plot.SMALL, "color": "var:soft"}, "standoff": 2}
    axes = {
        f"yaxis{place or ''}": plot.axis(domain=[round(floor, 4), round(floor + high, 4)], range=[0, 1.08 * top], nticks=3, tickformat="d")
        for place, floor in zip(("", 2, 3, 4), floors, strict=True)
    }
    names = [
        plot.note("@player." + f"name_{rule}", x=0, xanchor="right", xshift=-30, y=round(floor + high / 2, 4), yanchor="middle")
        for rule, floor in zip(RULES, floors, strict=True)
    ]
    layout = plot.layout(
        (96, 8, 4, 36),
        xaxis=plot.axis(anchor="y4", showgrid=False, nticks=10, tickformat="d", title=title),
        barmode="stack",
        bargap=0.15,
        annotations=names,
        shapes=[_band(current)],
        **axes,
    )
    bars = [_bars(rule, place, *part) for rule, place in zip(RULES, ("y", "y2", "y3", "y4"), strict=True) for part in _PARTS]
    base = {"data": bars, "layout": layout}
    return plot.filled(base, points, current) if info else base


def _band(current: int | None) -> Fig:
    """A band behind the step on show; without one it has no width."""
    x = (0, 0) if current is None else (current + 0.5, current + 1.5)
    look = {"fillcolor": "var:accent_pale", "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": x[0], "x1": x[1], **look}


_PARTS = (("accepted", "accepted", False), ("extra", "faint", False), ("accepted", "accepted", True), ("extra", "faint", True))


def _bars(rule: str, axis: str, field: str, colour: str, past: bool) -> Fig:
    marker: Fig = {"color": f"var:{colour}", "line": {"width": 0}}
    if past:
        pattern = {"shape": "/", "size": 4, "solidity": 0.3, "fgcolor": f"var:{colour}", "bgcolor": "rgba(0,0,0,0)"}
        marker = {"pattern": pattern, "color": f"var:{colour}", "line": {"width": 0.8, "color": f"var:{colour}"}}
    meta = takes("at", field, {"rule": rule, "past": past}, hover=("place", "said"))
    return {"type": "bar", "yaxis": axis, "marker": marker, "hovertemplate": _HOVER, "meta": meta}
