"""Language, theme, sizes, and the controls: what a visitor sees before and beside a run."""

import pytest

from tests.e2e.conftest import Visit, Visitor

pytestmark = pytest.mark.browser

GLYPHS = """(text) => {
  const draw = (letter) => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 40, height: 40 });
    const context = canvas.getContext('2d');
    context.font = '30px ' + getComputedStyle(document.body).fontFamily;
    context.fillText(letter, 2, 32);
    return canvas.toDataURL();
  };
  const missing = draw('\\uffff');
  return [...text].every((letter) => ![missing, draw(' ')].includes(draw(letter)));
}"""


def box(visitor: Visitor, selector: str) -> dict:
    return visitor.page.locator(selector).first.bounding_box()


def label(visitor: Visitor, name: str) -> str:
    return visitor.page.locator(f"#{name} [data-testid=block-info]").inner_text()


def shown(visitor: Visitor, name: str) -> bool:
    """Whether the explanation of a control can be seen now."""
    info = visitor.page.locator(f"#{name} .info-text")
    return info.evaluate("e => getComputedStyle(e).visibility === 'visible' && getComputedStyle(e).opacity > 0.9")


def test_the_language_is_switched_at_run_time(visit: Visit) -> None:
    visitor = visit()
    assert label(visitor, "method") == "How tokens are proposed"
    visitor.page.check("#language input[value=zh]")
    visitor.page.get_by_text("如何提议词元").wait_for()
    visitor.until("s.language === 'zh'")
    assert visitor.page.inner_text("#run") == "运行"
    assert label(visitor, "prompt") == "提示词"
    assert visitor.page.evaluate("document.documentElement.lang") == "zh-CN"
    words = visitor.page.inner_text("#controls") + visitor.page.inner_text("#stage")
    chinese = "".join(sorted({letter for letter in words if "\u4e00" <= letter <= "\u9fff"}))
    assert len(chinese) > 60
    assert visitor.page.evaluate(GLYPHS, chinese), "a Chinese glyph is missing"
    visitor.page.check("#language input[value=en]")
    visitor.page.get_by_text("How tokens are proposed").wait_for()
    visitor.until("s.language === 'en'")


def test_the_first_language_is_the_browsers(visit: Visit) -> None:
    visitor = visit(locale="zh-TW")
    visitor.page.get_by_text("如何提议词元").wait_for()
    assert visitor.until("s.language === 'zh'")


def test_the_address_may_ask_for_language_and_theme(visit: Visit) -> None:
    visitor = visit("language=zh&__theme=dark")
    visitor.page.get_by_text("如何提议词元").wait_for()
    visitor.until("s.theme === 'dark'")
    light = visitor.page.evaluate("getComputedStyle(document.querySelector('#controls')).backgroundColor")
    visitor.page.click("#theme")
    visitor.until("s.theme === 'light'")
    assert visitor.page.evaluate("getComputedStyle(document.querySelector('#controls')).backgroundColor") != light


def test_an_error_is_said_in_the_language_of_the_page(visit: Visit) -> None:
    visitor = visit("language=zh")
    visitor.page.get_by_text("如何提议词元").wait_for()
    visitor.run(" ")
    visitor.page.get_by_text("提示词为空").first.wait_for()


def test_a_recorded_run_is_there_at_once_or_the_page_says_how_to_start(visit: Visit) -> None:
    visitor = visit()
    state = visitor.state()
    assert state["recorded"] == bool(state["steps"])


def test_an_example_fills_the_prompt(visit: Visit) -> None:
    visitor = visit()
    visitor.page.check("#preset input[value=chinese]")
    visitor.page.wait_for_function("/[\\u4e00-\\u9fff]{4}/.test(document.querySelector('#prompt textarea').value)")
    visitor.page.check("#preset input[value=python]")
    visitor.page.wait_for_function("document.querySelector('#prompt textarea').value.includes('Python')")
    assert "indentation" in visitor.page.inner_text("#preset .info-text")
    visitor.page.locator("#prompt textarea").press_sequentially("!")
    visitor.page.wait_for_function("!document.querySelector('#preset input:checked')")


def test_help_opens(visit: Visit) -> None:
    visitor = visit()
    visitor.page.click("#help")
    visitor.page.locator("dialog[open]").wait_for()
    visitor.page.keyboard.press("Escape")


