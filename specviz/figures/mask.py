"""The tree attention mask: which columns each row of the verify pass may look at."""

from dataclasses import dataclass

from specviz.figures import plot
from specviz.figures.plot import Fig
from specviz.figures.text import key, label, visible
from specviz.trace import Step


@dataclass(frozen=True)
class MaskInfo:
    """Row i and column i are node i. `cells[i]` are the columns that row i sees: its ancestors and itself, ascending.

    Every row also sees the `cached` tokens of the context. `positions` are the position ids (siblings share one), `names` readable texts.
    """

    cached: int
    cells: tuple[tuple[int, ...], ...]
    positions: tuple[int, ...]
    names: tuple[str, ...]


def mask_info(step: Step) -> MaskInfo:
    """The mask of a step's verify pass (computed from the parents, as the engine computes it)."""
    cells: list[tuple[int, ...]] = []
    for i, node in enumerate(step.tree):
        cells.append((*cells[node.parent], i) if i else (0,))
    cached = step.context - 1  # the root is committed, but its keys and values are not in the cache yet
    return MaskInfo(cached, tuple(cells), tuple(cached + len(row) - 1 for row in cells), tuple(visible(node.text) for node in step.tree))


def draw_mask(info: MaskInfo) -> Fig:
    """A heatmap for notebooks: 0 not seen, 1 an ancestor, 2 itself, 3 the context, condensed into the first column."""
    n = len(info.cells)
    values = [[3] + [0] * n for _ in range(n)]
    for i, row in enumerate(info.cells):
        for column in row:
            values[i][column + 1] = 2 if column == i else 1
    labels = [label(name, 8) for name in info.names]
    colours = ("grid", "p", "accent", "faint")
    steps = [[(i + end) / 4, f"var:{name}"] for i, name in enumerate(colours) for end in (0, 1)]
    heatmap = {
        "type": "heatmap", "z": values, "zmin": 0, "zmax": 3, "colorscale": steps, "showscale": False,
        "xgap": 1.4 if n <= 80 else 0, "ygap": 1.4 if n <= 80 else 0,
        "hovertemplate": "%{y} → %{x}<extra></extra>",
    }  # fmt: skip
    ticks = {"tickmode": "array", "tickvals": list(range(n)), "ticktext": labels} if n <= 32 else {"showticklabels": False}
    rows = plot.axis(autorange="reversed", showgrid=False, scaleanchor="x", constrain="domain", **ticks)
    columns = plot.axis(side="top", showgrid=False, showticklabels=False, constrain="domain")
    text = key("mask.context", cached=info.cached)
    return {"data": [heatmap], "layout": plot.layout((70, 8, 24, 8), xaxis=columns, yaxis=rows, annotations=[plot.note(text, xshift=-62)])}
