"""What the step player shows, and how one moves in it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from specviz.config import DecodeConfig
from specviz.figures.view import run_view
from specviz.i18n import catalogue
from specviz.trace import Emitted, Trace
from tests.builders import make_trace
from tests.e2e.player import Stage, stage

pytestmark = pytest.mark.browser

TREE = DecodeConfig(temperature=1.0, tree="3x2x1", seed=1)
TYPICAL = DecodeConfig(method="medusa", rule="typical", tree="3x2", temperature=0.7, epsilon=0.3, delta=0.6)
SHOWN = """step => [...document.querySelectorAll(`.sv-token[data-step='${step}']`)]
  .filter((token) => getComputedStyle(token).visibility !== 'hidden').length"""
WHERE = """([place, node]) => {
  const { player } = specviz;
  const [tree, mask, distribution] = player.panels;
  const at = (element, x, y) => { const box = element.getBoundingClientRect(); return [box.left + x, box.top + y]; };
  if (place === 'tree') return at(tree.host, tree.drawn.x[node], tree.drawn.y[node]);
  if (place === 'mask') return at(mask.canvas, 60, (node + .5) * mask.grid.cell);
  if (place === 'text') return at(document.querySelector(`.sv-token.sv-now[data-node='${node}']`), 8, 8);
  return at(distribution.host, 120, (distribution.patch.children.indexOf(node) + .5) * distribution.place.pitch);
}"""
OVERFLOWING = """() => [...document.querySelectorAll('.sv-bar > *, .sv-head')].filter((e) => e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.className)"""
UNNAMED = """() => [...document.querySelectorAll('.specviz :is(button, input, section, [role=img], [role=region])')]
  .filter((e) => e.getClientRects().length)
  .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.getAttribute('aria-labelledby')))
  .map((e) => e.outerHTML.slice(0, 90))"""
WITHOUT_PLOTLY = """view => {
  made.addStyle(made.style);
  const plotly = () => Promise.reject(new Error('gone'));
  const player = new made.SpecvizPlayer(document.getElementById('at'), { ...made.options, language: 'en', plotly });
  window.specviz = player.api;
  player.open(view);
}"""
PANELS = ("text", "tree", "mask", "verdicts", "distribution", "divergence", "timing", "roofline")
HOSTILE = [
    "${Object.assign(window,{pwned:1})}", "<script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "\u202eabc\u202c",
    "\u200b\u200d", "@app.title", "שלום", "👩‍👩‍👧", "{{value}}`\\`", "</script>",
]  # fmt: skip
KEY = re.compile(r"\b(player|state|verdict|table|distribution|divergence|roofline|timing|mask)\.[a-z_]+\b")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(12, TREE)


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def telling(trace: Trace) -> int:
    """A step in which candidates were accepted and one was refused."""
    return next(i for i, step in enumerate(trace.steps) if step.stopped_at and step.emitted[-1].kind == "recovered")


def hostile(trace: Trace) -> Trace:
    """The same run, its tokens renamed to what somebody might write to break a page."""
    steps = []
    for step in trace.steps:
        texts = {token: HOSTILE[i % len(HOSTILE)] for i, token in enumerate(step.texts)}
        tree = tuple(node.model_copy(update={"text": texts[node.token_id]}) for node in step.tree)
        emitted = tuple(token.model_copy(update={"text": texts[token.token_id]}) for token in step.emitted)
        steps.append(step.model_copy(update={"texts": texts, "tree": tree, "emitted": emitted}))
    header = trace.header.model_copy(update={"prompt": "".join(HOSTILE) + "x" * 99_000})
    return trace.model_copy(update={"header": header, "steps": tuple(steps)})


def test_a_run_is_on_show(window: Stage, trace: Trace) -> None:
    window.show(trace, charts=True)
    window.do("specviz.seek(Infinity)")
    state = window.state()
    assert (state["run"], state["steps"], state["step"], state["recorded"], state["mode"]) == ("recorded", 12, 11, True, "recorded")
    assert window.page.locator(".sv-stream").text_content() == trace.text
    for name in PANELS:
        assert window.page.locator(f"#{name}").is_visible(), name
        assert window.page.locator(f"#{name}").get_by_text("undefined").count() == 0
    for name in ("divergence", "timing", "roofline"):
        assert window.page.locator(f"#{name} .js-plotly-plot .point").count() > 0, name
    assert not KEY.search(window.text("body"))


def test_kinds_of_tokens_are_marked(window: Stage, trace: Trace) -> None:
    window.show(trace)
    kinds = window.page.evaluate(
        "[...document.querySelectorAll('.sv-stream .sv-token')].map((t) => [...t.classList].find((c) => c.startsWith('sv-k-')).slice(5))"
    )
    assert kinds == [token.kind for token in trace.emitted]
    look = "(kind) => getComputedStyle(document.querySelector(`.sv-legend .sv-k-${kind}`)).borderBottomStyle"
    assert [window.page.evaluate(look, kind) for kind in ("accepted", "recovered", "bonus")] == ["solid", "dashed", "double"]


def test_seek_is_clamped_and_select_refuses_what_is_not_there(window: Stage, trace: Trace) -> None:
    window.show(trace)
    for asked, got in ((5, 5), (-3, 0), (99, 11), ("2", 2), (None, 0)):
        window.page.evaluate("i => specviz.seek(i)", asked)
        assert window.state()["step"] == got
    window.page.evaluate("specviz.seek(3)")
    window.page.evaluate("specviz.select(4)")
    for bad in (-1, 999, None, "x"):
        window.page.evaluate("i => specviz.select(i)", bad)
        assert window.state()["node"] == 4


def test_keys(window: Stage, trace: Trace) -> None:
    window.show(trace)
    press, state = window.page.keyboard.press, window.state
    for key, step in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", 11),
        ("ArrowRight", 11),
        ("Home", 0),
        ("ArrowLeft", 0),
    ):
        press(key)
        assert state()["step"] == step
    press("Shift+ArrowRight")
    assert (state()["step"], state()["substep"]) == (1, "propose")
    press("Shift+ArrowRight")
    press("Shift+ArrowLeft")
    press("Shift+ArrowLeft")
    assert (state()["step"], state()["substep"]) == (0, "commit")
    before = state()["node"]
    press("ArrowDown")
    press("ArrowDown")
    press("ArrowUp")
    assert state()["node"] == before + 1
    press("Space")
    assert state()["playing"]
    window.page.wait_for_function("specviz.state().step === 1")
    press("Space")
    assert not state()["playing"]
    press("Control+ArrowRight")
    press("Alt+End")
    assert state()["step"] == 1
    press("?")
    assert window.page.locator("dialog[open]").is_visible()
    press("ArrowRight")
    assert state()["step"] == 1, "the help is open, and the player moved behind it"
    press("Escape")
    assert not window.page.locator("dialog[open]").count()


def test_keys_are_left_to_whoever_types(window: Stage, trace: Trace) -> None:
    window.show(trace)
    window.do("""() => { for (const tag of ['textarea', 'input', 'div']) { const e = document.createElement(tag); e.id = `typed-${tag}`;
      if (tag === 'div') e.contentEditable = 'true'; document.querySelector('aside').append(e); } }""")
    for tag in ("textarea", "input", "div"):
        window.page.focus(f"#typed-{tag}")
        for key in ("ArrowRight", "End", " ", "?"):
            window.page.keyboard.press(key)
        assert (window.state()["step"], window.state()["playing"]) == (0, False)
        assert not window.page.locator("dialog[open]").count()
    window.page.focus("#tree .sv-head .sv-ibtn")
    window.page.keyboard.press("Space")  # presses the button, does not play
    window.settle()
    assert not window.state()["playing"]
    assert window.page.locator("#tree .sv-twin").is_visible()


def test_a_substep_hides_what_is_not_known_yet(window: Stage, trace: Trace) -> None:
    index = telling(trace)
    step = trace.steps[index]
    window.show(trace)
    window.do("([i]) => specviz.seek(i, 'propose')", [index])
    verdicts = window.text("#verdicts")
    assert "accepted" not in verdicts.replace("accept with", "").replace("be accepted?", "")
    assert "refused" not in verdicts
    assert window.page.evaluate(SHOWN, index) == 0
    assert window.page.evaluate(SHOWN, index - 1) == len(trace.steps[index - 1].emitted)
    assert window.page.locator("#distribution rect[fill='#2b6f77']:not([visibility=hidden])").count() == 0, "p is on show"
    assert window.page.evaluate("specviz.player.store.states(specviz.state().step)")[1:] == ["pending"] * (len(step.tree) - 1) + ["hidden"]
    window.do("specviz.substep('verify')")
    assert "refused" in window.text("#verdicts")
    assert window.page.evaluate(SHOWN, index) == 0
    window.do("specviz.substep('commit')")
    assert window.page.evaluate(SHOWN, index) == len(step.emitted)


def test_a_guess_is_answered(window: Stage, trace: Trace) -> None:
    index = telling(trace)
    accepted = next(i for i, node in enumerate(trace.steps[index].tree) if node.verdict == "accepted")
    window.show(trace)
    window.do("([i, node]) => { specviz.seek(i, 'propose'); specviz.select(node); }", [index, accepted])
    window.page.click(".sv-guess button:text-is('no')")
    window.do("specviz.substep('verify')")
    assert "Not quite" in window.text(".sv-guess")


def test_pointing_at_a_node_lights_it_everywhere(window: Stage, trace: Trace) -> None:
    index = telling(trace)
    step = trace.steps[index]
    last = step.stopped_at
    window.show(trace)
    window.do("i => specviz.seek(i)", index)
    window.page.hover(f"#verdicts tr[data-node='{last}']")
    window.settle()
    assert window.state()["hover"] == last
    lit = window.page.evaluate("[...document.querySelectorAll('.sv-token.sv-lit')].map((t) => Number(t.dataset.node))")
    assert lit == step.path(last)[1:]
    names = [int(row) for row in window.page.evaluate("[...document.querySelectorAll('#verdicts tr.sv-lit')].map((r) => r.dataset.node)")]
    assert sorted(names) == step.path(last)[1:-1]
    assert window.page.locator(".sv-wash").get_attribute("d").count("M") == len(step.path(last)) - 1
    assert window.page.locator(".sv-maskframe + .sv-foot").inner_text().startswith(f"{last} ")
    assert window.page.locator(".sv-band").is_visible()
    window.page.mouse.move(5, 5)
    window.settle()
    assert window.state()["hover"] is None


@pytest.mark.parametrize("place", ["tree", "mask", "text", "distribution"])
def test_every_panel_points_and_selects(window: Stage, trace: Trace, place: str) -> None:
    index = telling(trace)
    window.show(trace)
    window.do("i => specviz.seek(i)", index)
    node = trace.steps[index].stopped_at
    if place == "distribution":
        window.do("n => specviz.select(n)", node)
    x, y = window.page.evaluate(WHERE, [place, node])
    window.page.mouse.move(x, y)
    window.settle()
    assert window.state()["hover"] == node
    window.page.mouse.down()
    window.page.mouse.up()
    window.page.mouse.move(5, 5)
    window.settle()
    assert (window.state()["node"], window.state()["hover"]) == (node, None)


def test_a_token_leads_to_its_step(window: Stage, trace: Trace) -> None:
    window.show(trace)
    window.do("specviz.seek(Infinity)")
    window.page.locator(".sv-token[data-step='3']").first.click()
    window.settle()
    assert window.state()["step"] == 3


def test_another_rule_is_tried_and_taken_back(window: Stage) -> None:
    trace = make_trace(12, TYPICAL)
    window.show(trace)
    assert "changes the distribution" in window.text("#text")
    window.do("specviz.rejudge({ epsilon: 0, delta: 0 })")
    state = window.state()
    assert state["rejudged"] and state["differs"] >= 0
    assert f"first differs in step {state['differs'] + 1}" in window.text("#banner")
    window.do("i => specviz.seek(i + 1)", state["differs"])
    assert "Not comparable" in window.text("#banner")
    assert window.page.locator(".sv-token.sv-differs").count() > 0
    window.page.click("#banner .sv-chip")
    window.settle()
    assert not window.state()["rejudged"]
    assert not window.page.locator("#banner").is_visible()
    assert window.page.locator(".sv-stream").text_content() == trace.text


def test_at_temperature_0_every_rule_is_the_argmax(window: Stage) -> None:
    window.show(make_trace(6, DecodeConfig(temperature=0.0, k=3)))
    assert "shown at temperature 1" in window.text("#text")
    window.do("specviz.rejudge({ rule: 'typical' })")
    assert not window.state()["rejudged"]


def test_hostile_text_is_shown_literally(window: Stage, trace: Trace) -> None:
    evil = hostile(trace)
    window.show(evil, charts=True)
    for index in range(4):
        window.do("i => specviz.seek(i)", index)
    window.page.click("#text .sv-link")
    window.do("document.querySelectorAll('.sv-head > .sv-ibtn').forEach((button) => button.click())")
    window.do("specviz.seek(Infinity)")
    assert window.page.evaluate("window.pwned") is None
    assert window.page.locator(".sv-stream").text_content() == evil.text
    assert window.page.locator(".sv-prompt").text_content().startswith(evil.header.prompt)
    assert window.page.locator(".specviz script, .specviz img").count() == 0
    assert "<script>window.pwned" in window.text("#tree")


def test_half_characters_and_line_ends_have_a_sign(window: Stage, trace: Trace) -> None:
    step = trace.steps[0].model_copy(
        update={"emitted": (Emitted(token_id=1, text="", kind="accepted", node=1), Emitted(token_id=2, text="\n", kind="bonus"))}
    )
    window.show(trace.model_copy(update={"steps": (step,)}))
    assert window.page.locator(".sv-token.sv-part").count() == 1
    assert window.page.locator(".sv-token.sv-break").count() == 1


def test_both_languages_say_everything(window: Stage, trace: Trace) -> None:
    window.show(trace, language="zh", charts=True)
    window.do("document.querySelectorAll('.sv-head > .sv-ibtn').forEach((button) => button.click())")
    window.do("specviz.player.help.toggle()")
    chinese = window.text("body")
    assert not KEY.search(chinese)
    assert catalogue("zh")["player.title_tree"] in chinese
    assert window.do("specviz.setLanguage('en')") == "en"
    window.page.wait_for_timeout(500)  # what is said aloud waits until the movement rests
    english = window.text("body")
    assert not KEY.search(english)
    assert not re.search(r"[\u4e00-\u9fff]{3,}", english), "some sentence stayed Chinese"
    assert window.state()["language"] == "en"
    window.do("specviz.player.help.toggle()")


def test_theme_follows_the_page(window: Stage, trace: Trace) -> None:
    window.show(trace)
    light = window.page.evaluate("getComputedStyle(document.querySelector('.sv-card')).backgroundColor")
    window.do("document.body.className = 'dark'")
    assert window.state()["theme"] == "dark"
    assert window.page.evaluate("getComputedStyle(document.querySelector('.sv-card')).backgroundColor") != light
    window.do("document.body.className = 'light'")
    assert window.state()["theme"] == "light"


def test_the_first_screen_holds_the_four_main_panels(window: Stage, trace: Trace) -> None:
    window.show(trace)
    for name in ("text", "tree", "mask", "distribution", "verdicts", "divergence", "timing", "roofline"):
        box = window.page.locator(f"#{name}").bounding_box()
        assert box["y"] + box["height"] <= 900, name
        assert box["x"] + box["width"] <= 1440, name
        assert box["width"] > 180 and box["height"] > 80, name


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (900, 700), (390, 844)])
def test_smaller_windows(browser: Browser, trace: Trace, width: int, height: int) -> None:
    with stage(browser, width, height) as narrow:
        narrow.show(trace)
        assert narrow.page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
        boxes = [narrow.page.locator(f"#{name}").bounding_box() for name in PANELS]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
        if width < 500:
            assert len({round(box["x"]) for box in boxes}) == 1, "more than one column"
            assert all(box["width"] > 350 for box in boxes)
        assert narrow.page.evaluate(OVERFLOWING) == []


def test_every_table_twin_is_a_table(window: Stage, trace: Trace) -> None:
    window.show(trace)
    for name in ("tree", "mask", "distribution", "divergence", "timing", "roofline"):
        window.page.click(f"#{name} .sv-head > .sv-ibtn")
        window.settle()
        assert window.page.locator(f"#{name} .sv-twin th").count() >= 4, name
        assert window.page.locator(f"#{name} .sv-twin tbody tr").count() >= 4, name
        assert not window.page.locator(".sv-tip").first.is_visible(), f"{name}: the tip says what its button did"


def test_names_for_those_who_hear_the_page(window: Stage, trace: Trace) -> None:
    window.show(trace)
    assert window.page.evaluate(UNNAMED) == []
    window.do("specviz.seek(2)")
    window.page.wait_for_function("document.querySelector('.specviz [role=status]').textContent.startsWith('step 3 / 12')")
    assert window.page.locator("#tree h2").count() == 1


def test_motion_rests_where_it_is_not_wanted(browser: Browser, trace: Trace) -> None:
    with stage(browser, reduced_motion="reduce") as calm:
        calm.show()
        calm.do("specviz.message({ run: 'a', seq: 0, status: { key: 'status.loading' } })")
        assert calm.page.evaluate("getComputedStyle(document.querySelector('#text'), '::after').animationName") == "none"


def test_without_plotly_there_are_tables(window: Stage, trace: Trace) -> None:
    window.prepare()
    window.do(WITHOUT_PLOTLY, run_view(trace))
    assert window.page.locator("#roofline .sv-twin tbody tr").count() > 3
    assert window.page.locator("#tree .sv-mark").count() > 3


def test_an_empty_player_invites(window: Stage) -> None:
    window.show(None)
    assert "press Run" in window.text("#text")
    assert window.state()["steps"] == 0
    for name in PANELS[1:]:
        assert len(window.text(f"#{name}")) > 20, name