def test_what_does_not_apply_is_off_and_the_keyboard_reaches_the_reason(visit: Visit) -> None:
    visitor = visit()
    assert visitor.page.locator("#epsilon input[type=range]").is_disabled()
    assert not shown(visitor, "epsilon")
    visitor.page.focus("#epsilon")
    visitor.page.wait_for_timeout(600)
    assert shown(visitor, "epsilon")
    assert "only the typical rule" in visitor.page.inner_text("#epsilon .info-text")
    visitor.page.check("#rule input[value=typical]")
    visitor.page.wait_for_function("!document.querySelector('#epsilon input[type=range]').disabled")
    assert "Changes the distribution" in visitor.page.inner_text("#rule .info-text")
    visitor.page.check("#method input[value=medusa]")
    visitor.page.wait_for_function("document.querySelector('#k input[type=range]').disabled")


def test_controls_of_the_lookup_are_there_only_for_it(visit: Visit) -> None:
    visitor = visit()
    shown = "['ngram', 'ngram_match', 'epsilon'].filter((id) => document.getElementById(id)?.getClientRects().length)"
    assert visitor.page.evaluate(shown) == ["epsilon"]
    visitor.page.check("#method input[value=ngram]")
    visitor.page.wait_for_function("document.getElementById('ngram')?.getClientRects().length")
    assert visitor.page.evaluate(shown) == ["ngram", "ngram_match"]
    visitor.page.check("#method input[value=draft]")
    visitor.page.wait_for_function("!document.getElementById('ngram')?.getClientRects().length")
    assert visitor.page.evaluate(shown) == ["epsilon"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_segment_has_room_for_its_name(visit: Visit, language: str) -> None:
    visitor = visit(f"language={language}")
    visitor.page.get_by_text({"en": "How tokens are proposed", "zh": "如何提议词元"}[language]).wait_for()
    for method in ("plain", "ngram", "draft", "medusa"):
        visitor.page.check(f"#method input[value={method}]")  # the chosen one is bold
        wide = "[...document.querySelectorAll('#method label')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)"
        assert visitor.page.evaluate(wide) == []


def test_no_id_is_used_twice(visit: Visit) -> None:
    ids = visit().page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(set(ids)) == sorted(ids)


def test_at_1440_by_900_everything_stands_side_by_side(visit: Visit) -> None:
    visitor = visit()
    assert visitor.page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [900, 1440]
    assert visitor.page.evaluate("(e => e.scrollHeight <= e.clientHeight)(document.querySelector('#settings'))"), "the controls scroll"
    assert box(visitor, "#header") == {"x": 0, "y": 0, "width": 1440, "height": 48}
    assert box(visitor, "#stage") == {"x": 272, "y": 48, "width": 1168, "height": 852}
    for panel in ("section#tree", "#mask", "#verdicts", "#distribution"):
        place = box(visitor, panel)
        assert place["y"] + place["height"] <= 900, panel
        assert place["x"] + place["width"] <= 1440, panel


@pytest.mark.parametrize("language", ["en", "zh"])
def test_at_1280_by_720_run_and_stop_stay_in_reach(visit: Visit, language: str) -> None:
    visitor = visit(f"language={language}", width=1280, height=720)
    for button in ("#run", "#stop"):
        place = box(visitor, button)
        assert place["y"] + place["height"] <= 720
    assert visitor.page.evaluate("document.documentElement.scrollWidth") == 1280
    for method in ("draft", "ngram"):
        visitor.page.check(f"#method input[value={method}]")
        visitor.page.wait_for_timeout(500)
        seed = box(visitor, "#seed")
        assert seed["y"] + seed["height"] <= box(visitor, "#buttons")["y"], f"a control of {method} is out of sight"


def test_a_phone_gets_one_column_with_the_prompt_first(visit: Visit) -> None:
    visitor = visit(width=390, height=844)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") == 390
    assert not visitor.page.locator("#method").is_visible()
    assert box(visitor, "#prompt")["y"] < box(visitor, "#run")["y"] < box(visitor, "#stage")["y"] < 844
    visitor.page.click("#more")
    assert visitor.page.locator("#method").is_visible()
    assert visitor.page.locator("#seed").is_visible()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") == 390
