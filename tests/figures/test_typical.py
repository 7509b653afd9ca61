"""Typical acceptance and the four rules as figures: their numbers."""

import math
from dataclasses import replace

import pytest

import specviz
from specviz.analysis.typical import Outcome, compare, tried
from specviz.config import RULES, DecodeConfig
from specviz.figures.rules import RulesInfo, draw_rules, rules_points, rules_rows
from specviz.figures.typical import FLOOR, draw_typical, line_points, typical_info, typical_points
from specviz.trace import Step, Trace
from tests.builders import make_step, make_trace
from tests.figures.steps import STEPS

TYPICAL = DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7)


def rules_info(trace: Trace) -> RulesInfo:
    judged: dict[str, list[Step] | None] = {rule: specviz.rejudge(trace, rule=rule) for rule in RULES}
    configs = {rule: replace(trace.header.config, rule=rule) for rule in RULES}
    return RulesInfo(tuple(compare(trace.steps, judged, configs)), judged)


def test_every_judged_candidate_is_a_point_on_its_side_of_the_line() -> None:
    trace = make_trace(12, TYPICAL)
    points = typical_points(typical_info(trace.steps, 0.09, 0.3))
    assert len(points) == sum(len(tried(step)) for step in trace.steps)
    assert {point["state"] for point in points} == {"accepted", "beside", "refused"}
    for point in points:
        assert point["threshold"] == pytest.approx(min(0.09, 0.3 * math.exp(-point["entropy"])), rel=1e-3)
        assert (point["p"] > point["threshold"]) == (point["state"] != "refused")
        assert (">" in point["sum"]) == (point["state"] != "refused")


def test_the_line_bends_where_both_thresholds_meet() -> None:
    info = typical_info(make_trace(4, TYPICAL).steps, 0.1, 0.3)
    corners = [(point["entropy"], point["shown"]) for point in line_points(info)]
    assert corners[0] == (0, 0.1)
    assert corners[1] == (pytest.approx(math.log(3), rel=1e-3), 0.1)
    assert corners[2][1] == pytest.approx(0.3 * math.exp(-corners[2][0]), rel=1e-3)
    assert len(line_points(replace(info, delta=0.05))) == 2, "δ below ε: it only falls"
    assert line_points(replace(info, epsilon=0.0)) == [], "a threshold of 0 has no place on the axis"


def test_what_is_too_small_for_the_axis_lies_on_its_edge() -> None:
    step, _ = STEPS["typical"]
    tree = tuple(node.model_copy(update={"p": 0.0 if i else None}) for i, node in enumerate(step.tree))
    points = typical_points(typical_info([step.model_copy(update={"tree": tree})], 0.09, 0.3))
    assert {(point["p"], point["shown"]) for point in points} == {(0, FLOOR)}


def test_hostile_tokens_are_names_and_nothing_else() -> None:
    step, _ = STEPS["hostile, typical"]
    for point in typical_points(typical_info([step], 0.09, 0.3)):
        assert "<" not in point["name"] and not point["name"].startswith(("@", "var:"))


def test_bars_are_what_a_rule_commits_and_hatched_behind_its_parting() -> None:
    trace = make_trace(12, TYPICAL, seed=1)
    info = rules_info(trace)
    points = rules_points(info)
    assert len(points) == 12 * len(RULES)
    for outcome in info.outcomes:
        mine = [point for point in points if point["rule"] == outcome.rule]
        assert [point["tokens"] for point in mine] == [len(step.emitted) for step in info.judged[outcome.rule]]
        assert [point["past"] for point in mine] == [outcome.parts is not None and i > outcome.parts for i in range(12)]
    assert sum(point["past"] for point in points) > 12
    drawn = draw_rules(info, 3)
    assert sum(len(trace["x"]) for trace in drawn["data"]) == 2 * len(points)
    assert (drawn["layout"]["shapes"][0]["x0"], drawn["layout"]["shapes"][0]["x1"]) == (3.5, 4.5)


def test_the_rows_of_a_rule_that_cannot_be_judged_are_empty() -> None:
    assert rules_rows([Outcome("match")]) == [dict.fromkeys(rules_rows([Outcome("match")])[0]) | {"rule": "match"}]
    assert rules_points(RulesInfo((Outcome("match"),), {"match": None})) == []


def test_without_candidates_there_is_only_the_line() -> None:
    plain = make_step(widths=(), config=DecodeConfig(method="plain", rule="match", temperature=1.0))
    drawn = draw_typical(typical_info([plain], 0.09, 0.3))
    assert [len(trace["x"]) for trace in drawn["data"]] == [3, 0, 0, 0]
