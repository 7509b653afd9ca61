"""Geometry of the candidate tree, and the states that travel beside it."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.figures.palette import STATES
from specviz.figures.tree import STRIDE, draw_tree, tree_info
from specviz.figures.tree_layout import PANEL, arrange, candidate_graph, tidy_rows
from specviz.figures.view import localised
from tests.figures.steps import STEPS

trees = st.integers(0, 80).flatmap(lambda n: st.tuples(*(st.integers(0, i) for i in range(n)))).map(lambda parents: [-1, *parents])


@given(trees)
def test_rows_are_tidy(parents: list[int]) -> None:
    graph = candidate_graph(parents)
    rows = tidy_rows(graph)
    assert min(rows) == 0
    for node in graph:
        children = list(graph.successors(node))
        if children:
            assert rows[node] == pytest.approx((rows[children[0]] + rows[children[-1]]) / 2)  # centred
            assert rows[children[0]] == min(rows[child] for child in children)  # in rank order
    by_depth: dict[int, list[float]] = {}
    for node, depth in graph.nodes(data="depth"):
        by_depth.setdefault(depth, []).append(rows[node])
    for column in by_depth.values():
        column.sort()
        assert all(below - above >= 1 - 1e-9 for above, below in pairwise(column))


def test_rows_by_hand() -> None:
    """A root with two children, the first with three leaves, the second with one: 0 1 2 and, beside them, 3."""
    assert tidy_rows(candidate_graph([-1, 0, 0, 1, 1, 1, 2])) == [2.0, 1.0, 3.0, 0.0, 1.0, 2.0, 3.0]


def test_a_subtree_may_stand_beside_a_shorter_one() -> None:
    """The height follows the fullest depth, not the number of leaves: two leaves, then a leaf with a long tail, take 3 rows."""
    assert max(tidy_rows(candidate_graph([-1, 0, 0, 0, 1, 1, 3, 3]))) == 3.0
    assert max(tidy_rows(candidate_graph([-1, 0, 0, 0, 0, 1, 4]))) == 3.0


@pytest.mark.parametrize("name", STEPS)
def test_nodes_stand_apart_inside_the_panel_right_of_their_parents(name: str) -> None:
    step, _ = STEPS[name]
    info = tree_info(step)
    place = info.layout
    assert len(info.parents) == len(step.tree) + info.extra == len(info.states) == len(place.x) == len(place.labels)
    assert len(set(zip(place.x, place.y, strict=True))) == len(place.x)  # no two in the same spot
    assert all(place.x[node] > place.x[parent] for node, parent in enumerate(info.parents) if node)
    assert all(0 < x < PANEL[0] and 0 < y < PANEL[1] for x, y in zip(place.x, place.y, strict=True))


@pytest.mark.parametrize("name", STEPS)
def test_labels_do_not_touch(name: str) -> None:
    """Boxes of the labels beside their nodes, as wide as their characters at most, do not overlap (labels above stand in turns)."""
    info = tree_info(STEPS[name][0])
    place = info.layout
    boxes = [
        (x, y) for x, y, text, side in zip(place.x, place.y, place.labels, place.positions, strict=True) if text and side == "middle right"
    ]
    for i, (x, y) in enumerate(boxes):
        assert all(x != x2 or abs(y - y2) >= place.font - 1.5 for x2, y2 in boxes[i + 1 :])


@pytest.mark.parametrize("name", STEPS)
def test_labels_above_stay_inside_the_panel(name: str) -> None:
    place = tree_info(STEPS[name][0]).layout
    assert all(y - 5 - place.font > 0 for y, side in zip(place.y, place.positions, strict=True) if side == "top center")


def test_urgent_labels_stay() -> None:
    """Of 100 leaves a panel holds about 30 labels; the accepted one is among them, wherever it is."""
    graph = candidate_graph([-1, *[0] * 100])
    for chosen in (1, 50, 100):
        urgent = [1.0] + [random.Random(i).random() + (i == chosen) for i in range(1, 101)]
        labels = arrange(graph, ["x"] * 101, urgent).labels
        assert labels[chosen]
        assert 20 <= sum(map(bool, labels[1:])) <= 40


@pytest.mark.parametrize(
    ("name", "extra", "state"),
    [
        ("plain", True, "plain"), ("all accepted", True, "bonus"), ("long chain", True, "bonus"), ("chain refused", True, "recovered"),
        ("all refused", True, "recovered"), ("cut by the budget", False, "accepted"),
    ],
)  # fmt: skip
def test_the_extra_token_hangs_where_the_step_stopped(name: str, extra: bool, state: str) -> None:
    step, _ = STEPS[name]
    info = tree_info(step)
    assert info.extra is extra
    if extra:
        assert (info.states[-1], info.parents[-1]) == (state, step.stopped_at)
    assert list(info.states[: len(step.tree)]) == [node.verdict for node in step.tree]


@pytest.mark.parametrize("name", STEPS)
def test_edges_are_slices_of_one_trace(name: str) -> None:
    """What a restyle relies on: the slice of a node runs from its parent to it and ends with a gap; states draw the slices of theirs."""
    info = tree_info(STEPS[name][0])
    traces = {trace["meta"].get("state", trace["meta"]["role"]): trace for trace in draw_tree(info)["data"]}
    edges, place = traces["edges"], info.layout
    assert len(edges["x"]) == STRIDE * (len(info.parents) - 1)
    for node in range(1, len(info.parents)):
        x, y = (edges[axis][(node - 1) * STRIDE : node * STRIDE] for axis in "xy")
        parent = info.parents[node]
        assert (x[0], y[0], x[-2], y[-2]) == (place.x[parent], place.y[parent], place.x[node], place.y[node])
        assert x[-1] is None
        assert y[-1] is None
        if info.states[node] in traces:
            drawn = traces[info.states[node]]
            at = STRIDE * info.states[1:node].count(info.states[node])
            assert (drawn["x"][at : at + STRIDE], drawn["y"][at : at + STRIDE]) == (x, y)


def test_nodes_wear_the_signs_of_their_states() -> None:
    info = tree_info(STEPS["chain refused"][0])
    fig = draw_tree(info)
    nodes = fig["data"][-1]
    assert fig["states"] == list(info.states) == ["root", "refused", "untested", "untested", "untested", "recovered"]
    assert nodes["marker"]["symbol"] == [STATES[state].symbol for state in info.states]
    assert nodes["marker"]["line"]["color"] == [f"var:{STATES[state].colour}" for state in info.states]
    shown = localised(nodes["customdata"][1], "en")
    assert shown[1:] == [pytest.approx(info.q[1], rel=1e-2), pytest.approx(info.p[1], rel=1e-2, abs=1e-9), "refused"]


def test_equal_trees_are_drawn_equally() -> None:
    """Stable: where a node stands depends on the tree alone, not on chances."""
    one, other = (tree_info(STEPS[name][0]).layout for name in ("64 nodes", "64 nodes"))
    assert one == other
    assert tidy_rows(candidate_graph([-1, 0, 0, 1, 1, 2, 2]))[3:5] == [0.0, 1.0]


def test_without_looks_the_geometry_is_the_same() -> None:
    info = tree_info(STEPS["typical"][0])
    bare, dressed = draw_tree(info, dressed=False), draw_tree(info)
    assert bare["states"] == dressed["states"]
    assert bare["data"][0] == dressed["data"][0]
    assert all(bare["data"][-1][field] == dressed["data"][-1][field] for field in ("x", "y", "text", "textposition"))
    assert "symbol" not in bare["data"][-1]["marker"]
    assert not any(trace["x"] for trace in bare["data"][1:-1])
