"""The cost model in the player: the numbers of Python, sliders that start at what was measured, a sentence where nothing was."""

import random
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from playwright.sync_api import Browser

from specviz.analysis.acceptance import acceptance
from specviz.analysis.cost import CostModel, Prediction, alpha, cost_model
from specviz.config import DecodeConfig
from specviz.figures.cost import CostInfo, cost_info, cost_points
from specviz.figures.view import header_view, step_view
from specviz.i18n import catalogue, t
from specviz.trace import Trace
from tests.builders import make_trace
from tests.e2e.player import Stage, stage

pytestmark = pytest.mark.browser

CHAIN = make_trace(12, DecodeConfig(temperature=1.0, k=4))
HEADS = make_trace(8, DecodeConfig(method="medusa"))
WIDE = make_trace(6, DecodeConfig(temperature=1.0, tree="3x2x1"))
RUNS = {
    "chain": CHAIN,
    "greedy chain": make_trace(6, DecodeConfig(k=20)),
    "tree of a draft": make_trace(6, DecodeConfig(temperature=1.0, tree="3x2x1")),
    "tree with leaves at every depth": WIDE.model_copy(
        update={"steps": tuple(step.model_copy(update={"tree": (*step.tree[:6], step.tree[10])}) for step in WIDE.steps)}
    ),
    "heads": HEADS,
    "full tree of heads": make_trace(6, DecodeConfig(method="medusa", rule="typical", temperature=0.7, tree="4x2x1")),
    "n-gram": make_trace(6, DecodeConfig(method="ngram", k=5)),
}
ROUNDED = 1e-3  # figures keep four digits
# What the script makes of a run, with some values of α, K and the cost ratio.
ALL = """([header, steps, asked]) => {
  const model = made.costModel(header, steps);
  if (!model) return null;
  const counts = made.addCounts(steps.map((step) => made.countStep(step, made.asRecorded(step), header.config)));
  return {
    model: { ...model }, ratio: model.ratio, alpha: made.alphaOf(counts),
    found: asked.map(([alpha, at, ratio]) => {
      const other = ratio === null ? model : model.withRatio(ratio);
      return { depth: other.predict(alpha, at), tree: other.predictTree(at), even: other.breakEvenAlpha(at) };
    }),
  };
}"""
POINTS = """([header, steps, asked]) => made.costPoints(made.costModel(header, steps), asked)"""
MEASURED = "specviz.player.lower.find((panel) => panel.name === 'cost').measure()"
CURVE = """(() => document.querySelector('#cost .sv-chart').data
  .filter((trace) => trace.meta.where.series === 'predicted' && trace.meta.y === 'speedup')[0].y)()"""
MOVE = """([nth, value]) => {
  const input = document.querySelectorAll('#cost input[type=range]')[nth];
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
}"""
OVERFLOWING = """() => [...document.querySelectorAll('.sv-explained, .sv-explained *')].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && !e.closest('.sv-twin, .sv-chart') && (box.left < -1 || box.right > innerWidth + 1);
}).map((e) => e.className)"""


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def sent(trace: Trace) -> list[Any]:
    return [trace.header.model_dump(mode="json"), [step.model_dump(mode="json") for step in trace.steps]]


def as_dict(prediction: Prediction | None) -> dict[str, float] | None:
    if prediction is None:
        return None
    whole = {field.name: getattr(prediction, field.name) for field in fields(prediction) if field.name != "plain"}
    return whole | {"cost": prediction.cost, "breakEven": prediction.break_even, "speedup": prediction.speedup}


def flat(value: Any) -> list[float]:
    return [number for item in value for number in flat(item)] if isinstance(value, (list, tuple)) else [value]


