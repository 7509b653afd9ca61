"""The two catalogues of texts: the same keys, the same placeholders, none unused, none missing."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from specviz.i18n import LANGUAGES, Fault, catalogue, t
from tests.source import parsed

ROOT = Path(__file__).resolve().parents[1]
PYTHON = [*(ROOT / "specviz").rglob("*.py"), ROOT / "app.py"]
SCRIPTS = sorted(path for path in (ROOT / "assets").rglob("*.js") if "plotly" not in path.parts)
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
KEY = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
HOLE = "\0"  # what stands for a value in a composed key


@cache
def texts_in_code() -> frozenset[str]:
    """Every string of the program; in composed ones a HOLE stands for each value."""
    found: set[str] = set()
    for path in PYTHON:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(part.value if isinstance(part, ast.Constant) else HOLE for part in node.values))
    for path in SCRIPTS:
        for literal in re.findall(r"`([^`]*)`|\"([^\"\n]*)\"|'([^'\n]*)'", path.read_text(encoding="utf-8")):
            found.add(re.sub(r"\$\{[^}]*\}", HOLE, "".join(literal)))
    return frozenset(text.removeprefix("@").split("|")[0] for text in found)


@cache
def words_in_code() -> frozenset[str]:
    """Every name and every word of every string: what can fill a HOLE."""
    sources = (path.read_text(encoding="utf-8") for path in (*PYTHON, *SCRIPTS))
    return frozenset(word for source in sources for word in re.findall(r"[A-Za-z0-9]+", source))


@cache
def composed() -> tuple[re.Pattern, ...]:
    """The composed keys as patterns; one must name at least a section, or it would match everything."""
    candidates = (text for text in texts_in_code() if HOLE in text and re.fullmatch(rf"[a-z0-9_]+\.[a-z0-9_.{HOLE}]+", text))
    return tuple(re.compile(re.escape(text).replace(re.escape(HOLE), "([a-z0-9_.]+)")) for text in candidates)


def is_composed(key: str) -> bool:
    """Whether the program can put `key` together: each hole is filled by words that it knows."""
    found = (pattern.fullmatch(key) for pattern in composed())
    return any(match and {word for part in match.groups() for word in re.split(r"[._]", part)} <= words_in_code() for match in found)


def test_both_languages_have_the_same_keys():
    english, chinese = (set(catalogue(lang)) for lang in LANGUAGES)
    assert english == chinese


def test_both_languages_fill_in_the_same_values():
    for key, english in catalogue("en").items():
        assert sorted(set(PLACEHOLDER.findall(english))) == sorted(set(PLACEHOLDER.findall(catalogue("zh")[key]))), key


@pytest.mark.parametrize("lang", LANGUAGES)
def test_texts_are_clean(lang):
    raw = (ROOT / "assets" / "locales" / f"{lang}.json").read_text(encoding="utf-8")
    assert list(json.loads(raw)) == sorted(json.loads(raw)), "sort the keys: it keeps changes small"
    for key, text in catalogue(lang).items():
        assert KEY.fullmatch(key), key
        assert text.strip() == text != "", key
        assert all(re.fullmatch(r"[a-z_][a-z0-9_]*", name) for name in PLACEHOLDER.findall(text)), key


def test_chinese_is_chinese():
    """A text that is the same in both languages is a name, a formula or a unit, not a sentence that nobody translated."""
    same = [
        key
        for key, text in catalogue("en").items()
        if text == catalogue("zh")[key] and len(re.findall(r"[a-z]{4,}", PLACEHOLDER.sub("", text))) > 2
    ]
    assert same == []


def test_every_key_in_code_exists():
    sections = {key.split(".")[0] for key in catalogue("en")}
    used = {text for text in texts_in_code() if KEY.fullmatch(text) and text.split(".")[0] in sections}
    files = {text for text in used if text.rsplit(".", 1)[1] in {"json", "py", "js", "css", "safetensors", "gz", "md", "html", "txt"}}
    assert sorted(used - files - set(catalogue("en"))) == []


def test_no_text_is_unused():
    used = texts_in_code()
    assert [key for key in catalogue("en") if key not in used and not is_composed(key)] == []


def test_filling_in():
    assert "“x{y}”" in t("en", "device.unknown", device="x{y}")
    fault = Fault("device.unknown", device="x")
    assert str(fault) == t("en", fault.key, **fault.values)
    assert t("zh", fault.key, **fault.values).startswith("未知")
    with pytest.raises(KeyError):
        t("en", "no.such_key")
    with pytest.raises(KeyError):
        catalogue("xx")
