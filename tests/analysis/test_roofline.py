"""Where a pass lies under the roofs, and that one above them is called a fault."""

import pytest

from specviz.analysis.roofline import TOLERANCE, fault, point, points, roof
from specviz.i18n import t
from specviz.trace import Pass, Peaks
from tests.builders import PEAKS, make_step, make_trace

MACHINE = Peaks(device="x", dtype="float32", flops=1000.0, bandwidth=100.0, measured_on="2026-01-31")  # ridge 10


def work(flops: float, size: float, seconds: float) -> Pass:
    return Pass(kind="verify", tokens=1, context=0, flops=flops, bytes=size, seconds=seconds)


def test_roof_rises_to_the_ridge_and_is_flat_behind_it():
    assert MACHINE.ridge == 10
    assert [roof(x, MACHINE) for x in (1, 5, 10, 50)] == [100, 500, 1000, 1000]


def test_a_point_by_hand():
    placed = point(work(400, 200, 4.0), MACHINE)
    assert (placed.intensity, placed.achieved, placed.roof, placed.share) == (2, 100, 200, 0.5)
    assert not placed.above_roof


def test_above_the_roof_is_a_fault_beyond_the_tolerance():
    just = point(work(200 * (1 + TOLERANCE), 100 * (1 + TOLERANCE), 1.0), MACHINE)
    assert not just.above_roof
    assert fault(just, MACHINE) is None
    memory = point(work(200, 100, 0.9), MACHINE)
    assert memory.above_roof
    assert fault(memory, MACHINE) == "roofline.above_memory"
    arithmetic = point(work(2000, 100, 1.8), MACHINE)
    assert arithmetic.above_roof
    assert fault(arithmetic, MACHINE) == "roofline.above_arithmetic"
    assert all(t(lang, key) for lang in ("en", "zh") for key in ("roofline.above_memory", "roofline.above_arithmetic"))


@pytest.mark.parametrize("empty", [work(0, 1, 1), work(1, 0, 1), work(1, 1, 0)])
def test_a_pass_without_work_or_time_has_no_place(empty: Pass):
    assert point(empty, MACHINE) is None
    assert points([empty], MACHINE) == {}


def test_without_peaks_there_is_no_roof_and_no_fault():
    placed = point(work(400, 200, 4.0), None)
    assert (placed.roof, placed.share, placed.above_roof) == (None, None, False)


def test_points_come_by_kind_in_order():
    step = make_step(widths=(1, 1, 1))
    placed = points(step.passes, PEAKS)
    assert {kind: len(group) for kind, group in placed.items()} == {"draft": 3, "verify": 1}
    assert placed["verify"][0].tokens == 4


def test_a_wider_pass_has_a_higher_intensity():
    steps = make_trace(3).steps
    verify = points((p for s in steps for p in s.passes), PEAKS)["verify"]
    plain = points(make_trace(0).header.baseline.passes, PEAKS)["plain"]
    assert min(p.intensity for p in verify) > 4 * max(p.intensity for p in plain)
