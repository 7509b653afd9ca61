"""What the controls say, in either language: one function of the language and of what is chosen.

The page is built from it, and the language switch and every choice that matters to another control send the same again as updates.
So a control that does not apply is off, and its explanation says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.config import METHODS, NGRAM_MATCHES, RULES
from specviz.i18n import LANGUAGES, t
from specviz.models import own
from specviz.models.catalog import ENTRIES

# What the examples ask the model: the same in every language of the page, because these models speak English best.
PRESETS = {
    "rewrite": "Repeat this paragraph word for word: The old lighthouse stands at the end of the pier. Every evening the keeper climbs the "
    "stairs and lights the lamp. Ships far out at sea follow its beam home. In winter the waves break over the wall, and the wind shakes "
    "the windows all night long. The keeper drinks his tea, writes the weather in a book, and listens to the rain. When morning comes he "
    "puts out the lamp, walks down the stairs, and buys fresh bread in the village. The children wave to him from the harbour, and the "
    "fishermen tell him what they saw at sea.",
    "python": "Write a Python function that returns the n-th Fibonacci number.",
    "fact": "What is the capital of France?",
    "story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "chinese": "请用中文写两句话，介绍北京的秋天。",
}
LANGUAGE_NAMES = {"en": "EN", "zh": "中文"}
TREES = {
    "plain": ("",),
    "ngram": ("", "2x1x1x1", "4x1x1x1", "4x2x1x1"),
    "draft": ("", "2x1x1x1", "2x2x1", "3x2x1", "4x2x2"),
    "medusa": ("", "sparse:16", "sparse:32", "sparse:64", "4x2x1x1", "5x3x2"),
}
NGRAMS = ("4-2", "4-1", "8-3", "2-2", "1-1")  # the longest n, then the shortest


@dataclass(frozen=True)
class Chosen:
    """The choices that decide what other controls say."""

    method: str = "draft"
    rule: str = "rejection"
    tree: str = ""
    temperature: float = 0.7
    preset: str | None = "python"


def controls(lang: str, chosen: Chosen) -> dict[str, dict]:
    """Label, explanation, choices and state of every control, by its id."""
    words: dict[str, dict] = {name: {"label": t(lang, f"control.{name}"), "info": t(lang, f"control.{name}_info")} for name in _PLAIN}
    words |= {name: {"value": t(lang, f"control.{name}")} for name in ("run", "stop", "more")}
    words["pair"]["choices"] = pair_choices(lang)
    words["prompt"]["placeholder"] = t(lang, "control.prompt_placeholder")
    words["method"] = _radio(lang, "method", METHODS, f"method_{chosen.method}")
    words["rule"] = _radio(lang, "rule", RULES, _rule_info(chosen))
    if chosen.rule == "greedy":
        words["temperature"]["info"] = t(lang, "control.temperature_greedy_info")
    words["preset"] = {
        "label": t(lang, "control.preset"),
        "info": t(lang, f"preset.{chosen.preset}_info" if chosen.preset else "control.preset_info"),
        "choices": [(t(lang, f"preset.{name}"), name) for name in PRESETS],
    }
    words |= {"k": _k(lang, chosen), "tree": _tree(lang, chosen), "ngram": _ngram(lang, chosen), "ngram_match": _ngram_match(lang, chosen)}
    return words | {name: _bar(lang, name, chosen) for name in ("epsilon", "delta")}


_PLAIN = ("pair", "prompt", "temperature", "top_p", "length", "seed")


def _radio(lang: str, name: str, values: tuple[str, ...], info: str) -> dict:
    return {"label": t(lang, f"control.{name}"), "info": t(lang, f"control.{info}_info"), "choices": _choices(lang, name, values)}


def _choices(lang: str, name: str, values: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(t(lang, f"control.{name}_{value}"), value) for value in values]


def _rule_info(chosen: Chosen) -> str:
    if chosen.method == "plain":
        return "rule_plain"
    return "rule_zero" if chosen.temperature == 0 else f"rule_{chosen.rule}"


def _k(lang: str, chosen: Chosen) -> dict:
    chain = {"draft": "k", "ngram": "k_ngram"}
    info = {"plain": "k_plain", "medusa": "k_medusa"}.get(chosen.method) or ("k_tree" if chosen.tree else chain[chosen.method])
    return {"label": t(lang, "control.k"), "info": t(lang, f"control.{info}_info"), "interactive": info in chain.values()}


def _tree(lang: str, chosen: Chosen) -> dict:
    off = chosen.method == "plain"
    choices = [(_tree_name(lang, chosen.method, tree), tree) for tree in TREES[chosen.method]]
    info = {"plain": "tree_plain", "ngram": "tree_ngram", "draft": "tree", "medusa": "tree_medusa"}[chosen.method]
    return {"label": t(lang, "control.tree"), "info": t(lang, f"control.{info}_info"), "choices": choices, "interactive": not off}


def _tree_name(lang: str, method: str, tree: str) -> str:
    if not tree:
        return {"plain": "–", "medusa": t(lang, "control.tree_calibrated")}.get(method) or t(lang, "control.tree_chain")
    return t(lang, "control.tree_sparse", size=tree.removeprefix("sparse:")) if tree.startswith("sparse:") else tree


def _ngram(lang: str, chosen: Chosen) -> dict:
    ranges = [(text, *text.split("-")) for text in NGRAMS]
    choices = [(high if high == low else t(lang, "control.ngram_range", high=high, low=low), text) for text, high, low in ranges]
    return _lookup(lang, "ngram", choices, chosen)


def _ngram_match(lang: str, chosen: Chosen) -> dict:
    return _lookup(lang, "ngram_match", _choices(lang, "ngram_match", NGRAM_MATCHES), chosen)


def _lookup(lang: str, name: str, choices: list[tuple[str, str]], chosen: Chosen) -> dict:
    words = {"label": t(lang, f"control.{name}"), "info": t(lang, f"control.{name}_info")}
    return words | {"choices": choices, "visible": chosen.method == "ngram"}


def _bar(lang: str, name: str, chosen: Chosen) -> dict:
    on = chosen.rule == "typical"
    info = t(lang, f"control.{name}_info" if on else "control.typical_only_info")
    shown = on or chosen.method != "ngram"  # the controls of n-gram lookup stand in their place
    return {"label": t(lang, f"control.{name}"), "info": info, "interactive": on, "visible": shown}


def pair_choices(lang: str) -> list[tuple[str, str]]:
    """The pairs as (label, name): those of the catalogue, then those with heads that were trained here, the newest first."""
    known = {entry.name: entry.label for entry in ENTRIES}
    trained = [(_own_name(lang, known, one), one.name) for one in own.every() if one.usable and one.pair in known]
    return [*((label, name) for name, label in known.items()), *trained]


def _own_name(lang: str, known: dict[str, str], one: own.Own) -> str:
    return t(lang, "control.pair_own", when=one.started.astimezone().strftime("%m-%d %H:%M"), pair=known[one.pair])


def tab_names(tabs: Sequence[str]) -> dict[str, dict[str, str]]:
    """The labels of the tabs, and of their list, by language and name."""
    keys = {name: f"tab_{name}" for name in (*tabs, "list")}
    return {lang: {name: t(lang, f"control.{key}") for name, key in keys.items()} for lang in LANGUAGES}


def tooltips() -> dict[str, dict[str, str]]:
    """Explanations of the buttons, which have no place for one, by language and id: the page sets them as titles."""
    return {lang: {name: t(lang, f"control.{name}_info") for name in ("run", "stop", "theme", "help", "more")} for lang in LANGUAGES}