def same(mine: dict[str, Any] | None, theirs: dict[str, Any] | None) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return {name: mine[name] for name in theirs} == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("name", RUNS)
def test_the_model_is_that_of_python(window: Stage, name: str) -> None:
    window.prepare()
    trace, source = RUNS[name], random.Random(name)
    model = cost_model(trace.header, trace.steps)
    asked = [(source.random(), source.randint(0, 24), source.choice([None, 0, source.random()])) for _ in range(60)]
    asked += [(0, 1, None), (1, 3, None), (1, 63, None), (0.5, 64, None)]
    found = window.page.evaluate(ALL, [*sent(trace), asked])
    assert found["ratio"] == pytest.approx(model.ratio)
    chance, kind = alpha(acceptance(trace.steps, trace.header.config))
    assert found["alpha"] == {"value": pytest.approx(chance), "kind": kind}
    for field in fields(CostModel):
        theirs = found["model"][re.sub("_(.)", lambda letter: letter[1].upper(), field.name)]
        assert flat(theirs) == pytest.approx(flat(getattr(model, field.name))), field.name
    for (chance, at, ratio), mine in zip(asked, found["found"], strict=True):
        other = model if ratio is None else model.with_ratio(ratio)
        assert same(mine["depth"], as_dict(other.predict(chance, at))), (chance, at, ratio)
        assert same(mine["tree"], as_dict(other.predict_tree(at))), (at, ratio)
        even = other.break_even_alpha(at)
        assert mine["even"] == (None if even is None else pytest.approx(even, abs=1e-9))


@pytest.mark.parametrize("name", RUNS)
def test_the_figure_is_filled_as_in_python(window: Stage, name: str) -> None:
    window.prepare()
    trace = RUNS[name]
    info: CostInfo = cost_info(trace.header, trace.steps)
    asked = {"alpha": info.alpha, "bySize": info.by_size, "at": info.at, "ran": info.at, "tokens": info.tokens, "speedup": info.speedup}
    found = window.page.evaluate(POINTS, [*sent(trace), asked])
    theirs = cost_points(info)
    assert [point["series"] for point in found] == [point["series"] for point in theirs]
    for mine, point in zip(found, theirs, strict=True):
        numbers = {field: value for field, value in point.items() if field != "series"}
        assert {field: mine[field] for field in numbers} == pytest.approx(numbers, rel=ROUNDED, abs=1e-12)


def test_a_recording_without_measured_times_says_so(window: Stage) -> None:
    assert window.page.evaluate(ALL, [*sent(make_trace(3, baseline=False)), []]) is None
    window.show(make_trace(3, baseline=False))
    window.to("cost")
    assert t("en", "cost.no_timings") in window.text("#cost")
    window.show(make_trace(3, DecodeConfig(method="plain")))
    window.to("cost")
    assert t("en", "cost.plain") in window.text("#cost")


def test_the_panel_shows_expected_beside_observed(window: Stage) -> None:
    window.show(CHAIN, charts=True)
    window.to("cost")
    info = cost_info(CHAIN.header, CHAIN.steps)
    text = window.text("#cost")
    rows = window.page.evaluate("[...document.querySelectorAll('#cost tbody tr')].map((row) => row.innerText.split('\\t'))")
    shown = [[float(value.rstrip("×")) for value in row[1:]] for row in rows]
    assert shown[0] == pytest.approx([info.chosen().expected, info.tokens], rel=5e-3)
    assert shown[1] == pytest.approx([info.chosen().speedup, info.speedup], rel=5e-3)
    gain, cost = info.tokens * info.model.plain, info.chosen().cost
    assert ("speculation pays" in text) == (gain > cost)
    assert f"{1000 * gain:.1f} ms" in text and f"{1000 * cost:.1f} ms" in text
    assert window.page.locator("#cost .js-plotly-plot .point").count() > 16
    assert window.page.evaluate(CURVE) == pytest.approx([one.speedup for one in info.predictions()])


def test_sliders_ask_what_if_and_lead_back(window: Stage) -> None:
    window.show(CHAIN, charts=True)
    window.to("cost")
    model, before = cost_model(CHAIN.header, CHAIN.steps), window.page.evaluate(CURVE)
    assert "what if" not in window.text("#cost")
    window.do(MOVE, [0, 1])
    assert window.page.evaluate(CURVE) == pytest.approx([one.speedup for one in model.by_depth(1.0)])
    assert window.page.locator("#cost .sv-dial-origin.sv-moved").all_inner_texts() == ["what if"]
    assert "5" in window.page.locator("#cost tbody tr").first.inner_text()  # α = 1, K = 4
    window.do(MOVE, [1, 9])
    window.do(MOVE, [2, 0.05])
    cheaper = model.with_ratio(0.05)
    assert window.page.evaluate(CURVE) == pytest.approx([one.speedup for one in cheaper.by_depth(1.0)])
    assert f"{1000 * cheaper.predict(1.0, 9).cost:.1f} ms" in window.text("#cost")
    window.page.click("#cost .sv-chips .sv-chip:last-child")
    window.settle()
    assert window.page.evaluate(CURVE) == pytest.approx(before)
    assert "what if" not in window.text("#cost")


