"""Every sentence a user reads, in their language: the texts are in assets/locales, this looks them up."""

import json
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"
LANGUAGES = ("en", "zh")


@cache
def catalogue(lang: str) -> dict[str, str]:
    """All texts of one language by key; raises KeyError for a language that has none."""
    if lang not in LANGUAGES:
        raise KeyError(f"no texts in {lang!r}; there are {', '.join(LANGUAGES)}")
    return json.loads((ASSETS / "locales" / f"{lang}.json").read_text(encoding="utf-8"))


def t(lang: str, key: str, /, **args: object) -> str:
    """The text of `key` with its placeholders filled; raises KeyError when the catalogue lacks the key."""
    text = catalogue(lang)[key]
    for name, value in args.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


class Fault(ValueError):
    """Something the user can mend. `str()` is one English sentence; `key` and `values` say it in any language."""

    def __init__(self, key: str, /, **values: object):
        super().__init__(t("en", key, **values))
        self.key = key
        self.values = {name: str(value) for name, value in values.items()}
