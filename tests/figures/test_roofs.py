"""The roofline in full: what is measured is solid and where it was measured, what is computed is hollow and lies on a roof."""

import math

import pytest

from specviz.analysis.datasheets import A100, DATASHEETS, H100
from specviz.config import DecodeConfig
from specviz.figures.roofs import base_roofs, base_speedups, draw_roofs, draw_speedups
from specviz.figures.roofs_points import BATCHES, HERE, machine_rows, measured_points, projected_points, roofs_info
from specviz.figures.tables import table
from specviz.figures.view import header_view, localised, plotly_figure
from specviz.trace import Header
from tests.builders import PEAKS, make_header, make_trace

BOTH = (A100.name, H100.name)
TRACE = make_trace(12, DecodeConfig(temperature=1.0, k=4))
HOSTILE = "<b>@roofs.plain</b>var:ink%{x}"


def faulty(header: Header, times: float) -> Header:
    """The same header, its first verifying pass `times` as fast."""
    passes = list(header.timings.passes)
    at = next(i for i, work in enumerate(passes) if work.kind == "verify")
    passes[at] = passes[at].model_copy(update={"seconds": passes[at].seconds / times})
    return header.model_copy(update={"timings": header.timings.model_copy(update={"passes": tuple(passes)})})


def traces(fig: dict, **where: object) -> list[dict]:
    """The traces that take points of this kind."""
    return [one for one in fig["data"] if where.items() <= one.get("meta", {}).get("where", {}).items()]


def test_measured_passes_lie_where_they_were_measured() -> None:
    points = measured_points(TRACE.header)
    timings = TRACE.header.timings
    works = [*timings.passes, *(one.work for one in timings.batches)]
    assert [point["achieved"] for point in points] == [pytest.approx(work.flops / work.seconds, rel=1e-3) for work in works]
    assert [point["intensity"] for point in points] == [pytest.approx(work.flops / work.bytes, rel=1e-3) for work in works]
    assert {point["origin"] for point in points} == {"measured"}
    assert [point["batch"] for point in points if point["set"] == "batch"] == [1, 2, 4, 8]
    assert [point["tokens"] for point in points if point["set"] == "batch"] == [1, 1, 1, 1]
    assert [point["tokens"] for point in points if point["curve"]] == [1, 2, 4, 8, 16, 32, 64]
    labels = [point["label"] for point in points if point["label"]]
    assert labels == ["n = 1", "2", "4", "8", "16", "32", "64", "B = 2", "B = 4", "B = 8"]


def test_computed_passes_lie_on_the_roof_of_their_machine() -> None:
    info = roofs_info(TRACE.header, TRACE.steps, 16, BOTH)
    roofs = {HERE: PEAKS, A100.name: A100, H100.name: H100}
    computed = [point for point in info.points if point["set"] == "projected"]
    assert {point["machine"] for point in computed} == set(roofs)
    for point in computed:
        at = roofs[point["machine"]]
        assert point["achieved"] == pytest.approx(min(at.flops, point["intensity"] * at.bandwidth), rel=2e-3)
        assert (point["origin"], point["batch"]) == ("computed", 16)


def test_a_batch_moves_the_computed_points_to_the_right_and_nothing_else() -> None:
    one, many = (roofs_info(TRACE.header, TRACE.steps, batch) for batch in (1, 64))
    before, after = ([point for point in info.points if point["set"] == "projected"] for info in (one, many))
    assert all(a["intensity"] <= b["intensity"] for a, b in zip(before, after, strict=True))
    assert [p for p in one.points if p["origin"] == "measured"] == [p for p in many.points if p["origin"] == "measured"]
    assert base_roofs(one) == base_roofs(many)


def test_all_points_fit_on_the_axes() -> None:
    for batch in (1, BATCHES[-1]):
        info = roofs_info(TRACE.header, TRACE.steps, batch, tuple(sheet.name for sheet in DATASHEETS))
        layout = base_roofs(info)["layout"]
        for field, axis in (("intensity", "xaxis"), ("achieved", "yaxis")):
            low, high = layout[axis]["range"]
            assert all(low < math.log10(point[field]) < high for point in info.points), (batch, field)


def test_measured_marks_are_solid_and_computed_ones_hollow() -> None:
    fig = draw_roofs(roofs_info(TRACE.header, TRACE.steps, 8, BOTH))
    solid = [one["marker"]["symbol"] for one in traces(fig, set="timing") if "marker" in one]
    hollow = [one["marker"]["symbol"] for one in traces(fig, set="projected")]
    assert hollow == [f"{symbol}-open" for symbol in solid]
    batches = traces(fig, set="batch")[0]
    assert batches["marker"]["symbol"] not in solid
    assert len(batches["x"]) == 4


