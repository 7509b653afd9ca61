"""The table twins."""

import pytest

from specviz.analysis.acceptance import count
from specviz.analysis.slow import why
from specviz.analysis.typical import compare
from specviz.figures.cost import cost_info, cost_rows
from specviz.figures.distribution import distribution_info, patch
from specviz.figures.divergence import divergence_info, divergence_points
from specviz.figures.mask import mask_info
from specviz.figures.roofline import roofline_info, roofline_points
from specviz.figures.roofs_points import machine_rows, roofs_info
from specviz.figures.rules import rules_rows
from specviz.figures.tables import TABLES, Row, acceptance_rows, distribution_rows, mask_rows, table, tree_rows, why_rows
from specviz.figures.timing import timing_info, timing_points
from specviz.figures.typical import typical_info, typical_points
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
        "cost": cost_rows(cost_info(header, [step])),
        "why": why_rows(found) if (found := why([step], header)) else [],
        "acceptance": acceptance_rows(count(step, config)),
        "roofs": list(roofs_info(header, [step], 8, ("T4",)).points),
        "roofs_machines": machine_rows(header, [step]),
        "roofs_speedups": list(roofs_info(header, [step], 8, ("T4",)).speedups),
        "typical": typical_points(typical_info([step], 0.09, 0.3)),
        "rules": rules_rows(compare([step], {"typical": [step], "match": None}, {"typical": config})),
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


def test_the_table_of_why_adds_up() -> None:
    step, _ = STEPS["chain refused"]
    parts = {row["part"]: row["ms"] for row in why_rows(why([step], HEADERS["chain refused"]))}
    assert parts["step"] == pytest.approx(parts["one"] + parts["drafting"] + parts["verifying"] + parts["overhead"])
    assert parts["gain"] == pytest.approx(parts["worth"] - parts["step"])
    assert parts["ideal"] == pytest.approx(parts["worth"] + parts["refused"] + parts["cut"])


def test_the_table_of_acceptance_by_hand() -> None:
    step, config = STEPS["cut by the budget"]  # two of five candidates were committed
    written = table("acceptance", acceptance_rows(count(step, config)), "en")
    assert [row[1:] for row in written[1:4]] == [["", "2", "1", "2"], ["", "2", "2", "1"], ["", "2", "5", "0.4"]]
    assert [row[1:] for row in written[5:]] == [["1", "1", "1", "1"], ["2", "1", "1", "1"]]
