"""Why it is slow or fast, and all acceptance figures: the JavaScript is the twin of the Python, and the two panels show what it finds."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from playwright.sync_api import Browser

from specviz.analysis.acceptance import Acceptance, acceptance, count
from specviz.analysis.remedies import remedies
from specviz.analysis.slow import causes, headline, notes, silence, why
from specviz.config import DecodeConfig
from specviz.engine.rules import judge, recorded
from specviz.figures.tables import acceptance_rows, table, why_rows
from specviz.figures.view import header_view, step_view
from specviz.i18n import t
from specviz.trace import Header, Step, Trace
from tests.analysis.test_slow import DOMINANT, header, timed
from tests.builders import make_header, make_trace
from tests.e2e.player import Stage, stage
from tests.e2e.test_player_judge import RECORDED, TRIED, how, rejudged

pytestmark = pytest.mark.browser

WHY = """([steps, header]) => {
  const silence = made.silenceOf(steps, header);
  const why = made.whyOf(steps, header);
  if (!why) return { silence };
  const { headlineOf, causesOf, notesOf, remediesOf } = made;
  return { silence, why, headline: headlineOf(why), causes: causesOf(why), notes: notesOf(why), remedies: remediesOf(why, steps, header) };
}"""
COUNTS = """([steps, how, eos]) => steps.map((step) => {
  const judged = { ...made.judge(step, how), tokens: made.rejudge([step], how, eos).tokens[0] };
  return made.countStep(step, judged, how);
})"""
ROWS = "name => [...document.querySelectorAll(`#${name} .sv-twin tr`)].map((tr) => [...tr.children].map((cell) => cell.textContent))"
SUM = "([steps, how]) => made.addCounts(steps.map((step) => made.countStep(step, made.asRecorded(step), how)))"
WIDE = """name => [...document.querySelectorAll(`#${name}, #${name} *`)]
  .filter((e) => e.getClientRects().length && getComputedStyle(e).overflowX !== 'visible' && !e.matches('.sv-caption, .sv-title, .sv-twin'))
  .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1).map((e) => e.className)"""
FAINT = """name => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const card = light(getComputedStyle(document.getElementById(name)).backgroundColor);
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll(`#${name} *`)].filter((e) => own(e) && e.getClientRects().length && !e.closest('.sv-why-strip'))
    .filter((e) => { const a = light(getComputedStyle(e).color); return (Math.max(a, card) + 0.05) / (Math.min(a, card) + 0.05) < 4.5; })
    .map((e) => e.className || e.tagName);
}"""
KEY = re.compile(r"\b(player|slow|acceptance|formula|table)\.[a-z_]+\b")
CHAIN = RECORDED["chain"]


@pytest.fixture(scope="module")
def script(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        made.prepare()
        yield made


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def plain_json(steps: list[Step], about: Header) -> list[Any]:
    return [[step.model_dump(mode="json") for step in steps], about.model_dump(mode="json")]


def in_python(steps: list[Step], about: Header) -> dict[str, Any]:
    """What the script should find."""
    found = why(steps, about)
    if found is None:
        return {"silence": silence(steps, about)}
    held = [{"name": one.name, "seconds": one.seconds, "share": one.share, "why": asdict(one.why)} for one in causes(found)]
    said = {"notes": notes(found), "remedies": remedies(found, steps, about)}
    return {"silence": None, "headline": asdict(headline(found)), "causes": held} | {k: [asdict(one) for one in v] for k, v in said.items()}


def look(window: Stage, name: str) -> None:
    """Bring a panel into sight: what nobody sees is drawn later."""
    window.to(name)


def losing(steps: int = 12) -> Trace:
    """A run that loses, because drafting takes too long."""
    trace = make_trace(steps, CHAIN, seed=5)
    return trace.model_copy(update={"steps": tuple(timed(step, drafts=0.09, verify=0.02, commit=0.001) for step in trace.steps)})


# ---- twins ------------------------------------------------------------------------------------------------------------------------


def assert_twins(script: Stage, steps: list[Step], about: Header) -> None:
    mine, theirs = script.page.evaluate(WHY, plain_json(steps, about)), in_python(steps, about)
    found = why(steps, about)
    parts = mine.pop("why", None)
    if found is not None:
        names = ("tokens", "step", "gain", "speedup", "full", "refused", "cut", "credit", "drafting", "verifying", "overhead", "plain")
        assert {name: parts[name] for name in names} == pytest.approx({name: getattr(found, name) for name in names}, rel=1e-9, abs=1e-12)
        assert parts["plainPass"] == found.plain_pass
        assert parts["work"] == pytest.approx(asdict(found.work))
        for one in (*mine["causes"], *theirs["causes"]):
            one["seconds"], one["share"] = f"{one['seconds']:.9g}", f"{one['share']:.9g}"
    assert mine == theirs


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_is_taken_apart_as_in_python(script: Stage, name: str) -> None:
    trace = make_trace(steps=14, config=RECORDED[name], seed=5, eos=name == "tree")
    for end in (0, 1, 9, 14):
        assert_twins(script, list(trace.steps[:end]), trace.header)
        assert_twins(script, list(trace.steps[:end]), trace.header.model_copy(update={"timings": None}))


def test_every_cause_every_remedy_and_every_silence_has_its_twin(script: Stage) -> None:
    for step in DOMINANT.values():
        assert_twins(script, [step] * 3, header())
    assert_twins(script, list(losing().steps), losing().header)
    trace = make_trace(3, CHAIN)
    assert_twins(script, list(trace.steps), make_header(CHAIN, baseline=False))
    empty = make_trace(6, CHAIN, widths=())
    assert_twins(script, [*trace.steps, *empty.steps], trace.header)
    heads = DecodeConfig(method="medusa", temperature=1.0)
    calibrated = make_trace(8, heads)
    assert_twins(script, list(calibrated.steps), calibrated.header)


@pytest.mark.parametrize("name", RECORDED)
def test_acceptance_is_counted_as_in_python(script: Stage, name: str) -> None:
    trace = make_trace(steps=14, config=RECORDED[name], seed=5, eos=name in ("tree", "chain"))
    eos = trace.header.eos_ids
    steps = [step.model_dump(mode="json") for step in trace.steps]
    tried = [trace.header.config, *(how(trace, *rule) for rule in TRIED if (trace.header.config.method, rule[0]) != ("plain", "typical"))]
    for config in tried:
        rule = "greedy" if config.greedy else config.rule
        mine = script.page.evaluate(COUNTS, [steps, asdict(config), eos])
        for step, found in zip(trace.steps, mine, strict=True):
            again = rejudged(step, judge(rule, recorded(step), config.epsilon, config.delta), eos)
            theirs = asdict(count(again, config))
            theirs["depths"] = list(theirs["depths"])
            assert {k: v for k, v in found.items() if k != "overlap"} == {k: v for k, v in theirs.items() if k != "overlap"}
            assert found["overlap"] == pytest.approx(theirs["overlap"])


def test_counts_are_summed_as_in_python(script: Stage) -> None:
    trace = make_trace(steps=14, config=CHAIN, seed=5, eos=True)
    mine = script.page.evaluate(SUM, [[step.model_dump(mode="json") for step in trace.steps], asdict(CHAIN)])
    theirs = asdict(acceptance(trace.steps, CHAIN))
    assert mine["depths"] == list(theirs["depths"])
    assert {k: v for k, v in mine.items() if k != "depths"} == pytest.approx({k: v for k, v in theirs.items() if k != "depths"})


# ---- panels -----------------------------------------------------------------------------------------------------------------------


def sentence(lang: str, one: dict[str, Any]) -> str:
    return t(lang, one["key"], **one["args"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_losing_run_says_why_in_words(window: Stage, lang: str) -> None:
    trace = losing()
    window.show(trace, lang)
    expected = in_python(list(trace.steps), trace.header)
    assert window.text("#why-title") == t(lang, "player.title_why_slower")
    assert window.text("#why .sv-why-said").endswith(sentence(lang, expected["headline"]))
    assert window.page.get_attribute("#why .sv-why-said", "data-pace") == "slower"
    shown = window.page.locator("#why .sv-why-causes li")
    assert [shown.nth(i).get_attribute("data-cause") for i in range(shown.count())] == [one["name"] for one in expected["causes"]]
    for i, one in enumerate(expected["causes"]):
        assert sentence(lang, one["why"]) in shown.nth(i).inner_text()
        assert t(lang, f"slow.{one['name']}") in shown.nth(i).inner_text()
    assert window.page.locator("#why .sv-why-changes li").all_inner_texts() == [sentence(lang, one) for one in expected["remedies"]]
    assert not KEY.search(window.text("#explained"))


def test_the_bars_are_as_long_as_the_times(window: Stage) -> None:
    trace = losing()
    window.show(trace)
    found = why(trace.steps, trace.header)
    strips = window.page.locator("#why .sv-why-strip")
    lengths = [
        strips.nth(i).evaluate("e => [...e.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0)") for i in range(2)
    ]
    assert lengths[0] / lengths[1] == pytest.approx(found.step / (found.tokens * found.plain), rel=0.02)
    parts = strips.first.evaluate("e => Object.fromEntries([...e.children].map((p) => [p.dataset.part, p.getBoundingClientRect().width]))")
    assert parts["drafting"] / lengths[0] == pytest.approx(found.drafting / found.step, rel=0.03)


def test_it_follows_a_run_that_streams(window: Stage) -> None:
    trace = losing()
    window.show()
    assert t("en", "player.empty_why") in window.text("#why")
    told = [{"header": header_view(trace.header)}, *({"steps": [step_view(step, trace.header)]} for step in trace.steps)]
    messages = [{"run": "live", "seq": i, **part} for i, part in enumerate(told)]
    tell = "messages => messages.forEach((message) => specviz.message(message))"
    window.page.locator("#why").scroll_into_view_if_needed()
    window.do(tell, messages[:1])
    assert t("en", "slow.no_steps") in window.text("#why")
    window.do(tell, messages[1:5])
    assert "A run of 4 steps is too short to tell." in window.text("#why")
    four = headline(why(trace.steps[:4], trace.header))
    assert t("en", four.key, **four.args) in window.text("#why")
    window.do(tell, messages[5:])
    whole = headline(why(trace.steps, trace.header))
    assert t("en", whole.key, **whole.args) in window.text("#why")
    assert "too short" not in window.text("#why")
    rate = acceptance(trace.steps, trace.header.config)
    assert f"{rate.accepted} / {rate.tested} =" in window.text("#acceptance")


@pytest.mark.parametrize(
    ("trace", "key"),
    [(make_trace(4, RECORDED["plain"]), "slow.plain"), (make_trace(4, CHAIN, baseline=False), "slow.no_baseline")],
    ids=["plain", "no baseline"],
)
def test_without_a_comparison_there_is_one_sentence(window: Stage, trace: Trace, key: str) -> None:
    window.show(trace)
    assert window.text("#why .sv-blank") == t("en", key)
    assert not window.page.locator("#why .sv-why-said").is_visible()


def test_all_figures_stand_side_by_side(window: Stage) -> None:
    trace = make_trace(12, CHAIN, seed=5, eos=True)
    window.show(trace)
    look(window, "acceptance")
    counts = acceptance(trace.steps, CHAIN)
    text = window.text("#acceptance")
    for over, under in ((counts.tokens, counts.steps), (counts.accepted, counts.tested), (counts.accepted, counts.drafted)):
        assert f"{over} / {under} =" in text
    for key in ("tokens_per_step", "acceptance_rate", "acceptance_yield", "expected_acceptance"):
        assert t("en", f"formula.{key}") in text
    depths = window.page.locator("#acceptance .sv-depth")
    assert depths.count() == len(counts.depths)
    for i, depth in enumerate(counts.depths):
        assert f"{depth.accepted} / {depth.reached} =" in depths.nth(i).inner_text()
    assert all(name in text for name in ("vLLM", "Medusa", "EAGLE"))


def test_another_rule_changes_the_figures_and_says_so(window: Stage) -> None:
    trace = make_trace(12, replace(CHAIN, seed=1), seed=5)
    window.show(trace)
    look(window, "acceptance")
    before = window.text("#acceptance")
    clock = window.text("#why .sv-why-said")
    assert not window.page.locator("#acceptance .sv-why-notes p").is_visible()
    window.do("specviz.rejudge({ rule: 'greedy' })")
    greedy = how(trace, "greedy", 0.09, 0.3)
    upto = window.state()["differs"] + 1 or len(trace.steps)
    steps = trace.steps[:upto]
    judged = [rejudged(step, judge("greedy", recorded(step), 0.09, 0.3), trace.header.eos_ids) for step in steps]
    counts = sum((count(step, greedy) for step in judged), Acceptance())
    text = window.text("#acceptance")
    assert text != before and f"{counts.accepted} / {counts.tested} =" in text
    assert t("en", "player.acceptance_whatif", rule="greedy", steps=upto) in text
    assert window.text("#why .sv-why-said") == clock, "another rule does not change the clock"
    assert t("en", "player.caption_why_whatif") in window.text("#why")
    window.do("specviz.rejudge({ rule: 'rejection' })")
    assert window.text("#acceptance") == before


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_their_tables_hold_the_same_numbers(window: Stage, lang: str) -> None:
    trace = losing()
    window.show(trace, lang)
    rows = {"why": why_rows(why(trace.steps, trace.header)), "acceptance": acceptance_rows(acceptance(trace.steps, CHAIN))}
    for name, expected in rows.items():
        look(window, name)
        window.do(f"document.querySelector('#{name} .sv-head button:last-child').click()")
        shown, theirs = window.page.evaluate(ROWS, name), table(name, expected, lang)
        assert shown[0] == theirs[0]
        assert [row[0] for row in shown] == [row[0] for row in theirs]
        for mine, other in zip(shown[1:], theirs[1:], strict=True):
            for a, b in zip(mine[1:], other[1:], strict=True):
                assert (a == "–") == (b == "") and (not b or float(b) == pytest.approx(float(a), rel=6e-3, abs=1e-6)), (a, b)


@pytest.mark.parametrize(
    ("width", "lang", "theme"),
    [(1440, "en", "light"), (1440, "zh", "dark"), (1000, "en", "dark"), (390, "en", "dark"), (390, "zh", "light")],
)
def test_nothing_is_cut_off_or_faint(browser: Browser, width: int, lang: str, theme: str) -> None:
    with stage(browser, width=width, color_scheme=theme) as made:
        made.show(losing(), lang)
        made.do("theme => { document.body.className = theme; }", theme)
        assert made.state()["theme"] == theme
        for name, part in (("why", ".sv-why-changes li"), ("acceptance", ".sv-depth")):
            look(made, name)
            assert made.page.locator(f"#{name} {part}").first.is_visible()
            assert made.page.evaluate(WIDE, name) == [], name
            assert made.page.evaluate(FAINT, name) == [], name
        assert made.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
