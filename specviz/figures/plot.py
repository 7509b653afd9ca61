"""What all figures share: a bare layout, numbers cut to what a screen can show, and the filling of a base figure with points."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specviz.figures.palette import FONT

Fig = dict[str, Any]
Point = dict[str, Any]

SMALL, NORMAL = 10.5, 11.5  # font sizes in pixels
FADED = 0.28  # opacity of the points of other steps


def signif(value: float | None, digits: int = 4) -> float | None:
    """`value` with `digits` significant digits; None stays None, and a whole number loses its ".0"."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def signifs(values: Iterable[float | None], digits: int = 4) -> list[float | None]:
    """`signif` of each value."""
    return [signif(value, digits) for value in values]


def si(value: float) -> str:
    """A number with three digits and an SI prefix: "379 G", "52.0 M" without its ".0"."""
    for power, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.3g} {prefix}"
    return f"{value:.3g} "


def axis(**changes: Any) -> dict[str, Any]:
    """A quiet axis: hairline grid, no zero line, small soft ticks."""
    quiet = {"gridcolor": "var:grid", "zeroline": False, "linecolor": "var:line", "fixedrange": True, "automargin": False}
    return quiet | {"tickfont": {"size": SMALL, "color": "var:soft"}, "ticks": ""} | changes


def hidden_axis(**changes: Any) -> dict[str, Any]:
    """An axis that only gives coordinates."""
    return {"visible": False, "fixedrange": True} | changes


def layout(margin: tuple[int, int, int, int], **changes: Any) -> dict[str, Any]:
    """A layout without a template: transparent, margins (left, right, top, bottom), no legend, one font."""
    left, right, top, bottom = margin
    base = {
        "margin": {"l": left, "r": right, "t": top, "b": bottom, "pad": 0},
        "font": {"family": FONT, "size": NORMAL, "color": "var:ink"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var:card",
            "bordercolor": "var:line",
            "font": {"family": FONT, "size": 12, "color": "var:ink"},
            "align": "left",
        },
    }
    return base | changes


def note(text: str, **changes: Any) -> dict[str, Any]:
    """A small sentence on a figure, without an arrow; placed in fractions of the plot unless told otherwise."""
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    return {"text": text, "showarrow": False, "font": {"size": SMALL, "color": "var:soft"}} | place | changes


def legend(entries: Sequence[tuple[str, str, str]], step: int, below: int, left: int = 0) -> list[dict[str, Any]]:
    """A line of (sign, colour, text) under the axes, `step` pixels apart, `below` pixels down: plotly's own breaks at small sizes."""
    notes = []
    for i, (sign, colour, text) in enumerate(entries):
        place = {"y": 0, "yanchor": "middle", "yshift": -below}
        notes.append(note(sign, **place, xshift=left + i * step, font={"size": NORMAL, "color": f"var:{colour}"}))
        notes.append(note(text, **place, xshift=left + i * step + 13))
    return notes


def takes(x: str, y: str, where: Mapping[str, Any] | None = None, fade: bool = False, hover: Sequence[str] = ()) -> dict[str, Any]:
    """The `meta` of a trace that is filled from points: which fields of which points (`where`), whether those of other steps than the
    current one fade, and the fields that its hover text reads."""
    return {"x": x, "y": y, "where": dict(where or {}), "fade": fade, "hover": list(hover)}


def filled(fig: Fig, points: Sequence[Point], current: int | None = None) -> Fig:
    """A copy of a base figure with its traces filled from `points`, as the player does it; step `current` stands out, None: all do."""
    data = [_filled(trace, points, current) if "where" in trace.get("meta", ()) else trace for trace in fig["data"]]
    return {**fig, "data": data}


def _filled(trace: Fig, points: Sequence[Point], current: int | None) -> Fig:
    meta = trace["meta"]
    mine = [p for p in points if all(p.get(field) == value for field, value in meta["where"].items())]
    mine = [p for p in mine if p.get(meta["x"]) is not None and p.get(meta["y"]) is not None]
    full: Fig = {**trace, "x": [p[meta["x"]] for p in mine], "y": [p[meta["y"]] for p in mine]}
    if meta["hover"]:
        full["customdata"] = [[p.get(field) for field in meta["hover"]] for p in mine]
    if meta["fade"]:
        full["marker"] = {**trace.get("marker", {}), "opacity": [1 if current in (None, p["step"]) else FADED for p in mine]}
    return full
