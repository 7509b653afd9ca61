"""The roofline (Williams et al. 2009): what each pass achieved against what the machine can do, both axes logarithmic.

Roofs and seconds are measured on this machine, FLOPs and bytes are computed; the second roof is a datasheet's and thus assumed. A pass
above its own measured roof is a fault of a clock or of a count, and is marked as one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from specviz.analysis import roofline as analysis
from specviz.analysis.datasheets import A100, Datasheet
from specviz.analysis.quantities import number
from specviz.figures import plot
from specviz.figures.plot import Fig, Point, si, signif, signifs, takes
from specviz.figures.text import key
from specviz.trace import Header, Pass, Peaks, Step

_LOW = 0.5  # FLOP/byte where the roofs begin
_PLOT = (240, 158)  # pixels inside the axes of the panel that the figure is made for
SIGNS = {"plain": "■", "draft": "▲", "verify": "●", "prefill": "◆"}
KINDS = {"plain": ("commit", "square"), "draft": ("q", "triangle-up"), "verify": ("p", "circle"), "prefill": ("faint", "diamond-tall")}


@dataclass(frozen=True)
class RooflinePoint:
    """One pass: `intensity` in FLOP/byte (computed), `achieved` in FLOP/s (computed FLOPs ÷ measured seconds), the `roof` over it."""

    step: int
    kind: str
    intensity: float
    achieved: float
    roof: float | None
    fault: bool
    tokens: int
    context: int
    seconds: float
    flops: float
    bytes: float


@dataclass(frozen=True)
class RooflineInfo:
    """The machine's roofs (None where they were not measured) and the points."""

    peaks: Peaks | None
    points: tuple[RooflinePoint, ...]


def roofline_info(header: Header, steps: Sequence[Step] = ()) -> RooflineInfo:
    """The roofs of the run's machine, and the passes of `steps` and of the plain baseline (as step −1)."""
    points = [*baseline_points(header), *(point for step in steps for point in step_points(step, header))]
    return RooflineInfo(header.peaks, tuple(points))


def step_points(step: Step, header: Header) -> list[RooflinePoint]:
    """The passes of one step."""
    return _points(step.index, step.passes, header.peaks)


def baseline_points(header: Header) -> list[RooflinePoint]:
    """The passes of plain decoding, as step −1; none without a baseline."""
    return _points(-1, header.baseline.passes, header.peaks) if header.baseline else []


def _points(step: int, passes: Iterable[Pass], peaks: Peaks | None) -> list[RooflinePoint]:
    points = []
    for work in passes:
        place = analysis.point(work, peaks)
        if place is not None:
            measured = (work.seconds, work.flops, work.bytes)
            points.append(RooflinePoint(step, *_place(place), place.tokens, place.context, *measured))
    return points


def _place(place: analysis.Point) -> tuple[str, float, float, float | None, bool]:
    return place.kind, place.intensity, place.achieved, place.roof, place.above_roof


def roofline_points(points: Iterable[RooflinePoint]) -> list[Point]:
    """The points as the player reads them."""
    exact = ("step", "kind", "fault", "tokens", "context")
    return [{field: value if field in exact else signif(value) for field, value in asdict(point).items()} for point in points]


def draw_roofline(info: RooflineInfo, current: int | None = None) -> Fig:
    """Roofs, ridge and points. The trace with the role "datasheet" is hidden until it is asked for; the axes follow what is shown."""
    peaks = info.peaks
    title = {"text": "@roofline.axes", "font": {"size": plot.SMALL, "color": "var:soft"}, "standoff": 3}
    signs = [(SIGNS[kind], KINDS[kind][0], f"@roofline.{kind}") for kind in ("plain", "draft", "verify")]
    warning = {"x": 0.01, "y": 0.99, "yanchor": "top", "font": {"size": plot.SMALL, "color": "var:fault"}, "bgcolor": "rgba(0,0,0,0)"}
    notes = _roof_labels(peaks) if peaks else [plot.note("@roofline.no_peaks", yanchor="top")]
    room = [0.15 * peaks.bandwidth, 1.7 * peaks.flops] if peaks else [1e9, 1e11]  # the axis starts with this, and grows with the points
    layout = plot.layout(
        (40, 10, 8, 54),
        xaxis=plot.axis(type="log", dtick=1, exponentformat="none", title=title),
        yaxis=plot.axis(type="log", dtick=1, exponentformat="SI"),
        annotations=[*notes, *plot.legend(signs, 68, 46, -30)],
        shapes=[_ridge(peaks)] if peaks else [],
        showlegend=True,
        legend=warning | {"itemclick": False, "itemdoubleclick": False},
    )
    roofs = [_roof(peaks, {"color": "var:roof", "width": 1.8}, "roof")] if peaks else []
    base = {"data": [*roofs, _datasheet(), _room(room), *(_kind(kind) for kind in KINDS), _faults()], "layout": layout}
    return plot.filled(base, roofline_points(info.points), current)


