"""p against q after a node."""

import pytest

from specviz.figures.distribution import BARS, FIRST_CHOICES, distribution_info, draw_distribution, patch, patched
from specviz.figures.view import localised
from tests.builders import make_step
from tests.figures.steps import REJECTION, STEPS, TYPICAL


@pytest.mark.parametrize("name", STEPS)
def test_bars_add_up_to_one_and_show_every_child_that_fits(name: str) -> None:
    step, config = STEPS[name]
    for node in range(len(step.tree)):
        info = distribution_info(step, node, config)
        columns = [column for column in (info.p, info.q, info.residual) if column is not None]
        assert all(sum(column) == pytest.approx(1, abs=1e-6) and len(column) == len(info.children) for column in columns)
        assert len(info.p) <= BARS + 1
        assert [*info.p[:-1]] == sorted(info.p[:-1], reverse=True)
        assert (info.q is None) == (not step.children(node))
        shown = {child for child in info.children if child >= 0}
        assert shown <= set(step.children(node))
        assert len(shown) >= min(len(step.children(node)), BARS - FIRST_CHOICES - (info.extra is not None))
        assert [*info.p[:FIRST_CHOICES]] == sorted(step.rows[node].p, reverse=True)[:FIRST_CHOICES], "the target's first choices are there"


def test_values_belong_to_their_tokens() -> None:
    step, config = STEPS["chain"]
    info = distribution_info(step, 0, config)
    bar = info.children.index(1)
    assert (info.p[bar], info.q[bar]) == (step.tree[1].p, step.tree[1].q)


def test_the_residual_stands_only_where_a_token_was_recovered_from_it() -> None:
    step = make_step(widths=(1,) * 4, config=REJECTION, outcome="refuse")
    assert distribution_info(step, 0, REJECTION).residual is not None
    assert distribution_info(step, 1, REJECTION).residual is None
    for name in ("all accepted", "temperature 0", "typical", "plain"):
        other, config = STEPS[name]
        assert all(distribution_info(other, node, config).residual is None for node in range(len(other.tree))), name


def test_the_recovered_token_is_among_the_bars() -> None:
    step, config = STEPS["chain refused"]
    info = distribution_info(step, 0, config)
    assert info.extra is not None
    assert step.texts[step.emitted[-1].token_id].strip() in info.names[info.extra].strip("·")
    assert info.residual[info.extra] > 0
    assert distribution_info(step, 1, config).extra is None


def test_the_threshold_belongs_to_the_typical_rule() -> None:
    step, _ = STEPS["typical"]
    info = distribution_info(step, 0, TYPICAL)
    assert info.threshold == step.rows[0].threshold
    assert patch(info)["x"][3] == [pytest.approx(info.threshold, rel=1e-3)] * 2
    assert "min(ε, δ" in localised(draw_distribution(info)["layout"]["annotations"][0]["text"], "en")
    assert distribution_info(step, 0, REJECTION).threshold is None
    assert patch(distribution_info(step, 0, REJECTION))["x"][3] == []


def test_a_patched_figure_shows_the_node() -> None:
    step, config = STEPS["chain refused"]
    node = patch(distribution_info(step, 0, config))
    states = [candidate.verdict for candidate in step.tree] + ["recovered"]
    fig = patched(draw_distribution(), node, states)
    residual, p, q, line, signs = fig["data"]
    assert (residual["x"], p["x"], q["x"]) == tuple(node["x"][:3])
    assert not line["visible"]
    assert {*signs["marker"]["symbol"]} == {"x-thin", "diamond"}
    assert fig["layout"]["yaxis"]["ticktext"] == node["labels"]
    leaf = patched(draw_distribution(), patch(distribution_info(step, 4, config)), states)
    assert not leaf["data"][2]["visible"]


def test_the_base_figure_is_not_changed_by_a_patch() -> None:
    base = draw_distribution()
    patched(base, patch(distribution_info(STEPS["chain"][0], 0, REJECTION)), ["root"] * 7)
    assert base == draw_distribution()
