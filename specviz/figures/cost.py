"""The cost model of a run: predicted speed-up by K or by the size of the tree, and the measured times of the passes below it."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.analysis.acceptance import acceptance
from specviz.analysis.cost import AlphaKind, CostModel, Prediction, alpha, best, cost_model, depth_of, interpolate
from specviz.analysis.speed import speed
from specviz.figures import plot
from specviz.figures.plot import Fig, Point, signif, takes
from specviz.trace import Header, Step

_SPEED = "%{x} → %{y:.3~g}×<extra></extra>"
_TOKENS = "%{x} → %{y:.3~g}<extra></extra>"
_SECONDS = "n = %{x}<br>%{y:.3~s}s<extra></extra>"
_SIZES = [1, 2, 4, 8, 16, 32, 64]
_UPPER, _LOWER = [0.45, 1], [0, 0.25]  # of the height: the curves, the passes


@dataclass(frozen=True)
class CostInfo:
    """A model, and what is asked of it: `by_size` the calibrated trees, else K. `at` is the run's own K or number of candidates.

    `tokens` (a step) and `speedup` are what the run was measured to have; `speedup` is None without a baseline.
    """

    model: CostModel
    alpha: float
    kind: AlphaKind
    by_size: bool
    at: int
    tokens: float
    speedup: float | None

    def predictions(self) -> list[Prediction]:
        """The curve."""
        return self.model.by_size() if self.by_size else self.model.by_depth(self.alpha)

    def chosen(self) -> Prediction | None:
        """The run's own place on it."""
        return self.model.predict_tree(self.at) if self.by_size else self.model.predict(self.alpha, self.at)


def cost_info(header: Header, steps: Sequence[Step]) -> CostInfo | None:
    """The model of a run; None where nothing was measured, proposed or tested."""
    model, counts = cost_model(header, steps), acceptance(steps, header.config)
    chance = alpha(counts)
    if model is None or chance is None or counts.tokens_per_step is None:
        return None
    by_size = bool(model.trees) and header.config.calibrated
    at = max(len(step.tree) - 1 for step in steps) if by_size else depth_of(steps)
    return CostInfo(model, *chance, by_size, at, counts.tokens_per_step, speed(steps, header.baseline).speedup)


def cost_points(info: CostInfo) -> list[Point]:
    """What the base figure is filled with: the curve, the marks on it, what the run was measured to have, and the passes."""
    predictions, chosen = info.predictions(), info.chosen()
    marks = [("chosen", chosen), ("best", best(predictions))]
    if info.by_size:
        marks.append(("fullest", best(predictions, lambda one: one.expected)))
    points = cost_rows(info) + [_point(series, one) for series, one in marks if one is not None]
    points.append({"series": "run", "at": info.at, "expected": signif(info.tokens), "speedup": signif(info.speedup)})
    return points + _passes(info.model, chosen)


def cost_rows(info: CostInfo | None) -> list[Point]:
    """The rows of the table twin: a prediction each."""
    return [] if info is None else [_point("predicted", one) for one in info.predictions()]


def _point(series: str, one: Prediction) -> Point:
    seconds = {name: signif(getattr(one, name)) for name in ("expected", "drafting", "verifying", "outside", "cost", "speedup")}
    return {"series": series, "at": one.at, "rows": one.rows, **seconds}


def _passes(model: CostModel, chosen: Prediction | None) -> list[Point]:
    """The times of the passes, that of a plain token along them, and the pass that is asked about."""
    ends = (model.verify[0][0], model.verify[-1][0])
    asked = [] if chosen is None else [("asked", chosen.rows, interpolate(model.verify, chosen.rows))]
    passes = [
        *(("verify", rows, seconds) for rows, seconds in model.verify),
        *(("draft", rows, seconds) for rows, seconds in model.draft),
        *(("plain", rows, model.plain) for rows in ends),
        *asked,
    ]
    return [{"series": series, "rows": rows, "seconds": signif(seconds)} for series, rows, seconds in passes]


