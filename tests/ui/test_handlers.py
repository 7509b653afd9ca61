"""What the controls say and what the cheap events answer, whatever comes in."""

import itertools
import math

import pytest

from specviz.config import METHODS, RULES, DecodeConfig
from specviz.i18n import LANGUAGES, Fault, catalogue
from specviz.ui import handlers
from specviz.ui.text import NGRAMS, PRESETS, TREES, Chosen, controls, tooltips
from tests.builders import make_trace

ODD = [None, [], {}, "x" * 10_000, math.nan, -1, True, [1, 2], "<script>"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_control_has_a_name_and_an_explanation(lang: str) -> None:
    for method, rule in itertools.product(METHODS, RULES):
        words = controls(lang, Chosen(method=method, rule=rule))
        for name in handlers.RELABELLED:
            assert words[name].get("value" if name in ("run", "stop", "more") else "label"), name
            assert name in ("run", "stop", "more") or words[name]["info"], name
    assert all(tooltips()[lang].values())


@pytest.mark.parametrize(
    ("chosen", "off"),
    [
        (Chosen(method="plain"), {"k", "tree", "epsilon", "delta"}),
        (Chosen(method="medusa"), {"k", "epsilon", "delta"}),
        (Chosen(method="draft"), {"epsilon", "delta"}),
        (Chosen(method="draft", tree="3x2x1"), {"k", "epsilon", "delta"}),
        (Chosen(method="medusa", rule="typical"), {"k"}),
        (Chosen(method="ngram"), {"epsilon", "delta"}),
        (Chosen(method="ngram", rule="typical"), set()),
        (Chosen(method="ngram", tree="4x2x1x1"), {"k", "epsilon", "delta"}),
    ],
)
def test_a_control_that_does_not_apply_is_off_and_says_why(chosen: Chosen, off: set[str]) -> None:
    words = controls("en", chosen)
    assert {name for name in ("k", "tree", "epsilon", "delta") if not words[name]["interactive"]} == off
    assert all(words[name]["info"].startswith("Off: ") for name in off)


def test_typical_acceptance_says_that_it_changes_the_distribution() -> None:
    assert "Changes the distribution" in controls("en", Chosen(rule="typical"))["rule"]["info"]
    assert not any("Changes" in controls("en", Chosen(rule=rule))["rule"]["info"] for rule in RULES if rule != "typical")
    assert "argmax" in controls("en", Chosen(rule="typical", temperature=0))["rule"]["info"]


def test_controls_of_the_lookup_stand_in_place_of_those_that_no_rule_reads() -> None:
    shown = {
        chosen: {name for name, words in controls("en", chosen).items() if words.get("visible", True)} & {"ngram", "ngram_match", "epsilon"}
        for chosen in (Chosen(), Chosen(method="ngram"), Chosen(method="ngram", rule="typical"))
    }
    assert list(shown.values()) == [{"epsilon"}, {"ngram", "ngram_match"}, {"epsilon", "ngram", "ngram_match"}]


def test_every_range_on_offer_can_be_looked_up() -> None:
    found = [DecodeConfig(**handlers._lengths(text)) for text in NGRAMS]
    assert (found[0].ngram_max, found[0].ngram_min) == (DecodeConfig().ngram_max, DecodeConfig().ngram_min)
    assert all(config.ngram_min <= config.ngram_max for config in found)


@pytest.mark.parametrize("odd", [*ODD, "4", "4-", "-2", "2-4", "9" * 5000 + "-1", "٣-١x"], ids=lambda value: repr(value)[:12])
def test_a_range_that_makes_no_sense_is_a_sentence(odd: object) -> None:
    with pytest.raises(Fault, match="must be a whole number"):
        DecodeConfig(**handlers._lengths(odd))


def test_every_tree_on_offer_can_be_decoded() -> None:
    for method, trees in TREES.items():
        for tree in trees:
            DecodeConfig(method=method, tree=tree)


def test_the_language_switch_says_everything_anew() -> None:
    english, chinese = (handlers.relabel(lang, "draft", "rejection", "", 0.7, "story") for lang in LANGUAGES)
    assert len(english) == len(chinese) == len(handlers.RELABELLED)
    assert all(one != other for one, other in zip(english, chinese, strict=True))


def test_another_method_drops_a_tree_that_it_cannot_have() -> None:
    updates = dict(zip(handlers.ADAPTED, handlers.adapt("en", "draft", "rejection", "sparse:24", 0.7, None), strict=True))
    assert updates["tree"]["value"] == ""
    copied = dict(zip(handlers.ADAPTED, handlers.adapt("en", "ngram", "rejection", "sparse:24", 0.7, None), strict=True))
    assert copied["tree"]["value"] == ""
    kept = dict(zip(handlers.ADAPTED, handlers.adapt("en", "medusa", "rejection", "sparse:24", 0.7, None), strict=True))
    assert kept["tree"]["value"] == "sparse:24"


@pytest.mark.parametrize("odd", ODD, ids=lambda value: repr(value)[:12])
def test_cheap_events_answer_anything(odd: object) -> None:
    assert len(handlers.relabel(odd, odd, odd, odd, odd, odd)) == len(handlers.RELABELLED)
    assert len(handlers.adapt(odd, odd, odd, odd, odd, odd)) == len(handlers.ADAPTED)
    assert len(handlers.choose_preset(odd, odd)) == 2
    assert "error" in handlers.open_trace(odd)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_preset_fills_the_prompt_and_says_what_it_shows(lang: str) -> None:
    for preset in PRESETS:
        prompt, chips = handlers.choose_preset(lang, preset)
        assert prompt["value"] == PRESETS[preset]
        assert chips["info"] == catalogue(lang)[f"preset.{preset}_info"]


def test_a_trace_file_is_opened() -> None:
    trace = make_trace(steps=3)
    view = handlers.open_trace(trace.to_json().decode())
    assert [step["step"]["index"] for step in view["steps"]] == [0, 1, 2]
    assert handlers.open_trace("[" * 100_000)["error"]["key"] == "error.trace_json"
    assert handlers.open_trace('{"format": 99, "steps": []}')["error"]["key"] == "error.trace_format"
