"""The table twins."""

import pytest

from specviz.figures.distribution import distribution_info, patch
from specviz.figures.divergence import divergence_info, divergence_points
from specviz.figures.mask import mask_info
from specviz.figures.roofline import roofline_info, roofline_points
from specviz.figures.tables import TABLES, Row, distribution_rows, mask_rows, table, tree_rows
from specviz.figures.timing import timing_info, timing_points
from specviz.i18n import LANGUAGES
from tests.figures.steps import HEADERS, STEPS


def rows(name: str) -> dict[str, list[Row]]:
    """The rows of each table of one step."""
    step, config = STEPS[name]
    header = HEADERS[name]
    info = distribution_info(step, 0, config)
    return {
        "tree": tree_rows(step),
        "mask": mask_rows(mask_info(step)),
        "distribution": distribution_rows(info.names, patch(info)),
        "divergence": divergence_points(divergence_info([step], header)),
        "timing": timing_points(timing_info([step], header)),
        "roofline": roofline_points(roofline_info(header, [step]).points),
    }


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_figure_has_its_table(name: str, lang: str) -> None:
    tables = rows(name)
    assert set(tables) == set(TABLES)
    for figure, lines in tables.items():
        assert all({field for _, field in TABLES[figure]} <= set(line) for line in lines), figure
        written = table(figure, lines, lang)
        assert len(written) == len(lines) + 1
        assert {len(line) for line in written} == {len(TABLES[figure])}


def test_the_table_of_a_tree_by_hand() -> None:
    step, _ = STEPS["chain refused"]
    head, root, first, *_ = table("tree", tree_rows(step), "en")
    assert head == ["node", "token", "parent", "depth", "q(x)", "p(x)", "verdict"]
    assert (root[2], root[4], root[6]) == ("", "", "root")
    assert (first[2], first[3], first[6]) == ("0", "1", "refused")
    assert first[4] == f"{step.tree[1].q:.4g}"


def test_the_table_of_a_mask_lists_what_a_row_sees() -> None:
    assert mask_rows(mask_info(STEPS["chain"][0]))[3]["sees"] == "0 1 2 3"
