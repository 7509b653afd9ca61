"""Colours keep their contrast, and no two states look the same even without colour."""

import re

import pytest

from specviz.figures.palette import COLOURS, STATES, THEMES, colour, css, table

TEXT = ["ink", "soft", "accent", "fault", *(name for name in COLOURS if name.endswith("_text"))]
MARKS = [
    "faint",
    "p",
    "q",
    "residual",
    "roof",
    "datasheet",
    "propose",
    "verify",
    "commit",
    *(sign.colour for s, sign in STATES.items() if s != "hidden"),
]
GROUNDS = ("card", "paper", "accent_wash")


def luminance(value: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_and_marks_keep_their_contrast(theme: str, ground: str) -> None:
    behind = colour(ground, theme)
    assert {name for name in TEXT if contrast(colour(name, theme), behind) < 4.5} == set()
    assert {name for name in MARKS if contrast(colour(name, theme), behind) < 3} == set()


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_states_differ_without_colour() -> None:
    signs = [(sign.symbol, sign.letter) for state, sign in STATES.items() if state not in ("pending", "hidden", "root")]
    judged = ["accepted", "refused", "untested", "recovered", "bonus", "plain"]
    assert len({STATES[state].letter for state in judged}) == len(judged)
    assert len({symbol + ("" if letter != "○" else " open") for symbol, letter in signs}) == len(signs)


def test_every_name_exists_and_every_value_is_a_colour() -> None:
    assert all(re.fullmatch("#[0-9a-f]{6}", value) for pair in COLOURS.values() for value in pair)
    assert {name for sign in STATES.values() for name in (sign.fill, sign.colour, sign.text)} <= set(COLOURS)
    assert {f"{state}_text" for state in STATES if state != "hidden"} <= set(COLOURS)
    with pytest.raises(KeyError):
        colour("nothing")


def test_the_table_and_the_style_sheet_hold_both_themes() -> None:
    exported = table()
    assert exported["colours"]["dark"]["ink"] == COLOURS["ink"][1]
    assert exported["states"]["refused"]["letter"] == "✕"
    assert css().count("--sv-accepted-text:") == 2
