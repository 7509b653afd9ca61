"""The pictures of the tree lab: how many candidates all combinations take, what a tree of each size should yield, and where nodes stand.

Bases are drawn here; the page fills in what its sliders move. As in all figures, "@key" is a sentence and "var:name" a colour.
"""

from collections.abc import Sequence

from specviz.figures import plot
from specviz.figures.plot import Fig, signifs
from specviz.figures.tree_layout import candidate_graph, tidy_rows

_MOST = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]
_NARROW = 0.36  # width of a bar


def node_rows(parents: Sequence[int]) -> list[float]:
    """A row for each node of a tree, the root (node 0) included: the page multiplies it with the pixels that it has."""
    return [round(row, 4) for row in tidy_rows(candidate_graph(parents))]


def draw_explosion(full: Sequence[int] = (), sparse: Sequence[int] = ()) -> Fig:
    """Candidates by depth on a logarithmic axis: those of all combinations (trace 0) beside those of the sparse tree (trace 1)."""
    hover = "%{x} → %{y:,}<extra></extra>"
    data = [
        _bars("full", full, -_NARROW / 2, {"color": "var:refused", "pattern": {"shape": "/", "solidity": 0.35, "size": 5}}),
        _bars("sparse", sparse, _NARROW / 2, {"color": "var:p"}),
    ]
    layout = plot.layout(
        (44, 8, 18, 32),
        barmode="overlay",
        xaxis=plot.axis(range=[0.5, max(len(full), len(sparse), 4) + 0.5], tickformat="d", dtick=1, title=_title("@lab.axis_depth")),
        yaxis=plot.axis(type="log", tickvals=_MOST, tickformat="~s", range=[-0.15, 4.2]),
        annotations=[plot.note("@lab.axis_candidates", yshift=2)],
    )
    return {"data": [bars | {"hovertemplate": hover} for bars in data], "layout": layout}


def draw_curve(expected: Sequence[float] = (), best: int | None = None, at: tuple[int, float] | None = None) -> Fig:
    """E[L] of the greedily grown tree by its candidates. Traces: 0 the curve from no candidate on, 1 the size with the most tokens a
    second (`best`), 2 the tree on show (`at`: candidates and E[L])."""
    sizes = list(range(len(expected) + 1))
    values = signifs([1.0, *expected], 6)
    marked = [] if best is None else [best]
    shown = [] if at is None else [at]
    data = [
        _marks("curve", sizes, values, "lines", line={"color": "var:p", "width": 2}),
        _marks("best", marked, [values[size] for size in marked], "markers", marker=_sign("diamond-open", "recovered", 13)),
        _marks("now", [size for size, _ in shown], [value for _, value in shown], "markers", marker=_sign("circle", "accent", 10)),
    ]
    layout = plot.layout(
        (38, 12, 18, 32),
        xaxis=plot.axis(rangemode="tozero", tickformat="d", nticks=9, title=_title("@lab.axis_size")),
        yaxis=plot.axis(nticks=5, tickformat=".3~g"),
        annotations=[plot.note("@lab.axis_expected", yshift=2)],
    )
    return {"data": data, "layout": layout}


def _bars(role: str, counts: Sequence[int], offset: float, marker: Fig) -> Fig:
    places = [depth + offset for depth in range(1, len(counts) + 1)]
    return {"type": "bar", "x": places, "y": list(counts), "width": _NARROW, "marker": marker, "meta": {"role": role, "offset": offset}}


def _marks(role: str, x: Sequence[int], y: Sequence[float | None], mode: str, **looks: Fig) -> Fig:
    hover = "%{x} → %{y:.4~g}<extra></extra>"
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), "hovertemplate": hover, "meta": {"role": role}, **looks}


def _sign(symbol: str, colour: str, size: int) -> Fig:
    return {"symbol": symbol, "size": size, "color": f"var:{colour}", "line": {"width": 2, "color": f"var:{colour}"}}


def _title(text: str) -> Fig:
    return {"text": text, "font": {"size": plot.SMALL, "color": "var:soft"}, "standoff": 2}
