"""Typical acceptance over a run: p of every judged candidate against the entropy of its place, and the threshold min(ε, δ·e^(−H)).

On a logarithmic axis the threshold is level at ε, then a straight line that falls by a factor of e a nat.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.analysis.quantities import compared, number
from specviz.analysis.typical import Tried, threshold, tried
from specviz.figures import plot
from specviz.figures.palette import STATES
from specviz.figures.plot import Fig, Point, signif, takes
from specviz.figures.text import key, label, visible
from specviz.trace import Step

FLOOR = 1e-5  # where the axis ends; what lies below is drawn on its edge
NARROWEST = 2.0  # nats that the axis of entropy shows at least
_TICKS = [1, 0.1, 0.01, 0.001, 1e-4, FLOOR]
_TICK_TEXTS = ["1", "0.1", "0.01", "0.001", "10⁻⁴", "≤ 10⁻⁵"]
_HOVER = "“%{customdata[0]}” · %{customdata[1]}<br>%{customdata[2]}<extra></extra>"


@dataclass(frozen=True)
class TypicalInfo:
    """The judged candidates of a run, with their texts, and the threshold's parameters."""

    candidates: tuple[tuple[Tried, str], ...]
    epsilon: float
    delta: float

    @property
    def widest(self) -> float:
        """The entropy at which the axis ends."""
        return max(NARROWEST, *(1.05 * one.entropy for one, _ in self.candidates), 0.0)


def typical_info(steps: Sequence[Step], epsilon: float, delta: float) -> TypicalInfo:
    """The candidates of `steps`, whose verdicts are those of the typical rule with this ε and δ (see engine/rejudge.py)."""
    candidates = ((one, step.tree[one.node].text) for step in steps for one in tried(step))
    return TypicalInfo(tuple(candidates), epsilon, delta)


def typical_points(info: TypicalInfo) -> list[Point]:
    """A point for each candidate, as the player reads it: the rows of the table twin, too."""
    return [_point(one, text, info.epsilon, info.delta) for one, text in info.candidates]


def _point(one: Tried, text: str, epsilon: float, delta: float) -> Point:
    bar = threshold(epsilon, delta, one.entropy)
    p, line = compared(one.p, bar)
    return {
        "step": one.step, "node": one.node, "token": visible(text), "entropy": signif(one.entropy), "p": signif(one.p),
        "shown": signif(max(one.p, FLOOR)), "threshold": signif(bar), "state": one.state, "name": label(text),
        "place": key("typical.at", step=one.step + 1),
        "sum": f"p = {p} {'>' if one.p > bar else '≤'} {line} = min({number(epsilon)}, {number(delta)}·e^−{number(one.entropy)})",
    }  # fmt: skip


def line_points(info: TypicalInfo) -> list[Point]:
    """The threshold as corners of a line; none where it is 0 everywhere, and everything that is possible passes."""
    if min(info.epsilon, info.delta) <= 0:
        return []
    bend = math.log(info.delta / info.epsilon)
    corners = [0.0, *([bend] if 0 < bend < info.widest else []), info.widest]
    return [{"state": "threshold", "entropy": signif(h), "shown": signif(threshold(info.epsilon, info.delta, h))} for h in corners]


def draw_typical(info: TypicalInfo | None = None, current: int | None = None) -> Fig:
    """The base figure, or with `info` the figure of those candidates, step `current` standing out."""
    widest = info.widest if info else NARROWEST
    layout = plot.layout(
        (46, 10, 20, 36),
        xaxis=plot.axis(range=[0, signif(widest)], nticks=8, title=_title("@typical.axis_entropy")),
        yaxis=plot.axis(type="log", range=[math.log10(FLOOR), 0.06], tickvals=_TICKS, ticktext=_TICK_TEXTS),
        annotations=[plot.note("@typical.axis_p", yshift=2, xshift=-30)],
    )
    base = {"data": [_line(), *(_marks(*looks) for looks in _LOOKS)], "layout": layout}
    return plot.filled(base, [*line_points(info), *typical_points(info)], current) if info else base


def _title(text: str) -> Fig:
    return {"text": text, "font": {"size": plot.SMALL, "color": "var:soft"}, "standoff": 2}


def _line() -> Fig:
    line = {"color": "var:ink", "width": 1.8}
    meta = takes("entropy", "shown", {"state": "threshold"})
    return {"type": "scatter", "mode": "lines", "line": line, "hoverinfo": "skip", "meta": meta}


_LOOKS = (("refused", "refused", "x-thin"), ("beside", "accepted", "circle-open"), ("accepted", "accepted", "circle"))


def _marks(state: str, colour: str, symbol: str) -> Fig:
    look = STATES[colour]
    edge = {"color": f"var:{look.colour}", "width": 0.6 if symbol == "circle" else 1.6}
    marker = {"symbol": symbol, "size": 7, "color": f"var:{look.fill}", "line": edge}
    meta = takes("entropy", "shown", {"state": state}, fade=True, hover=("name", "place", "sum"))
    return {"type": "scatter", "mode": "markers", "marker": marker, "cliponaxis": False, "hovertemplate": _HOVER, "meta": meta}