def test_sliders_obey_the_keyboard_and_the_player_stays_where_it_is(window: Stage) -> None:
    window.show(CHAIN)
    window.to("cost")
    window.page.locator("#cost input[type=range]").nth(1).focus()
    window.page.keyboard.press("ArrowRight")
    window.settle()
    assert window.page.locator("#cost .sv-dial output").nth(1).inner_text() == "5"
    assert window.state()["step"] == 0


def test_trees_are_weighed_by_size_or_by_depth(window: Stage) -> None:
    window.show(HEADS, charts=True)
    window.to("cost")
    model = cost_model(HEADS.header, HEADS.steps)
    assert window.page.evaluate(CURVE) == pytest.approx([one.speedup for one in model.by_size()])
    assert window.page.locator("#cost input[type=range]").first.is_disabled()
    assert "4 candidates" in window.text("#cost") and "32 candidates" in window.text("#cost")
    window.page.click("#cost .sv-chips .sv-chip:text-is('by K')")
    window.settle()
    assert len(window.page.evaluate(CURVE)) == 3
    assert window.page.locator("#cost input[type=range]").first.is_enabled()


def test_it_follows_the_run_and_its_judging(window: Stage) -> None:
    window.show()
    header, views = header_view(CHAIN.header), [step_view(step, CHAIN.header) for step in CHAIN.steps]
    window.do("message => specviz.message(message)", {"run": "a", "seq": 0, "header": header, "steps": views[:3]})
    window.to("cost")
    for seq, count in ((1, 6), (2, 12)):
        window.do("message => specviz.message(message)", {"run": "a", "seq": seq, "steps": views[3 * seq : count]})
    window.do("specviz.message({ run: 'a', seq: 3, steps: [], done: { ended: 'length' } })")
    chance, kind = alpha(acceptance(CHAIN.steps[: window.state()["steps"]], CHAIN.header.config))
    measured = window.page.evaluate(MEASURED)
    assert (measured["alpha"], measured["kind"]) == (pytest.approx(chance), kind)
    window.do("specviz.rejudge({ rule: 'greedy' })")
    again = window.page.evaluate(MEASURED)
    assert (again["kind"], again["speedup"]) == ("observed", None)
    assert again["steps"] == window.state()["differs"] + 1


def test_the_section_is_below_the_first_screen_and_within_reach(window: Stage) -> None:
    window.show(CHAIN)
    assert window.page.locator("#explained").bounding_box()["y"] >= 892
    link = window.page.locator("#timing .sv-link")
    assert link.bounding_box()["y"] < 900
    link.focus()
    window.page.keyboard.press("Enter")
    window.page.wait_for_function("document.querySelector('#explained').getBoundingClientRect().top < 80")
    assert window.page.evaluate("document.activeElement.id") == "sv-explained-title"
    window.page.click(".sv-explained-head .sv-chip")
    window.page.wait_for_function("document.querySelector('#text').getBoundingClientRect().top >= 0")


def test_its_table_holds_the_same(window: Stage) -> None:
    window.show(CHAIN)
    window.to("cost")
    window.page.click("#cost .sv-head > .sv-ibtn")
    window.settle()
    assert window.page.locator("#cost .sv-twin th").count() == 8
    assert window.page.locator("#cost .sv-twin tbody tr").count() == 16
    assert window.page.locator("#cost .sv-twin tr.sv-now td").first.inner_text() == "4"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("trace", [CHAIN, HEADS], ids=["chain", "heads"])
def test_a_phone_shows_it_in_one_column(browser: Browser, trace: Trace, language: str) -> None:
    with stage(browser, 390, 844) as phone:
        phone.show(trace, language=language, charts=True)
        phone.to("cost")
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.page.evaluate(OVERFLOWING) == []
        assert catalogue(language)["cost.reset"] in phone.text("#cost")
        assert phone.page.locator("#cost .sv-cost-plot").bounding_box()["width"] > 300
        assert not re.search(r"\b(cost|player|table)\.[a-z_]+", phone.text("#cost"))
