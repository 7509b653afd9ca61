"""Typical acceptance and the four rules in the player: the numbers of Python, sliders that ask nobody, a mark that stays."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import specviz
from specviz.analysis.quantities import number
from specviz.analysis.typical import EmittedKL, Outcome, compare, emitted_kl, judgeable, tried
from specviz.config import RULES, DecodeConfig
from specviz.figures.rules import RulesInfo, rules_points
from specviz.figures.typical import line_points, typical_info, typical_points
from specviz.figures.view import header_view, run_view, step_view
from specviz.i18n import LANGUAGES, t
from specviz.trace import Step, Trace
from tests.builders import make_trace
from tests.e2e.conftest import Visit
from tests.e2e.player import Stage, stage

pytestmark = pytest.mark.browser

HEADS = DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7)
CHAIN = DecodeConfig(temperature=1.0, k=4)
RUNS = {
    "heads": make_trace(14, HEADS, seed=0),
    "drawn chain": make_trace(14, CHAIN, seed=5),
    "drawn siblings": make_trace(8, DecodeConfig(temperature=1.0, tree="3x2x1")),
    "copies": make_trace(8, DecodeConfig(method="ngram", rule="match", temperature=0.8, k=4)),
    "greedy draft": make_trace(8, DecodeConfig(rule="greedy", temperature=0.8, k=3)),
    "temperature 0": make_trace(8, DecodeConfig(tree="2x2x1")),
}
BARS = [(0.09, 0.3), (0.0, 0.3), (0.3, 0.9), (0.02, 1.0)]
BOOK = """([header, steps, epsilon, delta]) => {
  const run = { header, steps: steps.map((step) => ({ step })) };
  const book = new made.RuleBook();
  const pages = ["greedy", "rejection", "match", "typical"].map((rule) => book.read(run, rule, { epsilon, delta }));
  const { judged } = pages[3];
  const points = judged.includes(null) ? [] : steps.flatMap((step, i) => made.typicalPoints(step, judged[i].verdicts, { epsilon, delta }));
  return {
    outcomes: pages.map(({ outcome }) => outcome), points, line: made.linePoints({ epsilon, delta }, 3),
    bars: pages.flatMap(({ outcome, judged }) => (outcome.counts ? made.rulesPoints(outcome, judged) : [])),
    tokens: pages.map(({ judged }) => judged.map((one) => one && one.tokens.map((token) => token.token_id))),
  };
}"""
MOVE = """([nth, value]) => {
  const input = document.querySelectorAll('#typical input[type=range]')[nth];
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
}"""
DRAWN = """() => specviz.player.lower.find((one) => one.name === 'typical').places.reduce((counts, { point }) => (
  { ...counts, [point.state]: (counts[point.state] || 0) + 1 }), {})"""
PLACE = """state => {
  const panel = specviz.player.lower.find((one) => one.name === 'typical');
  const lonely = (place) => panel.places.every((other) => other === place || Math.hypot(place.x - other.x, place.y - other.y) > 3);
  const { point, x, y } = panel.places.find((place) => place.point.state === state && place.point.step > 3 && lonely(place));
  const box = panel.canvas.getBoundingClientRect();
  return { ...point, at: [box.left + x, box.top + y] };
}"""
OVERFLOWING = """() => [...document.querySelectorAll('#typical, #typical *, #rules, #rules *')].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && !e.closest('.sv-twin, .sv-chart') && (box.left < -1 || box.right > innerWidth + 1);
}).map((e) => e.className)"""
KEY = re.compile(r"\b(player|typical|rules|table|state)\.[a-z_]+\b")


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def judged(trace: Trace, epsilon: float, delta: float) -> RulesInfo:
    """The four rules in Python."""
    configs = {rule: replace(trace.header.config, rule=rule, epsilon=epsilon, delta=delta) for rule in RULES}
    steps: dict[str, list[Step] | None] = {
        rule: specviz.rejudge(trace, rule=rule, epsilon=epsilon, delta=delta)
        if all(judgeable(step, config) for step in trace.steps)
        else None
        for rule, config in configs.items()
    }
    return RulesInfo(tuple(compare(trace.steps, steps, configs)), steps)


def drift(trace: Trace, epsilon: float = 0.09, delta: float = 0.3) -> EmittedKL:
    """KL(e‖p) under the typical rule."""
    config = replace(trace.header.config, rule="typical", epsilon=epsilon, delta=delta)
    steps = specviz.rejudge(trace, rule="typical", epsilon=epsilon, delta=delta)
    return sum((emitted_kl(step, config) for step in steps), EmittedKL())


def same_outcome(mine: dict[str, Any], outcome: Outcome) -> None:
    assert (mine["rule"], mine["parts"], mine["otherText"]) == (outcome.rule, outcome.parts, outcome.other_text)
    for name, counts in (("counts", outcome.counts), ("own", outcome.own)):
        fields = ("steps", "tokens", "drafted", "tested", "accepted")
        assert mine[name] is counts is None or [mine[name][field] for field in fields] == [getattr(counts, field) for field in fields]
    kl = outcome.kl
    assert mine["kl"] is kl is None or mine["kl"] == {
        "tokens": kl.tokens,
        "nats": None if kl.nats is None else pytest.approx(kl.nats, rel=1e-9, abs=1e-12),
        "exact": kl.exact,
    }


def read(window: Stage, trace: Trace, epsilon: float, delta: float) -> dict[str, Any]:
    header, steps = trace.header.model_dump(mode="json"), [step.model_dump(mode="json") for step in trace.steps]
    return window.page.evaluate(BOOK, [header, steps, epsilon, delta])


@pytest.mark.parametrize(("epsilon", "delta"), BARS)
@pytest.mark.parametrize("name", RUNS)
def test_the_rules_and_their_kl_are_those_of_python(window: Stage, name: str, epsilon: float, delta: float) -> None:
    window.prepare()
    info, found = judged(RUNS[name], epsilon, delta), read(window, RUNS[name], epsilon, delta)
    for mine, tokens, outcome in zip(found["outcomes"], found["tokens"], info.outcomes, strict=True):
        same_outcome(mine, outcome)
        assert tokens == [[token.token_id for token in step.emitted] for step in info.judged[outcome.rule]]
    drawn_by_plotly = ("at", "place", "said")
    assert found["bars"] == [
        {field: value for field, value in point.items() if field not in drawn_by_plotly} for point in rules_points(info)
    ]
    cold = RUNS[name].header.config.temperature == 0
    assert {one["kl"]["nats"] for one in found["outcomes"]} == {0} if cold else found["outcomes"][0]["kl"]["nats"] > 0


@pytest.mark.parametrize(("epsilon", "delta"), BARS)
@pytest.mark.parametrize("name", [name for name in RUNS if name != "temperature 0"])
def test_the_points_are_those_of_python(window: Stage, name: str, epsilon: float, delta: float) -> None:
    window.prepare()
    found = read(window, RUNS[name], epsilon, delta)
    info = typical_info(specviz.rejudge(RUNS[name], rule="typical", epsilon=epsilon, delta=delta), epsilon, delta)
    theirs = typical_points(info)
    assert len(found["points"]) == len(theirs)
    for mine, point in zip(found["points"], theirs, strict=True):
        exact = ("step", "node", "state", "sum", *(["token"] if len(point["token"]) <= 24 else []))
        assert [mine[field] for field in exact] == [point[field] for field in exact]
        rounded = ("entropy", "p", "shown", "threshold")
        assert [mine[field] for field in rounded] == pytest.approx([point[field] for field in rounded], rel=1e-3, abs=1e-12)
    line = line_points(replace(info, candidates=()))
    assert len(found["line"]) == len(line)
    assert [point["shown"] for point in found["line"][:-1]] == pytest.approx([point["shown"] for point in line[:-1]], rel=1e-3)


def test_a_rule_whose_numbers_are_missing_says_so_instead(window: Stage) -> None:
    trace = make_trace(4, CHAIN)
    steps = [step.model_copy(update={"tree": tuple(node.model_copy(update={"u": None}) for node in step.tree)}) for step in trace.steps]
    bare = trace.model_copy(update={"steps": tuple(steps)})
    window.prepare()
    info = judged(bare, 0.09, 0.3)
    assert [outcome.rule for outcome in info.outcomes if outcome.counts is None] == ["rejection"]
    for mine, outcome in zip(read(window, bare, 0.09, 0.3)["outcomes"], info.outcomes, strict=True):
        same_outcome(mine, outcome)
    window.show(bare, charts=True)
    window.to("rules")
    assert t("en", "rules.unrecorded") in window.text("#rules tr[data-rule=rejection]")
    assert t("en", "rules.unrecorded") not in window.text("#rules tr[data-rule=typical]")


def test_sliders_judge_again_without_asking_anybody(window: Stage) -> None:
    trace = RUNS["heads"]
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.show(trace, charts=True, server="new Proxy({}, { get: () => { throw new Error('the server was asked'); } })")
    window.to("typical")
    before = window.page.evaluate(DRAWN)
    window.do(MOVE, [0, 0.4])
    window.do(MOVE, [1, 0.9])
    info = typical_info(specviz.rejudge(trace, epsilon=0.4, delta=0.9), 0.4, 0.9)
    points = typical_points(info)
    wanted = {state: sum(point["state"] == state for point in points) for state in ("accepted", "beside", "refused")}
    drawn = window.page.evaluate(DRAWN)
    assert drawn == {state: count for state, count in wanted.items() if count} != before
    assert window.state()["rule"] == {"rule": "typical", "epsilon": 0.4, "delta": 0.9, "temperature": 0.7}, "the whole player follows"
    assert f"= {number(drift(trace, 0.4, 0.9).per_token)} nats" in window.text("#typical")
    window.page.click("#typical .sv-cost-side .sv-chip")
    window.settle()
    assert window.page.evaluate(DRAWN) == before
    assert not window.state()["rejudged"]
    assert [url for url in asked if not url.startswith("data:")] == []


def test_under_another_rule_the_sliders_move_the_panels_alone(window: Stage) -> None:
    trace = RUNS["drawn chain"]
    window.show(trace, charts=True)
    window.to("typical")
    window.do(MOVE, [0, 0.3])
    assert not window.state()["rejudged"]
    window.to("rules")
    assert "ε = 0.3" in window.text("#rules tr[data-rule=typical]")
    assert t("en", "rules.drawn") in window.text("#rules")
    window.do("specviz.rejudge({ rule: 'typical', epsilon: 0.2, delta: 0.5 })")
    assert "ε = 0.2, δ = 0.5" in window.text("#rules tr[data-rule=typical]"), "what is moved elsewhere moves here"
    window.to("typical")
    assert window.page.locator("#typical .sv-dial output").all_inner_texts() == ["0.2", "0.5"]


def test_the_mark_says_how_much_and_leads_there(window: Stage) -> None:
    trace = RUNS["heads"]
    window.show(trace)
    said = t("en", "player.badge_typical_kl", sign="=", value=number(drift(trace).per_token))
    assert said.startswith("△") and window.text(".sv-badge-typical") == said
    window.page.focus(".sv-badge-typical")
    window.page.keyboard.press("Enter")
    window.page.wait_for_function("document.querySelector('#typical').getBoundingClientRect().top < innerHeight / 2")
    assert t("en", "typical.changes") in window.text("#typical")
    assert "△" in window.text("#rules tr[data-rule=typical]")
    window.do("specviz.rejudge({ rule: 'rejection' })")
    assert window.page.locator(".sv-badge-typical").count() == 0, "the rule that is tried keeps the distribution"
    assert t("en", "typical.would_change") in window.text("#typical")
    law = t("en", "rules.kl_law")
    window.to("rules")
    rows = {rule: law in window.text(f"#rules tr[data-rule={rule}]") for rule in RULES}
    assert rows == {"greedy": False, "rejection": True, "match": True, "typical": False}


def test_what_the_records_do_not_tell_has_no_number(window: Stage) -> None:
    window.show(RUNS["drawn siblings"])
    window.do("specviz.rejudge({ rule: 'typical' })")
    assert window.text(".sv-badge-typical") == t("en", "player.badge_typical")
    window.to("typical")
    assert t("en", "typical.kl_unknown") in window.text("#typical") and t("en", "typical.siblings") in window.text("#typical")
    window.show(RUNS["drawn chain"])
    window.to("typical")
    found = drift(RUNS["drawn chain"])
    assert f"{'=' if found.exact else '≥'} {number(found.per_token)} nats" in window.text("#typical")


def test_a_click_on_a_candidate_goes_to_its_step(window: Stage) -> None:
    window.show(RUNS["heads"], charts=True)
    window.to("typical")
    point = window.page.evaluate(PLACE, "refused")
    window.page.mouse.move(*point["at"])
    expect(window.page.locator("#specviz-tip")).to_contain_text(t("en", "state.refused"))
    text = window.text("#specviz-tip")
    assert f"“{point['token']}” · step {point['step'] + 1}" in text and point["sum"] in text
    window.page.mouse.click(*point["at"])
    window.settle()
    state = window.state()
    assert (state["step"], state["node"]) == (point["step"], point["node"])
    assert RUNS["heads"].steps[point["step"]].tree[point["node"]].p == pytest.approx(point["p"])
    window.page.mouse.move(5, 5)
    expect(window.page.locator("#specviz-tip")).to_be_hidden()


def test_a_bar_says_what_its_rule_commits_and_leads_to_its_step(window: Stage) -> None:
    window.show(RUNS["heads"], charts=True)
    window.to("rules")
    canvas = window.page.locator("#rules canvas")
    info = judged(RUNS["heads"], 0.09, 0.3)
    for row, outcome in enumerate(info.outcomes):
        canvas.hover(position={"x": 1, "y": 1})
        grid = window.page.evaluate("specviz.player.lower.find((one) => one.name === 'rules').grid")
        at = {"x": grid["left"] + 9.5 * grid["pitch"], "y": 18 + row * grid["each"] + grid["tall"] / 2}
        canvas.hover(position=at)
        emitted = info.judged[outcome.rule][9].emitted
        said = t("en", "rules.said", accepted=sum(token.node is not None for token in emitted), tokens=len(emitted))
        expect(window.page.locator("#specviz-tip")).to_contain_text(t("en", f"player.name_{outcome.rule}"))  # a busy page is late
        text = window.text("#specviz-tip")
        assert said in text
        assert (t("en", "rules.mark_past") in text) == (outcome.parts is not None and outcome.parts < 9)
    canvas.click(position=at)
    window.settle()
    assert window.state()["step"] == 9


def test_where_a_rule_parts_is_said_exactly(window: Stage) -> None:
    trace = RUNS["heads"]
    info = judged(trace, 0.09, 0.3)
    window.show(trace, charts=True)
    window.to("rules")
    parted = 0
    for outcome in info.outcomes:
        said = window.text(f"#rules tr[data-rule={outcome.rule}] .sv-r-parts")
        if outcome.parts is None:
            assert said == t("en", "rules.never")
            continue
        parted += 1
        assert said.startswith(f"step {outcome.parts + 1} commits")
        assert ("would start elsewhere" in said) == (not outcome.other_text)
        share = f"({outcome.own.steps} of 14 steps)"
        assert share in window.text(f"#rules tr[data-rule={outcome.rule}] .sv-r-own_per_step")
    assert parted
    window.page.locator("#rules .sv-rules-table .sv-link").last.focus()
    window.page.keyboard.press("Enter")
    window.settle()
    assert window.state()["step"] == [outcome.parts for outcome in info.outcomes if outcome.parts is not None][-1]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        (DecodeConfig(method="plain", rule="match", temperature=1.0), ("typical.plain", "typical.plain")),
        (DecodeConfig(k=3), ("typical.zero", "rules.zero")),
    ],
    ids=["plain", "temperature 0"],
)
def test_where_there_is_nothing_to_see_it_says_why(window: Stage, config: DecodeConfig, keys: tuple[str, str]) -> None:
    window.show(make_trace(4, config), charts=True)
    for name, key in zip(("typical", "rules"), keys, strict=True):
        window.to(name)
        assert t("en", key) in window.text(f"#{name}")
    assert window.page.locator(".sv-badge-typical").count() == 0


def test_a_run_that_comes_in_is_followed(window: Stage) -> None:
    trace = RUNS["heads"]
    window.show()
    views = [step_view(step, trace.header) for step in trace.steps]
    window.do("message => specviz.message(message)", {"run": "a", "seq": 0, "header": header_view(trace.header), "steps": views[:1]})
    for i, view in enumerate(views[1:], 1):
        window.page.evaluate("message => specviz.message(message)", {"run": "a", "seq": i, "steps": [view]})
    window.do("specviz.message({ run: 'a', seq: 14, steps: [], done: { ended: 'length' } })")
    window.to("typical")
    assert f"{number(drift(trace).per_token)} nats" in window.text("#typical")
    assert f"{number(drift(trace).per_token)} nats" in window.text(".sv-badge-typical")


def test_tables_hold_the_same(window: Stage) -> None:
    trace = RUNS["heads"]
    window.show(trace)
    window.to("typical")
    window.page.click("#typical .sv-head > .sv-ibtn")
    window.settle()
    points = typical_points(typical_info(trace.steps, 0.09, 0.3))
    assert window.page.locator("#typical .sv-twin tbody tr").count() == len(points)
    window.page.locator("#typical .sv-twin .sv-link").last.click()
    window.settle()
    assert window.state()["step"] == points[-1]["step"]
    window.to("rules")
    window.page.click("#rules .sv-head > .sv-ibtn")
    window.settle()
    first = window.page.locator("#rules .sv-twin tbody tr").first.inner_text().split("\t")
    greedy = judged(trace, 0.09, 0.3).outcomes[0]
    assert first[:3] == ["greedy", str(greedy.counts.accepted), str(greedy.counts.tested)]


def test_a_long_run_is_drawn_and_counted_whole(window: Stage) -> None:
    trace = make_trace(20, HEADS)
    view = run_view(trace)
    steps = [{**one, "step": {**one["step"], "index": 20 * i + j}} for i in range(30) for j, one in enumerate(view["steps"])]
    window.show({**view, "steps": steps}, charts=True)
    window.to("rules")
    assert "of 600 steps" in window.text("#rules tr[data-rule=typical]")
    window.to("typical")
    count = 30 * sum(len(tried(step)) for step in trace.steps)
    assert sum(window.page.evaluate(DRAWN).values()) == count > 6000
    assert str(count) in window.text("#typical .sv-caption")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["heads", "drawn chain"])
def test_a_phone_shows_both_in_one_column(browser: Browser, name: str, language: str) -> None:
    with stage(browser, 390, 844) as phone:
        phone.show(RUNS[name], language=language, charts=True)
        for panel in ("typical", "rules"):
            phone.to(panel)
            assert not KEY.search(phone.text(f"#{panel}"))
            box = phone.page.locator(f"#{panel} canvas").bounding_box()
            assert box["width"] > 300 and box["height"] > 200
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.page.evaluate(OVERFLOWING) == []


def test_the_controls_of_the_page_and_the_panel_move_each_other(visit: Visit) -> None:
    visitor = visit()
    visitor.page.check("#rule input[value=typical]")
    visitor.run("abc", length=32)
    visitor.finished()
    visitor.page.locator("#typical").scroll_into_view_if_needed()
    visitor.page.locator("#typical input[type=range]").first.wait_for()
    visitor.page.evaluate(MOVE, [0, 0.25])
    visitor.page.wait_for_function("document.querySelector('#epsilon input[type=range]').value === '0.25'")
    assert visitor.until("s.rejudged")["rule"]["epsilon"] == 0.25
    visitor.page.wait_for_timeout(300)
    assert visitor.state()["rule"]["epsilon"] == 0.25, "they do not chase each other"
    visitor.page.fill("#delta input[type=number]", "0.5")
    visitor.page.press("#delta input[type=number]", "Tab")
    visitor.until("s.rule.delta === 0.5")
    visitor.page.wait_for_function("document.querySelectorAll('#typical .sv-dial output')[1].textContent === '0.5'")
