"""Text of tokens as a figure can show it: every character visible, nothing obeyed, no wider than its place.

plotly reads pseudo-HTML in every label, and our figures read "@key" and "var:name"; a model may write all of these.
"""

import json
import unicodedata
from functools import lru_cache

_PICTURES = {" ": "·", "\n": "⏎", "\r": "␍", "\t": "⇥", "\x7f": "␡"}
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})  # "$…$" is TeX where a page has MathJax


@lru_cache(maxsize=8192)  # the same tokens come back step after step
def visible(text: str) -> str:
    """`text` with its spaces, line ends and control characters drawn: " a\\n" is "·a⏎", an empty text "∅".

    Characters that turn or hide others (bidirectional overrides, zero widths) and lone surrogates are written as their code point.
    """
    if text.isascii() and text.isalnum():
        return text
    return "".join(map(_picture, text)) or "∅"


def _picture(char: str) -> str:
    if char in _PICTURES:
        return _PICTURES[char]
    if char < " ":
        return chr(0x2400 + ord(char))
    category = unicodedata.category(char)
    if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char != "\u200d":  # U+200D joins the parts of an emoji
        return f"‹{ord(char):X}›"
    return "·" if category == "Zs" else char


@lru_cache(maxsize=8192)
def width(text: str) -> float:
    """The width of `text` in characters: wide ones (CJK, emoji) count 1.8, marks that sit on others 0."""
    return float(len(text)) if text.isascii() else sum(map(_advance, text))


def _advance(char: str) -> float:
    if char == "\u200d" or unicodedata.category(char) in ("Mn", "Me"):
        return 0.0
    return 1.8 if unicodedata.east_asian_width(char) in "WF" else 1.0


def short(text: str, places: float) -> str:
    """`text` if it is at most `places` characters wide, else its start and "…"; marks stay with the letter that they sit on."""
    if width(text) <= places:
        return text
    kept, used = "", 1.0
    for char in text:
        used += _advance(char)
        if used > places:
            break
        kept += char
    return kept.removesuffix("\u200d") + "…"


def escaped(text: str) -> str:
    """`text` as plotly shows it literally: no tag, no entity, no TeX, no locale key, no palette name."""
    text = text.translate(_ENTITIES)
    if text.startswith("@"):
        return "&#64;" + text[1:]
    return "var&#58;" + text[4:] if text.startswith("var:") else text


def label(text: str, places: float = 14) -> str:
    """A token's text for a figure: visible, cut to `places`, escaped."""
    return escaped(short(visible(text), places))


def key(name: str, **values: object) -> str:
    """A sentence of the catalogue for a figure: "@name", with its arguments behind a bar."""
    return f"@{name}|{json.dumps(values, ensure_ascii=False)}" if values else f"@{name}"
