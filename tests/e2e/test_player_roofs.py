"""The roofline in full: its numbers are those of Python, its slider and chips move what they should, every row says where it is from."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from specviz.analysis.datasheets import DATASHEETS
from specviz.analysis.projection import speculation
from specviz.config import DecodeConfig
from specviz.figures.roofs_points import BATCHES, machine_rows, projected_points, roofs_info
from specviz.figures.roofs_points import machines as machines_of
from specviz.figures.view import run_view
from specviz.i18n import t
from specviz.trace import Trace
from tests.builders import PEAKS, make_trace
from tests.e2e.player import Stage, stage
from tests.figures.test_roofs import faulty

pytestmark = pytest.mark.browser

RECORDED = {
    "chain": DecodeConfig(temperature=1.0, k=4),
    "tree": DecodeConfig(temperature=1.0, tree="3x2x1"),
    "medusa": DecodeConfig(method="medusa", tree="4x2x1", temperature=1.0),
    "plain": DecodeConfig(method="plain", temperature=1.0),
}
# What the script computes of a run, for one batch size.
ALL = """([header, steps, machines, batch, sizes]) => {
  const found = made.speculation(header, steps);
  const measured = null;
  return {
    n: found.n, m: found.m, costs: machines.map((machine) => found.cost(machine, batch)),
    gains: machines.map((machine) => found.speedup(machine, batch)), stops: machines.map((machine) => found.stops(machine)),
    passes: made.projectedPoints(header, batch, machines), speedups: made.speedupPoints(found, batch, machines, sizes, measured),
  };
}"""
KEY = re.compile(r"\b(player|roofs|roofline|origin|table|datasheet)\.[a-z_]+\b")
PANEL = "specviz.player.lower.find((panel) => panel.name === 'roofs')"
POINTS = f"(set) => {PANEL}.filled.data.flatMap((trace) => trace.points || []).filter((point) => point.set === set)"
HOLLOW = "#roofs .sv-roofs-plot .point[style*='fill: none']"


def shown(made: Stage, trace: Trace | dict, **how: object) -> None:
    """Show a run, with the roofline in sight."""
    made.show(trace, charts=True, **how)
    made.to("roofs")
    made.settle()


def close(value: object) -> object:
    """A number as Python sends it, cut to four digits; anything else as it is."""
    return pytest.approx(value, rel=1e-3) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(12, RECORDED["chain"])


@pytest.mark.parametrize("name", RECORDED)
def test_the_script_computes_what_python_computes(window: Stage, name: str) -> None:
    recorded = make_trace(14, RECORDED[name], seed=5)
    everyone = machines_of(recorded.header)
    keys = [one.key for one in everyone]
    window.prepare()
    run = speculation(recorded.header, recorded.steps)
    header, steps = recorded.header.model_dump(mode="json"), [step.model_dump(mode="json") for step in recorded.steps]
    for batch in (1, 6, 128):
        found = window.page.evaluate(ALL, [header, steps, machine_rows(recorded.header), batch, list(BATCHES)])
        assert (found["n"], found["m"]) == pytest.approx((run.n, run.m))
        assert found["costs"] == pytest.approx([run.cost(one, batch) for one in everyone], rel=1e-12)
        assert found["gains"] == pytest.approx([run.speedup(one, batch) for one in everyone], rel=1e-12)
        assert found["stops"] == [run.stops(one) for one in everyone]
        for ours, theirs in (
            (projected_points(recorded.header, batch, everyone), found["passes"]),
            (roofs_info(recorded.header, recorded.steps, batch, keys).speedups, found["speedups"]),
        ):
            ours = [point for point in ours if point.get("set") != "measured"]
            assert [point.keys() for point in ours] == [point.keys() for point in theirs]
            for a, b in zip(ours, theirs, strict=True):
                assert {name: close(value) for name, value in a.items()} == b


def test_measured_and_computed_points_are_drawn(window: Stage, trace: Trace) -> None:
    shown(window, trace)
    assert len(window.page.evaluate(POINTS, "timing")) >= len(trace.header.timings.passes)
    assert [point["batch"] for point in window.page.evaluate(POINTS, "batch")] == [1, 2, 4, 8]
    assert {point["machine"] for point in window.page.evaluate(POINTS, "projected")} == {"@roofs.here", "A100 80 GB"}
    assert window.page.locator(HOLLOW).count() > 0
    for label in ("n = 1", "2", "64", "B = 8"):
        assert window.page.locator("#roofs .sv-roofs-plot .textpoint").get_by_text(label, exact=True).count() >= 1, label
    text = window.text("#roofs")
    assert not KEY.search(text)
    assert "undefined" not in text and "NaN" not in text
    run = speculation(trace.header, trace.steps)
    assert t("en", "roofs.stops", stop=run.stops(PEAKS)) in text


def test_the_slider_moves_the_computed_points_and_nothing_else(window: Stage, trace: Trace) -> None:
    shown(window, trace)
    before, measured = window.page.evaluate(POINTS, "projected"), window.page.evaluate(POINTS, "timing")
    range_before = window.page.evaluate("document.querySelector('#roofs .js-plotly-plot').layout.xaxis.range")
    window.page.focus("#roofs input[type=range]")
    for _ in range(7):
        window.page.keyboard.press("ArrowRight")
    window.settle()
    assert window.state()["step"] == 0  # the keys belong to the slider
    assert window.text("#roofs output") == "B = 16"
    after = window.page.evaluate(POINTS, "projected")
    assert all(a["intensity"] < b["intensity"] for a, b in zip(before, after, strict=True))
    assert window.page.evaluate(POINTS, "timing") == measured
    assert window.page.evaluate("document.querySelector('#roofs .js-plotly-plot').layout.xaxis.range") == range_before
    run = speculation(trace.header, trace.steps)
    assert "B = 16" in window.text("#roofs .sv-roofs-said")
    row = window.page.locator("#roofs .sv-roofs-machines tbody tr").first.locator("td").all_inner_texts()
    assert float(row[6][:-1]) == pytest.approx(run.speedup(PEAKS, 16), rel=5e-3)
    line = "document.querySelectorAll('#roofs .js-plotly-plot')[1].layout.shapes[1].x0"
    assert window.page.evaluate(line) == 16


def test_chips_bring_roofs_and_take_them_away(window: Stage, trace: Trace) -> None:
    shown(window, trace)
    chips = window.page.locator("#roofs .sv-roofs-chips .sv-chip")
    assert chips.all_inner_texts() == [sheet.name for sheet in DATASHEETS]
    for i in range(len(DATASHEETS)):
        chips.nth(i).focus()
        window.page.keyboard.press("Enter")
    window.settle()
    pressed = [chip.get_attribute("aria-pressed") for chip in chips.all()]
    assert pressed == ["false", "true", "true", "true", "true", "true"]
    names = [name.strip() for name in window.page.locator("#roofs .sv-roofs-machines .sv-r-name").all_inner_texts()[1:]]
    assert names == [PEAKS.device, *(sheet.name for sheet in DATASHEETS[1:])]
    roofs = f"{PANEL}.filled.data.filter((trace) => trace.meta?.role === 'roof' && trace.visible).map((trace) => trace.meta.machine)"
    assert window.page.evaluate(roofs) == ["@roofs.here", *(sheet.name for sheet in DATASHEETS[1:])]
    tags = window.page.locator("#roofs .sv-roofs-machines .sv-tag").all_inner_texts()
    assert tags == ["measured", *["datasheet"] * 5]
    window.page.locator("#roofs .sv-roofs-machines .sv-tag").nth(4).focus()
    for said in ("T4", "65 TFLOP/s", "320 GB/s", "ridge 203", "NVIDIA T4", "no bf16"):
        assert said in window.text(".sv-tip"), said


def test_the_table_says_of_every_row_where_it_comes_from(window: Stage, trace: Trace) -> None:
    shown(window, trace)
    window.page.focus("#roofs .sv-head .sv-ibtn")
    window.page.keyboard.press("Enter")
    window.settle()
    tables = window.page.locator("#roofs .sv-twin table")
    assert tables.count() == 3
    origins = [{line.split("\t")[at] for line in tables.nth(i).inner_text().splitlines()[1:]} for i, at in enumerate((5, 4, 9))]
    assert origins == [{"measured", "datasheet"}, {"measured", "computed"}, {"measured", "computed"}]
    run = speculation(trace.header, trace.steps)
    stops = [line.split("\t")[4] for line in tables.nth(0).inner_text().splitlines()[1:]]
    assert stops == [str(run.stops(one)) for one in machines_of(trace.header)]
    assert not KEY.search(window.text("#roofs"))


def test_a_pass_above_its_roof_is_called_a_fault_here_and_in_the_small_panel(window: Stage, trace: Trace) -> None:
    shown(window, trace.model_copy(update={"header": faulty(trace.header, 3)}))
    assert window.text("#roofs .sv-roofs-fault") == t("en", "roofline.above_memory")
    assert "1" in window.text("#roofs .sv-caption")
    assert window.page.locator("#roofs .sv-caption.sv-fault").count() == 1
    slow = trace.steps[0].passes
    fast = tuple(one.model_copy(update={"seconds": one.seconds / 9}) for one in slow)
    steps = (trace.steps[0].model_copy(update={"passes": fast}), *trace.steps[1:])
    window.show(trace.model_copy(update={"steps": steps}), charts=True)
    window.page.focus("#roofline .sv-caption")
    assert t("en", "roofline.above_memory") in window.text(".sv-tip")


@pytest.mark.parametrize("lacking", ["peaks", "timings", "weights"])
def test_what_was_not_measured_is_said_in_one_sentence(window: Stage, trace: Trace, lacking: str) -> None:
    view = run_view(trace)
    if lacking == "weights":
        for work in view["header"]["timings"]["passes"]:
            work["weights"] = None
    else:
        view["header"][lacking] = None
    shown(window, view)
    assert window.text("#roofs .sv-blank") == t("en", "roofs.no_timings")
    assert window.page.locator("#roofs .sv-body").is_hidden()


def test_plain_decoding_has_a_roofline_and_no_speculation(window: Stage) -> None:
    shown(window, make_trace(6, RECORDED["plain"]))
    assert window.text("#roofs .sv-roofs-said") == t("en", "roofs.plain_run")
    assert window.page.locator("#roofs .sv-roofs-gains").is_hidden()
    assert window.page.locator("#roofs .sv-roofs-plot .point").count() > 0


def test_on_a_phone_in_chinese_and_in_the_dark(browser: Browser, trace: Trace) -> None:
    with stage(browser, 390, 844, color_scheme="dark") as made:
        shown(made, trace, language="zh")
        made.do("document.body.className = 'dark'")
        assert made.page.evaluate("document.documentElement.scrollWidth") <= 390
        inside = "(e) => e.scrollWidth <= e.clientWidth + 1"
        for part in ("#roofs .sv-body", "#roofs .sv-roofs-controls", "#roofs .sv-roofs-machines", "#roofs .sv-roofs-said"):
            assert made.page.locator(part).evaluate(inside), part
        assert t("zh", "roofs.at_once") in made.text("#roofs")
        assert re.search(r"[a-z]{5,} [a-z]{3,}", made.text("#roofs .sv-roofs-said")) is None
        colours = made.page.evaluate("specviz.player.colours")
        roof = made.page.locator("#roofs .sv-swatch-measured").first.evaluate("(e) => getComputedStyle(e).stroke")
        assert roof == f"rgb({', '.join(str(int(colours['roof'][i : i + 2], 16)) for i in (1, 3, 5))})"