def draw_cost(info: CostInfo | None = None) -> Fig:
    """The base figure, or that of a run. `views` holds what changes between K ("depth") and the size of trees ("size")."""
    small = {"size": plot.SMALL, "color": "var:soft"}
    titles = {"depth": "@cost.axis_depth", "size": "@cost.axis_size"}
    views = {name: {"xaxis.title": {"text": title, "font": small, "standoff": 2}} for name, title in titles.items()}
    rows = {"text": "@cost.axis_rows", "font": small, "standoff": 2}
    layout = plot.layout(
        (38, 10, 20, 34),
        xaxis=plot.axis(domain=[0, 1], anchor="y", tickformat="d", nticks=9, title=views["depth"]["xaxis.title"]),
        yaxis=plot.axis(domain=_UPPER, anchor="x", rangemode="tozero", nticks=5, ticksuffix="×"),
        xaxis2=plot.axis(domain=[0, 1], anchor="y2", type="log", tickvals=_SIZES, range=[-0.06, 1.87], title=rows),
        yaxis2=plot.axis(domain=_LOWER, anchor="x2", rangemode="tozero", nticks=3, tickformat="~s", ticksuffix="s"),
        annotations=[
            plot.note("@cost.axis_speed", y=_UPPER[1], yshift=2),
            plot.note("@cost.axis_seconds", y=_LOWER[1], yshift=2),
            plot.note("@cost.break_even", xref="paper", yref="y", x=1, y=1, xanchor="right", yanchor="top", yshift=-1),
        ],
        shapes=[_break_even()],
    )
    base = {"data": [*_curves(), *_marks(), *_times()], "layout": layout, "views": views}
    if info is None:
        return base
    title = views["size" if info.by_size else "depth"]["xaxis.title"]
    shown = {**base, "layout": layout | {"xaxis": layout["xaxis"] | {"title": title}}}
    return plot.filled(shown, cost_points(info))


def _break_even() -> Fig:
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"color": "var:ink", "width": 1.4, "dash": "dot"}}


def _curves() -> list[Fig]:
    """What a step is expected to yield, dashed: the speed-up, if only a step took no longer than a plain token. And the speed-up itself."""
    tokens = {"color": "var:bonus", "width": 1.5, "dash": "dash"}
    gained = {"color": "var:accent", "width": 2.2}
    return [
        _trace("predicted", "at", "expected", _TOKENS, mode="lines", line=tokens),
        _trace("predicted", "at", "speedup", _SPEED, mode="lines+markers", line=gained, marker={"size": 4, "color": "var:accent"}),
    ]


def _marks() -> list[Fig]:
    """The best place, that of the run as predicted, and what the run was measured to gain."""
    best_one = _mark("star", 13, "accepted", "card")
    fullest = _mark("star-open", 12, "bonus", "bonus")
    label = {"texttemplate": "%{y:.3~g}×", "textposition": "bottom center", "textfont": {"size": plot.SMALL, "color": "var:accepted_text"}}
    return [
        _trace("fullest", "at", "expected", _TOKENS, mode="markers", marker=fullest),
        _trace("best", "at", "speedup", _SPEED, mode="markers+text", marker=best_one, cliponaxis=False, **label),
        _trace("chosen", "at", "speedup", _SPEED, mode="markers", marker=_mark("circle-open", 15, "accent", "accent")),
        _trace("run", "at", "speedup", _SPEED, mode="markers", marker=_mark("diamond", 10, "ink", "card")),
    ]


def _times() -> list[Fig]:
    line = {"color": "var:ink", "width": 1.4, "dash": "dot"}
    lower = {"xaxis": "x2", "yaxis": "y2"}
    marks = [("verify", "circle", "verify"), ("draft", "triangle-up", "propose")]
    return [
        _trace("plain", "rows", "seconds", _SECONDS, mode="lines", line=line, **lower),
        *(
            _trace(
                series, "rows", "seconds", _SECONDS, mode="lines+markers",
                line={"color": f"var:{colour}", "width": 1.4}, marker=_mark(symbol, 7, colour, "card"), **lower,
            )
            for series, symbol, colour in marks
        ),
        _trace("asked", "rows", "seconds", _SECONDS, mode="markers", marker=_mark("circle-open", 13, "accent", "accent"), **lower),
    ]  # fmt: skip


def _mark(symbol: str, size: int, colour: str, edge: str) -> Fig:
    width = 2 if symbol.endswith("-open") else 0.8
    return {"symbol": symbol, "size": size, "color": f"var:{colour}", "line": {"color": f"var:{edge}", "width": width}}


def _trace(series: str, x: str, y: str, hover: str, **looks: object) -> Fig:
    return {"type": "scatter", "meta": takes(x, y, {"series": series}), "hovertemplate": hover, **looks}
