"""The roofline of a run."""

import pytest

from specviz.figures.roofline import KINDS, draw_roofline, roofline_info
from specviz.figures.view import localised
from specviz.trace import Trace
from tests.builders import PEAKS, make_trace


def faster(trace: Trace, times: float) -> Trace:
    """The same run with all passes of its first step `times` as fast."""
    passes = tuple(one.model_copy(update={"seconds": one.seconds / times}) for one in trace.steps[0].passes)
    return trace.model_copy(update={"steps": (trace.steps[0].model_copy(update={"passes": passes}), *trace.steps[1:])})


def test_points_are_work_over_bytes_and_seconds() -> None:
    trace = make_trace(2)
    info = roofline_info(trace.header, trace.steps)
    passes = [*trace.header.baseline.passes, *(one for step in trace.steps for one in step.passes)]
    assert len(info.points) == len(passes)
    for point, one in zip(info.points, passes, strict=True):
        assert (point.intensity, point.achieved) == (one.flops / one.bytes, one.flops / one.seconds)
        assert point.roof == min(PEAKS.flops, PEAKS.bandwidth * point.intensity)
        assert not point.fault
    assert {point.step for point in info.points} == {-1, 0, 1}


def test_a_pass_above_its_roof_is_a_fault_and_looks_like_one() -> None:
    trace = faster(make_trace(2), 3)
    info = roofline_info(trace.header, trace.steps)
    wrong = [point for point in info.points if point.fault]
    assert {point.step for point in wrong} == {0}
    assert len(wrong) == len(trace.steps[0].passes)
    fig = draw_roofline(info)
    faults = fig["data"][-1]
    assert faults["x"] == [pytest.approx(point.intensity, rel=1e-3) for point in wrong]
    assert faults["marker"]["symbol"] == "x-thin"
    assert localised(faults["name"], "en") == "above its roof: a fault"
    assert sum(len(mine["x"]) for mine in fig["data"] if "where" in mine.get("meta", ())) == len(info.points)


def test_without_peaks_there_are_points_and_a_note() -> None:
    trace = make_trace(2, peaks=None)
    info = roofline_info(trace.header, trace.steps)
    assert all(point.roof is None and not point.fault for point in info.points)
    fig = draw_roofline(info)
    assert "roof" not in {mine.get("meta", {}).get("role") for mine in fig["data"]}
    assert localised(fig["layout"]["annotations"][0]["text"], "en") == "roofs not measured on this machine"


def test_passes_that_have_no_place_on_logarithmic_axes_are_left_out() -> None:
    trace = make_trace(1)
    nothing = trace.steps[0].passes[0].model_copy(update={"flops": 0.0})
    step = trace.steps[0].model_copy(update={"passes": (nothing,)})
    assert len(roofline_info(trace.header, [step]).points) == len(trace.header.baseline.passes)


def test_the_roof_turns_at_the_ridge() -> None:
    fig = draw_roofline(roofline_info(make_trace(1).header))
    roof = fig["data"][0]
    assert roof["x"][1] == pytest.approx(PEAKS.ridge, rel=1e-3)
    assert roof["y"][1:] == [PEAKS.flops] * 2
    assert roof["y"][0] / roof["x"][0] == pytest.approx(PEAKS.bandwidth, rel=1e-3)
    assert fig["layout"]["shapes"][0]["x0"] == pytest.approx(PEAKS.ridge, rel=1e-3)


def test_the_datasheet_is_assumed_and_hidden_at_first() -> None:
    fig = draw_roofline(roofline_info(make_trace(1).header))
    sheet = next(mine for mine in fig["data"] if mine.get("meta", {}).get("role") == "datasheet")
    assert sheet["visible"] is False
    assert (sheet["x"][1], sheet["y"][1]) == (153, 312e12)
    assert "assumed" in localised(sheet["text"][1], "en")


def test_every_kind_of_pass_has_its_own_symbol() -> None:
    assert len({symbol for _, symbol in KINDS.values()}) == len(KINDS) == 4
