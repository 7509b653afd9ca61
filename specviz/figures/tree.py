"""The candidate tree, from left to right: geometry once, and a small array of states beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.figures import plot
from specviz.figures.palette import STATES
from specviz.figures.plot import Fig, signif
from specviz.figures.text import escaped, short, visible
from specviz.figures.tree_layout import PANEL, Layout, arrange, candidate_graph
from specviz.trace import Step

Edge = tuple[list[int | None], list[int | None]]
STRIDE = 6  # points of one edge in the trace of all edges: five, and a gap
_CURVE = ((0.0, 0.0), (0.22, 0.12), (0.5, 0.5), (0.78, 0.88), (1.0, 1.0))  # an S: shares of the way right and down
_DRAWN_OVER = ("accepted", "refused", "recovered", "bonus", "plain")  # states whose edges have a look of their own


@dataclass(frozen=True)
class TreeInfo:
    """Nodes in order; when `extra` is true one more follows, the token that no candidate proposed, a child of the last accepted node.

    `parents` (−1 for the root), `names` (readable texts), `states`, `q`, `p` and `layout` run in parallel. `scale` shrinks the signs of
    a dense tree.
    """

    parents: tuple[int, ...]
    names: tuple[str, ...]
    states: tuple[str, ...]
    q: tuple[float | None, ...]
    p: tuple[float | None, ...]
    extra: bool
    layout: Layout

    @property
    def scale(self) -> float:
        """What the sizes of the signs are multiplied with."""
        return round(max(0.45, min(1.0, self.layout.pitch / 14)), 2)


def tree_info(step: Step) -> TreeInfo:
    """Geometry and states of a step's tree at the end of the step."""
    nodes, last = step.tree, step.emitted[-1]
    extra = last.node is None
    parents = [node.parent for node in nodes]
    names = [visible(node.text) for node in nodes]
    states: list[str] = [node.verdict for node in nodes]
    q, p = [node.q for node in nodes], [node.p for node in nodes]
    if extra:
        row = step.rows[step.stopped_at]
        parents.append(step.stopped_at)
        names.append(visible(step.texts.get(last.token_id, last.text)))
        states.append(last.kind)
        q.append(None)
        p.append(row.p[row.ids.index(last.token_id)] if last.token_id in row.ids else None)
    urgent = [(state != "untested") + (chance or 0) for state, chance in zip(states, q, strict=True)]
    layout = arrange(candidate_graph(parents), names, urgent)
    return TreeInfo(tuple(parents), tuple(names), tuple(states), tuple(q), tuple(p), extra, layout)


def draw_tree(info: TreeInfo, dressed: bool = True) -> Fig:
    """The figure at the end of the step, with `states`, `extra`, `stride` and `scale` beside it, which are what a restyle needs.

    Without `dressed` the looks that follow from the states are left out: the player puts them on, for any sub-step and rule.
    """
    edges = [_edge(info, node) for node in range(1, len(info.parents))]
    drawn_over = [_state_edges(info, state, edges if dressed else []) for state in _DRAWN_OVER]
    data = [_lines("edges", edges, {"color": "var:edge", "width": 1.2}), *drawn_over, _nodes(info, dressed)]
    x, y = (plot.hidden_axis(range=ends) for ends in ([0, PANEL[0]], [PANEL[1], 0]))
    layout = plot.layout((0, 0, 0, 0), xaxis=x, yaxis=y, hoverdistance=24)
    return {"data": data, "layout": layout, "states": list(info.states), "extra": info.extra, "stride": STRIDE, "scale": info.scale}


def _edge(info: TreeInfo, node: int) -> Edge:
    """The S from a parent to `node`, and the gap after it."""
    place, parent = info.layout, info.parents[node]
    x0, y0 = place.x[parent], place.y[parent]
    right, down = place.x[node] - x0, place.y[node] - y0
    return [*(round(x0 + t * right) for t, _ in _CURVE), None], [*(round(y0 + s * down) for _, s in _CURVE), None]


def _lines(role: str, edges: Sequence[Edge], line: dict[str, object], **meta: str) -> Fig:
    x, y = ([value for edge in edges for value in edge[i]] for i in (0, 1))
    trace = {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "meta": {"role": role, **meta}}
    return trace | {"line": {"shape": "spline", "smoothing": 0.9, **line}}


def _state_edges(info: TreeInfo, state: str, edges: Sequence[Edge]) -> Fig:
    sign = STATES[state]
    mine = [edge for edge, other in zip(edges, info.states[1:], strict=False) if other == state]
    line = {"color": f"var:{sign.colour}", "width": round(sign.width * max(info.scale, 0.6), 1), "dash": sign.dash}
    return _lines("edge", mine, line, state=state)


def _nodes(info: TreeInfo, dressed: bool) -> Fig:
    hover = zip(info.names, info.q, info.p, info.states, strict=True)
    values = [[escaped(short(name, 40)), signif(q, 3), signif(p, 3), f"@state.{state}"] for name, q, p, state in hover]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "x": list(info.layout.x),
        "y": list(info.layout.y),
        "text": list(info.layout.labels),
        "textposition": list(info.layout.positions),
        "customdata": values if dressed else [value[:3] for value in values],
        "hovertemplate": "<b>%{customdata[0]}</b><br>q = %{customdata[1]}<br>p = %{customdata[2]}<br>%{customdata[3]}<extra></extra>",
        "cliponaxis": False,
        "meta": {"role": "nodes"},
        **_looks(info, dressed),
    }


def _looks(info: TreeInfo, dressed: bool) -> Fig:
    signs = [STATES[state] for state in info.states] if dressed else []
    font: Fig = {"size": info.layout.font}
    line: Fig = {"width": 1.6 if info.scale > 0.7 else 1.2}
    marker: Fig = {"line": line, "opacity": 1}
    if signs:
        font["color"] = [f"var:{sign.text}" for sign in signs]
        line["color"] = [f"var:{sign.colour}" for sign in signs]
        marker["color"] = [f"var:{sign.fill}" for sign in signs]
        marker["symbol"] = [sign.symbol for sign in signs]
        marker["size"] = [round(sign.size * info.scale, 1) for sign in signs]
    return {"textfont": font, "marker": marker}
