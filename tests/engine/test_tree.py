"""Trees: what is derived from parents, and the builders."""

import itertools

import pytest

from specviz.config import tree_size
from specviz.engine.tree import TokenTree, expected_tokens, full_shape, parents_of, sparse_shape

ACCURACIES = ((0.56, 0.11, 0.06, 0.03), (0.32, 0.11, 0.06, 0.04), (0.2, 0.08, 0.05, 0.03))


def test_everything_is_derived_from_parents() -> None:
    tree = TokenTree((9, 1, 2, 3, 4), (-1, 0, 0, 1, 3))
    assert tree.depths == (0, 1, 1, 2, 3)
    assert tree.children == ((1, 2), (3,), (), (4,), ())
    assert tree.path(4) == [0, 1, 3, 4] and tree.text(4) == [1, 3, 4]
    seen = [[j for j, on in enumerate(row) if on] for row in tree.mask().tolist()]
    assert seen == [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 3, 4]]


def test_a_full_tree_has_the_size_it_says() -> None:
    for widths in ((1,), (4, 2, 1), (10, 1), (2, 2, 2)):
        shape = full_shape(widths)
        assert len(shape) == tree_size(widths) and len(set(shape)) == len(shape)
        assert [len(path) for path in shape] == sorted(len(path) for path in shape)
        assert parents_of(shape)[1] == 0


def test_the_sparse_tree_is_the_best_of_its_size() -> None:
    """Against every connected tree of four candidates from two heads."""
    accuracies = tuple(row[:3] for row in ACCURACIES[:2])
    candidates = full_shape((3, 3))
    best = 0.0
    for shape in itertools.combinations(candidates, 4):
        if all(len(path) == 1 or path[:-1] in shape for path in shape):
            best = max(best, expected_tokens(shape, accuracies))
    assert expected_tokens(sparse_shape(accuracies, 4), accuracies) == pytest.approx(best)


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_a_sparse_tree_is_a_tree(size: int) -> None:
    shape = sparse_shape(ACCURACIES, size)
    assert len(shape) == min(size, tree_size((4, 4, 4)))
    parents = parents_of(shape)
    assert all(parent < node for node, parent in enumerate(parents[1:], start=1))


def test_the_published_accuracies_give_about_the_published_length() -> None:
    """Sixty-three candidates and the 7B accuracies: about 2.45 tokens a step (the static model, heads independent)."""
    seven_b = (
        (0.560, 0.112, 0.055, 0.033, 0.020), (0.316, 0.108, 0.061, 0.043, 0.035),
        (0.201, 0.08, 0.05, 0.04, 0.03), (0.147, 0.06, 0.04, 0.03, 0.02),
    )  # fmt: skip
    assert 2.2 < expected_tokens(sparse_shape(seven_b, 63), seven_b) < 2.7
