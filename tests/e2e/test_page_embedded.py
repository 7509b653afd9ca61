"""The page over the model that everybody has: what the README promises, once."""

from collections.abc import Iterator

import pytest

from specviz.engine.lm import Pair
from specviz.ui.text import PRESETS
from tests.e2e.conftest import Site, Visit

pytestmark = pytest.mark.browser


@pytest.fixture
def embedded(embedded_pair: Pair, site: Site) -> Iterator[Pair]:
    """The page's models are the embedded ones while this lasts."""
    tiny, site.pair = site.pair, embedded_pair
    yield embedded_pair
    site.pair = tiny


@pytest.mark.parametrize("method", ["draft", "medusa"])
def test_open_the_page_and_press_run(embedded: Pair, visit: Visit, method: str) -> None:
    visitor = visit()
    visitor.page.check(f"#method input[value={method}]")
    visitor.run("Write a short story about a lighthouse keeper.", length=16)
    state = visitor.until("!s.recorded && s.run && s.done && !s.incoming", seconds=120)
    assert state["ended"] in ("length", "eos")
    steps = visitor.page.evaluate("window.specviz.player.store.run.steps.map((view) => view.step)")
    assert all(len(step["tree"]) > 1 for step in steps[:-1]), "nothing was proposed"
    assert any(token["kind"] == "accepted" for step in steps for token in step["emitted"]), "nothing was accepted"
    assert visitor.page.evaluate("window.specviz.player.store.run.header.target.name") == "SmolLM2-135M-Instruct"


def test_a_text_that_is_repeated_is_copied(embedded: Pair, visit: Visit) -> None:
    """What the example "Rewrite" is there for."""
    visitor = visit()
    visitor.page.check("#method input[value=ngram]")
    visitor.page.check("#rule input[value=greedy]")
    visitor.run(PRESETS["rewrite"], length=64)
    visitor.until("!s.recorded && s.run && s.done && !s.incoming", seconds=120)
    steps = visitor.page.evaluate("window.specviz.player.store.run.steps.map((view) => view.step)")
    tokens = [token for step in steps for token in step["emitted"]]
    assert sum(token["kind"] == "accepted" for token in tokens) > len(tokens) / 2
    copied = next(step for step in steps if step["matches"])
    visitor.page.evaluate("i => window.specviz.seek(i)", copied["index"])
    visitor.page.get_by_text("in the prompt").click()
    visitor.page.locator(".sv-prompt .sv-source").wait_for()
    visitor.page.evaluate("window.specviz.seek(0)")
    visitor.page.get_by_text("No match: the 2-gram at the end of the text stands nowhere earlier").wait_for()


def test_chinese_characters_that_are_split_over_tokens(embedded: Pair, visit: Visit) -> None:
    visitor = visit("language=zh")
    visitor.page.get_by_text("如何提议词元").wait_for()
    visitor.run("请用中文介绍北京。", length=24)
    visitor.until("!s.recorded && s.run && s.done && !s.incoming", seconds=120)
    assert visitor.prompt_on_show() == "请用中文介绍北京。"
    assert "\ufffd" not in visitor.page.inner_text("#text")
