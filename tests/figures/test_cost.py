"""The figure of the cost model."""

import pytest

from specviz.analysis.acceptance import acceptance
from specviz.analysis.speed import speed
from specviz.config import DecodeConfig
from specviz.figures.cost import cost_info, cost_points, draw_cost
from specviz.figures.tables import FIELDS
from tests.builders import make_trace

CHAIN = make_trace(12, DecodeConfig(temperature=1.0, k=4))
HEADS = make_trace(8, DecodeConfig(method="medusa"))


def series(points: list[dict], name: str) -> list[dict]:
    return [point for point in points if point["series"] == name]


def test_a_chain_is_drawn_by_k_and_heads_by_the_size_of_their_tree() -> None:
    chain, heads = (cost_info(trace.header, trace.steps) for trace in (CHAIN, HEADS))
    assert (chain.by_size, chain.at) == (False, 4)
    assert (heads.by_size, heads.at) == (True, 20)
    assert [point["at"] for point in series(cost_points(chain), "predicted")] == list(range(1, 17))
    assert [point["at"] for point in series(cost_points(heads), "predicted")] == [1, 2, 4, 8, 16, 32]
    full = make_trace(3, DecodeConfig(method="medusa", tree="4x2x1"))
    assert not cost_info(full.header, full.steps).by_size  # a full tree is no calibrated one


def test_marks_stand_on_the_curve_and_what_was_measured_beside_it() -> None:
    points = cost_points(cost_info(CHAIN.header, CHAIN.steps))
    predicted = {point["at"]: point for point in series(points, "predicted")}
    (chosen,), (fastest,), (run,) = (series(points, name) for name in ("chosen", "best", "run"))
    assert chosen | {"series": ""} == predicted[4] | {"series": ""}
    assert fastest["speedup"] == max(point["speedup"] for point in predicted.values())
    assert run["speedup"] == pytest.approx(speed(CHAIN.steps, CHAIN.header.baseline).speedup, rel=1e-3)
    assert run["expected"] == pytest.approx(acceptance(CHAIN.steps, CHAIN.header.config).tokens_per_step, rel=1e-3)
    assert series(points, "fullest") == []
    tree = cost_points(cost_info(HEADS.header, HEADS.steps))
    assert (series(tree, "fullest")[0]["at"], series(tree, "best")[0]["at"]) == (32, 4)


def test_every_measured_pass_is_drawn() -> None:
    points = cost_points(cost_info(CHAIN.header, CHAIN.steps))
    assert [point["rows"] for point in series(points, "verify")] == [1, 2, 4, 8, 16, 32, 64]
    assert [point["rows"] for point in series(points, "draft")] == [1, 2, 4, 8]
    for point in series(points, "plain"):
        assert point["seconds"] == pytest.approx(CHAIN.header.baseline.seconds_per_token, rel=1e-3)
    assert series(points, "asked")[0]["rows"] == 5


def test_the_base_figure_takes_fields_that_the_points_have() -> None:
    points = cost_points(cost_info(HEADS.header, HEADS.steps))
    for trace in draw_cost()["data"]:
        mine = series(points, trace["meta"]["where"]["series"])
        assert mine and {trace["meta"]["x"], trace["meta"]["y"]} <= set(mine[0]), trace["meta"]
        assert trace["marker"]["symbol"] if trace["mode"] == "markers" else True
    assert set(FIELDS["cost"]) <= set(points[0])


def test_the_filled_figure_names_its_axis() -> None:
    for trace, name in ((CHAIN, "depth"), (HEADS, "size")):
        fig = draw_cost(cost_info(trace.header, trace.steps))
        assert fig["layout"]["xaxis"]["title"] == draw_cost()["views"][name]["xaxis.title"]
        assert all(drawn["x"] for drawn in fig["data"] if drawn["meta"]["where"]["series"] != "fullest")


def test_where_nothing_was_measured_nothing_is_drawn() -> None:
    old, plain = make_trace(4, baseline=False), make_trace(4, DecodeConfig(method="plain"))
    assert cost_info(old.header, old.steps) is None and cost_info(plain.header, plain.steps) is None
    assert cost_info(CHAIN.header, ()) is None
    assert draw_cost(None)["data"][0].get("x") is None
