"""Runs that arrive step by step, trace files that are opened, and what happens when something goes wrong on the way."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from specviz.config import DecodeConfig
from specviz.figures.view import header_view, run_view, step_view
from specviz.trace import FORMAT, Trace
from tests.builders import make_trace
from tests.e2e.player import Stage, stage

pytestmark = pytest.mark.browser

TREE = DecodeConfig(temperature=1.0, tree="3x2x1", seed=1)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(8, TREE)


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        yield made


def messages(trace: Trace, run: str = "live") -> list[dict[str, Any]]:
    """What a run tells: a status, the header, a step at a time, the end."""
    header = trace.header
    told = [{"status": {"key": "status.loading", "args": {}}}, {"header": header_view(header)}]
    told += [{"steps": [step_view(step, header)]} for step in trace.steps] + [{"done": {"ended": trace.ended}}]
    return [{"run": run, "seq": i, **part} for i, part in enumerate(told)]


def tell(window: Stage, *told: dict) -> dict[str, Any]:
    window.do("messages => messages.forEach((message) => specviz.message(message))", list(told))
    return window.state()


def test_the_view_stays_on_the_newest_step(window: Stage, trace: Trace) -> None:
    window.show()
    told = messages(trace)
    state = tell(window, told[0])
    assert (state["incoming"], state["status"]["key"]) == ("live", "status.loading")
    assert "Loading the model" in window.text("#text")
    state = tell(window, *told[1:4])
    assert (state["run"], state["mode"], state["steps"], state["step"], state["done"]) == ("live", "live", 2, 1, False)
    assert "live" in window.text("#text .sv-badges")
    assert "reference engine" in window.text("#text .sv-badges"), "which engine runs"
    state = tell(window, *told[4:])
    assert (state["steps"], state["step"], state["done"], state["ended"], state["gap"]) == (8, 7, True, "length", False)
    assert window.page.locator(".sv-stream").text_content() == trace.text


def test_who_scrubs_back_is_left_there_and_may_follow_again(window: Stage, trace: Trace) -> None:
    window.show()
    told = messages(trace)
    tell(window, *told[:6])
    window.do("specviz.seek(1)")
    state = tell(window, *told[6:8])
    assert (state["step"], state["steps"], state["follow"]) == (1, 6, False)
    window.page.locator(".sv-bar .sv-chip").click()
    state = tell(window, told[8])
    assert (state["step"], state["follow"]) == (6, True)


def test_a_message_that_comes_twice_counts_once(window: Stage, trace: Trace) -> None:
    window.show()
    told = messages(trace)
    state = tell(window, *told[:4], told[3], told[3], told[2])
    assert (state["steps"], state["gap"]) == (2, False)
    tell(window, *told[4:])
    window.do("specviz.seek(2)")
    assert tell(window, told[-1])["step"] == 2, "the repeated end moved the view"
    assert tell(window, told[0])["status"] is None, "an old message spoke again"


def test_a_new_run_takes_the_place_of_the_old_one_with_its_header(window: Stage, trace: Trace) -> None:
    window.show(trace)
    told = messages(make_trace(3, TREE, seed=4), "next")
    state = tell(window, told[0])
    assert (state["run"], state["steps"], state["incoming"]) == ("recorded", 8, "next")
    state = tell(window, *told[1:])
    assert (state["run"], state["steps"], state["incoming"], state["recorded"]) == ("next", 3, None, False)


def test_a_run_that_fails_at_once_leaves_the_old_one_alone(window: Stage, trace: Trace) -> None:
    window.show(trace)
    error = {"key": "error.prompt_empty", "args": {}}
    state = tell(window, {"run": "bad", "seq": 0, "status": {"key": "status.loading"}}, {"run": "bad", "seq": 1, "error": error})
    assert (state["run"], state["steps"], state["incoming"], state["error"]) == ("recorded", 8, None, error)
    assert window.page.locator("#banner").get_attribute("role") == "alert"
    assert "The prompt is empty" in window.text("#banner")
    window.page.click("#banner .sv-ibtn")
    window.settle()
    assert not window.page.locator("#banner").is_visible()
    tell(window, {"run": "bad2", "seq": 0, "error": error})
    tell(window, *messages(trace, "good"))
    assert window.state()["error"] is None


def test_a_lost_message_is_noticed_and_asked_for(window: Stage, trace: Trace) -> None:
    told = messages(trace)
    window.show(server="{ resend: async (asked) => { window.asked = asked; return window.kept; } }")
    window.page.evaluate("views => { window.kept = views; }", [step_view(step, trace.header) for step in trace.steps[2:4]])
    state = tell(window, *told[:4], *told[6:])
    assert window.page.evaluate("window.asked") == {"run": "live", "from": 2}
    assert (state["steps"], state["gap"], state["notice"]) == (8, False, None)


def test_a_message_lost_for_good_is_said(window: Stage, trace: Trace) -> None:
    told = messages(trace)
    window.show()
    state = tell(window, *told[:4], *told[6:])
    assert (state["steps"], state["gap"]) == (2, True)
    assert "lost on the way" in window.text("#banner")


def test_a_whole_run_may_be_a_message(window: Stage, trace: Trace) -> None:
    window.show()
    state = tell(window, run_view(trace, "shared"))
    assert (state["run"], state["steps"], state["recorded"]) == ("shared", 8, True)
    assert tell(window, {}, {"steps": []}, {"run": None})["steps"] == 8


def test_load_takes_a_view_or_asks_the_server_for_one(window: Stage, trace: Trace) -> None:
    raw = json.loads(trace.to_json())
    window.show(server="{ open_trace: async (text) => { window.sent = JSON.parse(text); return window.view; } }")
    window.page.evaluate("view => { window.view = view; }", run_view(trace, "from the server"))
    assert window.do("trace => specviz.load(trace)", raw) is True
    assert window.page.evaluate("window.sent.format") == FORMAT
    assert window.state()["run"] == "from the server"
    assert window.do("text => specviz.load(text)", json.dumps(run_view(trace, "direct"))) is True
    assert window.state()["run"] == "direct"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("{", "not JSON"),
        ({"format": 3, "steps": []}, "format 3"),
        (None, "could not be opened"),
        ([1], "could not be opened"),
        ("null", "could not be opened"),
    ],
)
def test_load_that_fails_says_why_and_loses_nothing(window: Stage, trace: Trace, given: object, sentence: str) -> None:
    server = """{ open_trace: async (text) => text.includes('format')
      ? { error: { key: 'error.trace_format', args: { found: '3', known: '1 / 2' } } } : Promise.reject(new Error('500')) }"""
    window.show(trace, server=server)
    window.do("specviz.seek(3)")
    assert window.do("given => specviz.load(given)", given) is False
    assert (window.state()["steps"], window.state()["step"]) == (8, 3)
    assert sentence in window.text("#banner")


def test_fast_messages_are_drawn_once_a_frame(window: Stage, trace: Trace) -> None:
    window.show()
    window.page.evaluate("""() => {
      const [tree] = specviz.player.panels, draw = tree.draw.bind(tree);
      window.drawn = 0;
      tree.draw = () => { window.drawn += 1; draw(); };
    }""")
    window.page.evaluate("messages => messages.forEach((message) => specviz.message(message))", messages(trace))
    window.settle()
    assert window.page.evaluate("window.drawn") <= 2
    assert window.state()["steps"] == 8
