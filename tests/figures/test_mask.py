"""The attention mask of the tree."""

import pytest

from specviz.figures.mask import draw_mask, mask_info
from tests.figures.steps import STEPS


@pytest.mark.parametrize("name", STEPS)
def test_a_row_sees_its_ancestors_and_itself(name: str) -> None:
    step, _ = STEPS[name]
    info = mask_info(step)
    assert [list(row) for row in info.cells] == [step.path(node) for node in range(len(step.tree))]
    assert all(list(row) == sorted(row) for row in info.cells)


def test_positions_are_those_of_the_depth() -> None:
    """20 committed tokens: 19 are cached, the root has position 19, its children share 20."""
    info = mask_info(STEPS["all accepted"][0])
    assert info.cached == 19
    assert info.positions[:4] == (19, 20, 20, 20)
    assert set(info.positions[4:]) == {21}


def test_the_heatmap_shows_the_same_cells() -> None:
    info = mask_info(STEPS["typical"][0])
    values = draw_mask(info)["data"][0]["z"]
    assert all(row[0] == 3 for row in values)
    assert [[column - 1 for column, value in enumerate(row) if column and value] for row in values] == [list(row) for row in info.cells]
    assert all(row[i + 1] == 2 and row.count(2) == 1 for i, row in enumerate(values))
