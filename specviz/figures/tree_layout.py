"""Where the nodes of a candidate tree and their labels go: pure geometry, in pixels of the panel.

Parents are centred on their children and no two nodes of a depth come closer than a row (Reingold & Tilford 1981, "Tidier drawings of
trees"), so the height follows the fullest depth, not the number of leaves, and 64 candidates keep their labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from specviz.figures.text import label, width

PANEL = (540, 290)  # pixels of the panel that the figure is made for; elsewhere it is stretched
NORMAL, SMALLEST = 11.5, 9.0  # letter sizes
_ABOVE = 12  # pixels more at the top where labels stand above their nodes
_CHARACTER = 0.57  # width of a character in letter sizes
_EDGE = 14  # pixels kept free above and below
_ROOMY = 26  # pixels between rows from which labels stand above their nodes
_GAP = "\u2009"  # a thin space
_LONGEST = 14  # characters of a label


@dataclass(frozen=True)
class Layout:
    """Pixels of each node (y downwards), its label (escaped, "" where there is no room) and plotly's textposition.

    `pitch` is the distance between two rows, `font` the size of the letters.
    """

    x: tuple[int, ...]
    y: tuple[int, ...]
    labels: tuple[str, ...]
    positions: tuple[str, ...]
    pitch: float
    font: float


def candidate_graph(parents: Sequence[int]) -> nx.DiGraph:
    """The tree as a graph: nodes 0, 1, … with their "depth", edges from parent to child in rank order."""
    graph = nx.DiGraph()
    for node, parent in enumerate(parents):
        graph.add_node(node, depth=graph.nodes[parent]["depth"] + 1 if parent >= 0 else 0)
        if parent >= 0:
            graph.add_edge(parent, node)
    return graph


def tidy_rows(graph: nx.DiGraph) -> list[float]:
    """A row for each node, the topmost 0: siblings in order, parents in the middle of their children, equal subtrees drawn equally."""
    offsets: dict[int, float] = {}  # of a node from its parent
    outlines: dict[int, tuple[list[float], list[float]]] = {}  # first and last row by depth below a node, from the node's own row
    for node in reversed(list(graph)):  # a parent stands before its children
        children = list(graph.successors(node))
        starts, tops, bottoms = _pack([outlines.pop(child) for child in children])
        middle = (starts[0] + starts[-1]) / 2 if starts else 0.0
        offsets.update(zip(children, (start - middle for start in starts), strict=True))
        outlines[node] = [0.0] + [row - middle for row in tops], [0.0] + [row - middle for row in bottoms]
    rows = [0.0] * len(graph)
    for parent, child in graph.edges:
        rows[child] = rows[parent] + offsets[child]
    return [row - min(rows) for row in rows]


def _pack(outlines: Sequence[tuple[list[float], list[float]]]) -> tuple[list[float], list[float], list[float]]:
    """Subtrees one under the other, as close as they go: the row of each one's root, and the outline of all of them."""
    starts: list[float] = []
    tops: list[float] = []
    bottoms: list[float] = []
    for top, bottom in outlines:
        start = max((below - row + 1 for below, row in zip(bottoms, top, strict=False)), default=0.0)
        starts.append(start)
        tops += [start + row for row in top[len(tops) :]]
        bottoms = [start + row for row in bottom] + bottoms[len(bottom) :]
    return starts, tops, bottoms


def arrange(graph: nx.DiGraph, names: Sequence[str], urgent: Sequence[float]) -> Layout:
    """Place the nodes and fit their labels; where there are too many labels, those with the higher `urgent` stay."""
    wide, high = PANEL
    depths = [depth for _, depth in graph.nodes(data="depth")]
    rows = tidy_rows(graph)
    deepest, last_row = max(depths), max(rows)
    pitch = _pitch(high - 2 * _EDGE, last_row, deepest)
    roomy = pitch >= _ROOMY
    top = float(_EDGE)
    if roomy:
        pitch = _pitch(high - 2 * _EDGE - _ABOVE, last_row, deepest)
        top = (high + _ABOVE - pitch * last_row) / 2
    font = NORMAL if pitch >= 13 else max(SMALLEST, min(pitch - 1, NORMAL))
    letter = font * _CHARACTER
    left = min(width(names[0]), 10) * letter + 16  # the root's label stands before it
    right = max(min(width(name), _LONGEST) for name, depth in zip(names, depths, strict=True) if depth == deepest) * letter + 26
    column = min((wide - left - right) / deepest, 150) if deepest else 0.0
    x = tuple(round(left + column * depth) for depth in depths)
    y = tuple(round(top + pitch * row) for row in rows)
    if roomy:
        labels, positions = _above(graph, depths, names, column / letter, levels=4 if not last_row else 2)
    else:
        labels, positions = _beside(depths, names, (column - 15) / letter, deepest)
        labels = _thinned(labels, depths, y, urgent, font - 0.5)
    labels = [_aside(text, position) for text, position in zip(labels, positions, strict=True)]
    return Layout(x, y, tuple(labels), tuple(positions), pitch, font)


def _pitch(high: float, last_row: float, deepest: int) -> float:
    """Pixels from row to row, not more than looks well; a deep tree has labels on both sides of a row."""
    return min(high / last_row, 72 if deepest > 7 else 46) if last_row else high / 2


def _aside(text: str, position: str) -> str:
    """A label beside its node, a little away from it."""
    if position == "middle right":
        return text and _GAP + text
    return text + _GAP if position == "middle left" else text


def _above(graph: nx.DiGraph, depths: Sequence[int], names: Sequence[str], places: float, levels: int) -> tuple[list[str], list[str]]:
    """Labels over inner nodes; where a column is narrow, in turns above and below them, in up to four `levels`."""
    longest = max((min(width(name), 10) for name in names[1:]), default=1)
    turns = max(1, min(levels, math.ceil((longest + 1) / max(places, 0.1))))
    deepest = max(depths)
    labels, positions = [], []
    room = places * turns - 1
    for node, name in enumerate(names):
        turn = depths[node] % turns
        if not node:
            text, position = label(name, 10), "middle left"
        elif not graph.out_degree(node) and turns == 1:
            text, position = label(name, _LONGEST if depths[node] == deepest else room), "middle right"
        else:
            text, position = label(name, room) if room > 1 else "", ("top center", "bottom center")[turn % 2]
        if turn >= 2 and text:
            text = f"{text}<br> " if turn == 2 else f" <br>{text}"
        labels.append(text)
        positions.append(position)
    return labels, positions


def _beside(depths: Sequence[int], names: Sequence[str], places: float, deepest: int) -> tuple[list[str], list[str]]:
    """Labels on the right of their nodes, cut where the next column begins."""
    labels = [label(name, _LONGEST if depth == deepest else max(places, 2)) for name, depth in zip(names, depths, strict=True)]
    labels[0] = label(names[0], 10)
    return labels, ["middle left"] + ["middle right"] * (len(names) - 1)


def _thinned(labels: Sequence[str], depths: Sequence[int], y: Sequence[float], urgent: Sequence[float], apart: float) -> list[str]:
    """The labels with "" for those that would touch a more urgent one of the same column."""
    kept: dict[int, list[float]] = {}
    thinned = [""] * len(labels)
    for node in sorted(range(len(labels)), key=lambda node: -urgent[node]):
        others = kept.setdefault(depths[node], [])
        if all(abs(y[node] - other) >= apart for other in others):
            others.append(y[node])
            thinned[node] = labels[node]
    return thinned