def _roof(peaks: Peaks | Datasheet, line: dict[str, object], role: str, reach: float = 10) -> Fig:
    """Up along the bandwidth to the ridge, then level, `reach` times as far."""
    x, y = [_LOW, peaks.ridge, reach * peaks.ridge], [_LOW * peaks.bandwidth, peaks.flops, peaks.flops]
    trace = {"type": "scatter", "mode": "lines", "x": signifs(x), "y": signifs(y), "line": line, "meta": {"role": role}}
    return trace | {"hoverinfo": "skip", "showlegend": False}


def _datasheet() -> Fig:
    """A roof that is assumed, not measured, and says so."""
    roof = _roof(A100, {"color": "var:datasheet", "width": 1.4, "dash": "dash"}, "datasheet", reach=5)
    text = ["", key("roofline.datasheet", device=A100.name, ridge=number(A100.ridge)), ""]
    font = {"size": plot.SMALL, "color": "var:soft"}
    return roof | {"mode": "lines+text", "text": text, "textposition": "bottom left", "textfont": font, "visible": False}


def _room(y: list[float]) -> Fig:
    """Unseen marks that the axis holds from the start (plotly 4.1's autorangeoptions.include leaves out other traces on this axis)."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [1, 1],
        "y": signifs(y),
        "marker": {"opacity": 0, "size": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _kind(kind: str) -> Fig:
    colour, symbol = KINDS[kind]
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"symbol": symbol, "size": 8, "color": f"var:{colour}", "line": {"color": "var:card", "width": 0.8}},
        "meta": takes("intensity", "achieved", {"kind": kind, "fault": False}, fade=True, hover=("tokens", "seconds")),
        "hovertemplate": "n = %{customdata[0]}<br>%{customdata[1]:.3~s}s<br>%{x:.3~g} FLOP/byte<br>%{y:.3~s}FLOP/s<extra></extra>",
        "showlegend": False,
    }


def _faults() -> Fig:
    """Passes above their roof: another sign and a word, whatever their kind."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "@roofline.fault",
        "marker": {"symbol": "x-thin", "size": 10, "color": "var:fault", "line": {"color": "var:fault", "width": 2}},
        "meta": takes("intensity", "achieved", {"fault": True}, hover=("roof",)),
        "hovertemplate": "%{y:.3~s}FLOP/s > %{customdata[0]:.3~s}FLOP/s<extra></extra>",
    }


def _ridge(peaks: Peaks) -> Fig:
    dots = {"color": "var:faint", "width": 1, "dash": "dot"}
    x = signif(peaks.ridge)
    return {"type": "line", "layer": "below", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": dots}


def _roof_labels(peaks: Peaks) -> list[Fig]:
    """The numbers of the roofs, on them; annotations on logarithmic axes take powers of ten."""
    ridge, top = round(math.log10(peaks.ridge), 3), round(math.log10(peaks.flops), 3)
    middle = round((math.log10(_LOW) + ridge) / 2, 3)
    wide, high = 1.1 * math.log10(10 * peaks.ridge / _LOW), 1.1 * math.log10(1.7 * peaks.flops / (0.15 * peaks.bandwidth))  # decades
    slope = round(-math.degrees(math.atan((_PLOT[1] / high) / (_PLOT[0] / wide))))
    along = {"x": middle, "y": round(middle + math.log10(peaks.bandwidth), 3), "xanchor": "center", "yanchor": "middle"}
    return [
        plot.note(key("roofline.flops", value=si(peaks.flops)), yref="y", x=1, y=top, xanchor="right"),
        plot.note(key("roofline.bandwidth", value=si(peaks.bandwidth)), xref="x", yref="y", textangle=slope, xshift=-7, yshift=7, **along),
        plot.note(key("roofline.ridge", value=number(peaks.ridge, 2)), xref="x", x=ridge, y=0.01, xshift=3),
    ]
