"""Token text in a figure: all of it visible, none of it obeyed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.figures.text import escaped, key, label, short, visible, width
from specviz.figures.view import localised


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "·the"), ("a b", "a·b"), ("\n", "⏎"), ("\t", "⇥"), ("\r\n", "␍⏎"), ("", "∅"), ("\x00", "␀"), ("\x1b[0m", "␛[0m"),
        ("\u00a0", "·"), ("\u202eabc", "‹202E›abc"), ("\u200b", "‹200B›"), ("\ud800", "‹D800›"), ("中文", "中文"), ("שלום", "שלום"),
        ("👩‍👧", "👩‍👧"),
    ],
)  # fmt: skip
def test_every_character_is_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("<b>", "&lt;b&gt;"), ("&lt;", "&amp;lt;"), ("$x$", "&#36;x&#36;"), ("@state.bonus", "&#64;state.bonus"),
        ("var:ink", "var&#58;ink"), ("a@b", "a@b"), ("a var:x", "a var:x"), ("plain", "plain"),
    ],
)  # fmt: skip
def test_nothing_is_obeyed(text: str, safe: str) -> None:
    assert escaped(text) == safe


@given(st.text())
def test_a_label_is_never_markup_nor_a_key_nor_a_colour(text: str) -> None:
    for shown in (label(text), escaped(text)):
        assert "<" not in shown
        assert ">" not in shown
        assert "$" not in shown
        assert localised({"text": shown}, "en") == {"text": shown}


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",))), st.integers(2, 20))
def test_a_label_fits_its_place(text: str, places: int) -> None:
    cut = short(visible(text), places)
    assert width(cut) <= places
    assert cut == visible(text) or cut.endswith("…")


def test_wide_characters_take_more_room_and_marks_none() -> None:
    assert width("中文") == 3.6
    assert width("e\u0301") == 1
    assert short("中" * 9, 5) == "中中…"
    assert short("e\u0301" * 9, 4) == "e\u0301" * 3 + "…"


def test_a_sentence_carries_its_values() -> None:
    assert key("mask.context", cached=3) == '@mask.context|{"cached": 3}'
    assert localised(key("mask.context", cached=3), "en").startswith("3 cached tokens")
    assert localised("@state.bonus", "zh") != localised("@state.bonus", "en")
    with pytest.raises(KeyError):
        localised("@no.such.key", "en")