def test_measured_roofs_are_solid_lines_and_datasheets_dashed_ones_shown_where_chosen() -> None:
    roofs = [one for one in base_roofs(roofs_info(TRACE.header, chosen=BOTH))["data"] if one.get("meta", {}).get("role") == "roof"]
    assert [one["line"]["dash"] == "solid" for one in roofs] == [True] + [False] * len(DATASHEETS)
    assert len({one["line"]["dash"] for one in roofs}) == len(roofs)
    assert [one["meta"]["machine"] for one in roofs if one["visible"]] == [HERE, *BOTH]
    own = roofs[0]
    assert (own["x"][1], own["y"][1]) == (pytest.approx(PEAKS.ridge, rel=1e-3), PEAKS.flops)
    lines = [one for one in base_speedups(roofs_info(TRACE.header, chosen=BOTH))["data"] if one["mode"] == "lines"]
    assert [one["line"]["dash"] for one in lines] == [one["line"]["dash"] for one in roofs]


def test_a_pass_above_its_roof_is_marked_as_a_fault() -> None:
    header = faulty(TRACE.header, 3)
    fig = draw_roofs(roofs_info(header))
    wrong = [point for point in measured_points(header) if point["fault"]]
    assert len(wrong) == 1
    faults = traces(fig, fault=True)[0]
    assert (faults["marker"]["symbol"], faults["x"]) == ("x-thin", [wrong[0]["intensity"]])
    assert sum(len(one["x"]) for one in traces(fig, set="timing") if "marker" in one) == len(header.timings.passes) - 1


def test_figures_take_fields_that_the_points_have() -> None:
    info = roofs_info(TRACE.header, TRACE.steps, 8, BOTH)
    for base, points in ((base_roofs(info), info.points), (base_speedups(info), info.speedups)):
        for meta in (one["meta"] for one in base["data"] if "where" in one["meta"]):
            taken = [p for p in points if all(p.get(field) == value for field, value in meta["where"].items())]
            assert all({meta["x"], meta["y"], *meta["hover"]} <= set(point) for point in taken)


def test_speed_ups_by_batch_and_where_they_end() -> None:
    info = roofs_info(TRACE.header, TRACE.steps, 8, BOTH)
    for key in (HERE, *BOTH):
        curve = [point for point in info.speedups if point["set"] == "curve" and point["machine"] == key]
        assert [point["batch"] for point in curve] == list(BATCHES)
        now = next(point for point in info.speedups if point["set"] == "now" and point["machine"] == key)
        assert now["speedup"] == curve[BATCHES.index(8)]["speedup"]
        stop = next(point for point in info.speedups if point["set"] == "stops" and point["machine"] == key)
        assert stop["speedup"] <= 1
        assert all((point["speedup"] > 1) == (point["batch"] < stop["batch"]) for point in curve)
    done = [point for point in info.speedups if point["origin"] == "measured"]
    assert [(point["machine"], point["batch"]) for point in done] == [(HERE, 1)]
    assert len(traces(draw_speedups(info), set="stops")[0]["x"]) == 3


def test_every_machine_says_who_states_its_roofs() -> None:
    rows = machine_rows(TRACE.header, TRACE.steps)
    assert [row["origin"] for row in rows] == ["measured"] + ["datasheet"] * len(DATASHEETS)
    assert (rows[0]["name"], rows[0]["source"]) == (PEAKS.device, PEAKS.measured_on)
    assert rows[0]["stops"] < rows[1]["stops"]
    assert {row["stops"] for row in machine_rows(TRACE.header)} == {None}
    head, own, first, *_ = table("roofs_machines", rows, "en")
    assert head[1:4] == ["peak, FLOP/s", "bandwidth, bytes/s", "ridge, FLOP/byte"]
    assert (own[5], first[5]) == ("measured", "datasheet")
    passes = table("roofs", list(roofs_info(TRACE.header, batch=4, chosen=BOTH).points), "en")
    assert {line[-1] for line in passes[1:]} == {"measured", "computed"}
    assert {line[3] for line in passes[1:]} == {"machine of the run", *BOTH}


def test_without_peaks_timings_or_steps_there_is_less_to_show_and_no_error() -> None:
    for header in (make_header(baseline=False), make_header(peaks=None), TRACE.header.model_copy(update={"timings": None})):
        info = roofs_info(header, TRACE.steps, 8, BOTH)
        plotly_figure(draw_roofs(info))
        plotly_figure(draw_speedups(info))
    assert measured_points(make_header(baseline=False)) == []
    assert projected_points(make_header(baseline=False), 4, ()) == []
    assert roofs_info(TRACE.header).speedups == ()


def test_the_name_of_a_machine_is_obeyed_by_no_figure() -> None:
    """It may come from somebody's file, and figures obey what they read."""
    header = make_header(peaks=PEAKS.model_copy(update={"device": HOSTILE}))
    view = header_view(header)
    assert view["figures"]["roofs"]["machines"][0]["name"] == HOSTILE
    for name in ("roofs", "speedups"):
        drawn = {part: view["figures"][name][part] for part in ("data", "layout")}
        assert HOSTILE not in str(drawn)
        assert HOSTILE not in str(localised(drawn, "en"))
    assert HOSTILE not in str(view["points"]["roofs"])
