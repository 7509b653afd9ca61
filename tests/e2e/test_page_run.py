"""Run, Stop, two visitors, and prompts that somebody may well type."""

import time

import pytest

from tests.e2e.conftest import Site, Visit

pytestmark = pytest.mark.browser

HOSTILE = (
    "${Object.assign(window,{pwned:1})}<script>window.pwned=1</script><img src=x onerror=window.pwned=1> {{value}} `\\\\`"
    " \u202eabc שלום e\u0301 👩\u200d👩\u200d👧"
)


def test_run_decodes_the_prompt_live(visit: Visit) -> None:
    visitor = visit()
    visitor.run("abc", length=32)
    visitor.page.wait_for_function("document.querySelector('#run').disabled && !document.querySelector('#stop').disabled")
    state = visitor.finished()
    assert state["mode"] == "live"
    assert state["ended"] == "length"
    assert state["steps"] >= 32 / 6
    assert state["step"] == state["steps"] - 1, "the player did not follow the run"
    assert visitor.prompt_on_show() == "abc"
    visitor.page.wait_for_function("!document.querySelector('#run').disabled && document.querySelector('#stop').disabled")


@pytest.mark.parametrize("method", ["plain", "ngram", "draft"])
def test_every_method_can_be_chosen(visit: Visit, method: str) -> None:
    visitor = visit()
    visitor.page.check(f"#method input[value={method}]")
    visitor.run("abc")
    visitor.finished()
    assert visitor.page.evaluate("window.specviz.player.store.run.header.config.method") == method


def test_what_is_chosen_for_the_lookup_is_what_runs(visit: Visit) -> None:
    visitor = visit()
    visitor.page.check("#method input[value=ngram]")
    visitor.page.click("#ngram input")
    visitor.page.get_by_role("option", name="4 → 1").click()
    visitor.page.click("#ngram_match input")
    visitor.page.get_by_role("option", name="earliest").click()
    visitor.run("tick tock tick tock tick")
    visitor.finished()
    config = visitor.page.evaluate("window.specviz.player.store.run.header.config")
    assert (config["ngram_max"], config["ngram_min"], config["ngram_match"]) == (4, 1, "earliest")
    steps = visitor.page.evaluate("window.specviz.player.store.run.steps.map((view) => view.step)")
    assert any(step["matches"] for step in steps)
    assert all(step["matches"] is not None for step in steps[:-1]), "the budget's last step has no room to look anything up"


def test_stop_really_stops_the_decoding(visit: Visit, site: Site) -> None:
    visitor = visit()
    site.pace.seconds = 0.05
    visitor.run("abc", length=256)
    visitor.until("!s.recorded && s.steps >= 3")
    visitor.page.click("#stop")
    state = visitor.finished()
    assert state["ended"] == "stopped"
    assert state["steps"] >= 3, "the steps so far are gone"
    passes = site.pace.passes
    time.sleep(0.5)
    assert site.pace.passes == passes, "decoding goes on"


def test_a_visitor_who_closes_the_page_frees_the_model(visit: Visit, site: Site) -> None:
    visitor = visit()
    site.pace.seconds = 0.05
    visitor.run("abc", length=256)
    visitor.until("!s.recorded && s.steps >= 1")
    visitor.page.context.close()
    deadline, passes = time.monotonic() + 15, -1
    while passes != site.pace.passes and time.monotonic() < deadline:
        passes = site.pace.passes
        time.sleep(1)
    assert passes == site.pace.passes, "nobody watches, and decoding goes on"


def test_two_visitors_at_once_wait_for_each_other_and_see_their_own_run(visit: Visit, site: Site) -> None:
    first, second = visit(), visit()
    site.pace.seconds = 0.05
    first.run("first", length=64)
    first.until("!s.recorded && s.steps >= 1")
    second.run("second", length=16)
    state = second.until("s.status?.key === 'status.queue'")
    assert state["status"]["args"] == {"place": 1}
    site.pace.seconds = 0.0
    for visitor, prompt in ((first, "first"), (second, "second")):
        visitor.finished()
        assert visitor.prompt_on_show() == prompt
    assert first.state()["run"] != second.state()["run"]


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [("   ", "The prompt is empty"), ("x" * 100_000, "The prompt has 100")],
    ids=["empty", "100,000 characters"],
)
def test_a_prompt_that_cannot_be_taken_is_one_sentence_and_loses_nothing(visit: Visit, prompt: str, sentence: str) -> None:
    visitor = visit()
    visitor.run("abc")
    before = visitor.finished()
    visitor.run(prompt)
    after = visitor.until("s.error")
    assert visitor.page.get_by_text(sentence).first.is_visible()
    assert (after["run"], after["steps"]) == (before["run"], before["steps"])
    assert not visitor.page.locator(".toast-body").count()
    visitor.page.wait_for_function("!document.querySelector('#run').disabled")


def test_hostile_text_is_shown_and_never_executed(visit: Visit) -> None:
    visitor = visit()
    visitor.run(HOSTILE)
    visitor.finished()
    assert visitor.prompt_on_show() == HOSTILE
    assert visitor.page.locator("#text, .sv-text").first.inner_text().count("<script>")
    assert visitor.page.evaluate("window.pwned") is None


def test_what_is_watched_afterwards_never_asks_the_server(visit: Visit) -> None:
    visitor = visit()
    visitor.run("abc", length=32)
    last = visitor.finished()["steps"] - 1
    visitor.page.wait_for_timeout(500)
    visitor.requests.clear()
    visitor.page.locator("#tree").hover()
    for key, step in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", last)):
        visitor.page.keyboard.press(key)
        assert visitor.until(f"s.step === {step}")["step"] == step
    visitor.page.keyboard.press("Shift+ArrowLeft")
    visitor.until("s.substep === 'verify'")
    visitor.page.keyboard.press("Home")
    visitor.page.keyboard.press("ArrowDown")
    visitor.until("s.node > 0")
    visitor.page.keyboard.press("Space")
    visitor.until("s.playing && s.step > 0")
    visitor.page.keyboard.press("Space")
    visitor.until("!s.playing")
    assert visitor.requests == []


def test_another_rule_judges_the_recorded_steps_again_in_the_browser(visit: Visit) -> None:
    visitor = visit()
    visitor.run("abc", length=32)
    visitor.finished()
    visitor.page.wait_for_timeout(500)
    posts = []
    visitor.page.on("request", lambda request: posts.append(request.post_data or "") if request.method == "POST" else None)
    visitor.page.check("#rule input[value=greedy]")
    state = visitor.until("s.rejudged")
    assert state["rule"]["rule"] == "greedy"
    visitor.page.check("#rule input[value=rejection]")
    visitor.until("!s.rejudged || s.differs < 0")
    assert not any("abc" in post for post in posts), "the run was sent to the server"
