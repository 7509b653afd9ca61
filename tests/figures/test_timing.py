"""Where the time went."""

import pytest

from specviz.figures.timing import draw_timing, timing_info
from tests.builders import make_trace


def test_parts_add_up_and_recording_stays_apart() -> None:
    trace = make_trace(5)
    for step, point in zip(trace.steps, timing_info(trace.steps, trace.header).points, strict=True):
        assert point.decode == pytest.approx(point.propose + point.verify + point.commit)
        assert point.record == step.seconds.record > 0
        assert point.per_token == pytest.approx(point.decode / len(step.emitted))
        assert point.plain_total == pytest.approx(len(step.emitted) * trace.header.baseline.seconds_per_token)


def test_without_a_baseline_nothing_is_made_up() -> None:
    trace = make_trace(3, baseline=False)
    info = timing_info(trace.steps, trace.header)
    assert all(point.plain is None and point.plain_total is None for point in info.points)
    assert draw_timing(info)["data"][-1]["x"] == []


def test_the_figure_stacks_the_parts() -> None:
    trace = make_trace(4)
    fig = draw_timing(timing_info(trace.steps, trace.header), current=1)
    assert fig["layout"]["barmode"] == "stack"
    assert [bars["type"] for bars in fig["data"]] == ["bar"] * 3 + ["scatter"]
    assert all(bars["x"] == [0, 1, 2, 3] for bars in fig["data"])
    points = timing_info(trace.steps, trace.header).points
    assert sum(bars["y"][2] for bars in fig["data"][:3]) == pytest.approx(points[2].decode, rel=1e-3)
