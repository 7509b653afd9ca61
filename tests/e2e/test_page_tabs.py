"""The tabs of the page: their addresses, their keys, and the silence of what is not shown."""

import pytest

from tests.e2e.conftest import Visit
from tests.e2e.lab import enter

pytestmark = pytest.mark.browser


def test_a_tab_has_an_address_and_a_reload_keeps_it(visit: Visit) -> None:
    page = visit().page
    shown = "['player', 'trees'].filter((name) => document.getElementById(`tab-${name}`).getClientRects().length)"
    assert page.evaluate(shown) == ["player"]
    page.click("#show-trees")
    assert page.evaluate(shown) == ["trees"] and page.url.endswith("#trees")
    page.reload()
    page.wait_for_function("window.specvizLab?.state().ready")
    assert page.evaluate(shown) == ["trees"]
    assert page.get_attribute("#show-trees", "aria-selected") == "true"
    page.click("#show-player")
    assert page.evaluate(shown) == ["player"] and "#" not in page.url
    page.go_back()
    page.wait_for_function(f"{shown}[0] === 'trees'")


def test_tabs_are_walked_with_arrow_keys(visit: Visit) -> None:
    page = visit().page
    page.focus("#show-player")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "show-trees"
    assert page.evaluate("document.getElementById('tab-trees').getAttribute('aria-labelledby')") == "show-trees"
    page.keyboard.press("Home")
    assert page.evaluate("[document.activeElement.id, document.documentElement.dataset.tab]") == ["show-player", "player"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") != "tab", "one stop for all tabs"


def test_the_players_keys_are_silent_while_another_tab_is_shown(visit: Visit) -> None:
    visitor = visit()
    visitor.page.keyboard.press("Home")
    visitor.until("s.step === 0")
    opened = enter(visitor)
    visitor.page.evaluate("document.activeElement.blur()")  # the tabs have keys of their own
    for key in ("ArrowRight", "End", " ", "ArrowDown", "?"):
        visitor.page.keyboard.press(key)
    visitor.page.wait_for_timeout(300)
    state = visitor.state()
    assert (state["step"], state["playing"]) == (0, False)
    assert not visitor.page.evaluate("window.specviz.player.help.open")
    assert visitor.page.locator("dialog[open]", has_text="Keys in the tree").is_visible()  # "?" explains what is shown
    visitor.page.keyboard.press("Escape")
    visitor.page.click("#help")
    visitor.page.locator("dialog[open]", has_text="Keys in the tree").wait_for()
    visitor.page.keyboard.press("Escape")
    assert opened.state()["count"] == 64
    visitor.page.click("#show-player")
    visitor.page.locator("#stage").hover()
    visitor.page.keyboard.press("ArrowRight")
    visitor.until("s.step === 1")
