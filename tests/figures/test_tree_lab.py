"""The lab's pictures: counts on a logarithmic axis, the curve of expected tokens, rows of nodes."""

import pytest

from specviz.analysis.trees import depth_counts, full_counts
from specviz.engine.tree import full_shape, parents_of, sparse_shape
from specviz.figures.tree_lab import draw_curve, draw_explosion, node_rows
from specviz.figures.view import plotly_figure


def test_the_explosion_is_drawn_beside_the_sparse_tree() -> None:
    sparse = depth_counts(sparse_shape([[0.3, 0.1], [0.2, 0.1], [0.1, 0.05], [0.1, 0.05]], 8))
    fig = draw_explosion(full_counts([8] * 4), sparse)
    full, few = fig["data"]
    assert full["y"] == [8, 64, 512, 4096] and few["y"] == sparse
    assert fig["layout"]["yaxis"]["type"] == "log"
    assert [x - full["meta"]["offset"] for x in full["x"]] == [1, 2, 3, 4]
    assert full["x"][0] + full["width"] <= few["x"][0] + 1e-9, "bars of one depth must not cover each other"
    assert full["marker"]["pattern"] and "pattern" not in few["marker"]  # colour is not the only sign
    plotly_figure(fig)


def test_the_curve_begins_with_plain_decoding_and_carries_its_marks() -> None:
    curve, best, now = draw_curve([1.5, 1.8, 1.9], best=2, at=(3, 1.7))["data"]
    assert (curve["x"], curve["y"]) == ([0, 1, 2, 3], [1, 1.5, 1.8, 1.9])
    assert (best["x"], best["y"]) == ([2], [1.8])
    assert (now["x"], now["y"]) == ([3], [1.7])
    assert draw_curve()["data"][0]["y"] == [1]
    plotly_figure(draw_curve([1.5]))


@pytest.mark.parametrize("widths", [(1,), (4, 2, 1), (3, 3, 3)])
def test_no_two_nodes_of_a_depth_share_a_row_and_parents_are_in_the_middle(widths: tuple[int, ...]) -> None:
    shape = full_shape(widths)
    parents, rows = parents_of(shape), node_rows(parents_of(shape))
    places = [(len(path), row) for path, row in zip(((), *shape), rows, strict=True)]
    assert len(set(places)) == len(places) and min(rows) == 0
    for node in range(len(parents)):
        children = [rows[i] for i, parent in enumerate(parents) if parent == node]
        if children:
            assert rows[node] == pytest.approx((children[0] + children[-1]) / 2, abs=1e-3)
