"""Shapes of trees, counted, and what a record tells of them."""

import math
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.analysis import trees
from specviz.config import DecodeConfig, tree_size
from specviz.engine.tree import expected_tokens, full_shape, growth, sparse_shape
from specviz.i18n import Fault
from tests.builders import make_trace

WIDTHS = st.lists(st.integers(1, 4), min_size=1, max_size=4)
ACCURACIES = st.lists(st.lists(st.floats(0, 0.25), min_size=4, max_size=4), min_size=4, max_size=4)


def test_the_explosion_of_all_combinations() -> None:
    assert trees.full_counts([8] * 4) == [8, 64, 512, 4096]
    assert sum(trees.full_counts([8] * 4)) == 4680 == tree_size([8] * 4)
    assert trees.full_counts([]) == []


@given(WIDTHS, ACCURACIES)
@settings(max_examples=50, deadline=None)
def test_all_combinations_are_counted_and_worth_what_their_candidates_are(widths: list[int], accuracies: list[list[float]]) -> None:
    shape = full_shape(widths)
    assert trees.depth_counts(shape) == trees.full_counts(widths)
    assert trees.full_expected(widths, accuracies) == pytest.approx(expected_tokens(shape, accuracies))


def test_what_nobody_measured_is_not_made_up() -> None:
    assert trees.full_expected([2, 1], [[0.5, 0.2]]) is None  # no second head
    assert trees.full_expected([3], [[0.5, 0.2]]) is None  # no third rank
    assert trees.full_expected([2], [[0.5, 0.2]]) == pytest.approx(1.7)


@given(st.integers(1, 8), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_an_assumed_profile_is_one_of_chances(heads: int, first: float, by_head: float, by_rank: float) -> None:
    rows = trees.profile(heads, first, by_head, by_rank)
    assert len(rows) == heads and all(len(row) == 10 and sum(row) <= 1 + 1e-9 for row in rows)
    assert all(a >= b for row in rows for a, b in pairwise(row))
    if first / max(1e-9, 1 - by_rank) <= 1:  # nothing is scaled down
        assert rows[-1][2] == pytest.approx(first * by_head ** (heads - 1) * by_rank**2)


def test_a_growing_tree_is_a_tree_at_every_size_and_the_engines() -> None:
    accuracies = [[0.3, 0.1, 0.05], [0.15, 0.16, 0.02]]
    order = growth(accuracies, 12)
    assert len(order) == 12 and len(set(order)) == 12
    for size in range(1, 13):
        assert sparse_shape(accuracies, size) == tuple(sorted(order[:size], key=lambda path: (len(path), path)))
        assert all(path[:-1] in {(), *order[:size]} for path in order[:size])
    gains = [math.prod(accuracies[d][r] for d, r in enumerate(path)) for path in order]
    assert gains[0] == max(gains)


def test_ranks_are_places_among_siblings() -> None:
    trace = make_trace(2, DecodeConfig(method="medusa", tree="3x2"))
    paths = trees.rank_paths(trace.steps[0], trace.header.config)
    assert paths == [(), *full_shape((3, 2))]


def test_a_tree_that_leaves_ranks_out_is_read_by_what_was_asked_for() -> None:
    asked = "[[0],[2],[2,1]]"
    step = make_trace(1, DecodeConfig(method="medusa", tree="2x1")).steps[0]
    kept = step.model_copy(update={"tree": (*step.tree[:3], step.tree[4])})
    assert trees.rank_paths(kept, DecodeConfig(method="medusa", tree=asked)) == [(), (0,), (2,), (2, 1)]
    with pytest.raises(Fault, match="left ranks out"):
        trees.rank_paths(kept, DecodeConfig(method="draft", tree=asked))


def test_a_step_without_some_of_its_candidates() -> None:
    trace = make_trace(3, DecodeConfig(method="medusa", rule="greedy", tree="3x2", temperature=0.0))
    run = trees.recorded(trace.steps, trace.header.config)
    whole, shape = trace.steps[1], [(0,), (2,), (2, 1)]
    part = run.restricted(1, shape)
    assert [node.parent for node in part.tree] == [-1, 0, 0, 2]
    assert [node.token_id for node in part.tree] == [whole.tree[i].token_id for i in (0, 1, 3, 9)]
    assert part.rows == tuple(whole.rows[i] for i in (0, 1, 3, 9))
    assert run.restricted(1, full_shape((3, 2))).tree == whole.tree
    assert run.missing([*shape, (3,), (0, 0, 0)]) == [(3,), (0, 0, 0)]


def test_under_rejection_a_sibling_cannot_be_left_out_before_another() -> None:
    trace = make_trace(1, DecodeConfig(method="medusa", rule="rejection", tree="3x2", temperature=1.0))
    run = trees.recorded(trace.steps, trace.header.config)
    assert len(run.restricted(0, [(0,), (1,), (1, 0)]).tree) == 4
    with pytest.raises(Fault, match=r"\[2\].*\[1\]"):
        run.restricted(0, [(0,), (2,)])
    match = trees.recorded(trace.steps, DecodeConfig(method="medusa", rule="match", tree="3x2", temperature=1.0))
    assert len(match.restricted(0, [(0,), (2,)]).tree) == 3


def test_plain_decoding_has_no_trees() -> None:
    trace = make_trace(3, DecodeConfig(method="plain"))
    with pytest.raises(Fault, match="proposed nothing"):
        trees.recorded(trace.steps, trace.header.config)


def test_paths_are_written_as_published() -> None:
    assert [trees.text_of(path) for path in ((), (3,), *list(product([1], [0]))[:1])] == ["[]", "[3]", "[1,0]"]
