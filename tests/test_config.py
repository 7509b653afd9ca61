"""Parameters that make no sense are refused, each in one sentence, before anything runs."""

import pytest

import specviz
from specviz.config import DecodeConfig, tree_size
from tests.fakes import table_pair

BAD = [
    {"method": "magic"},
    {"rule": "vote"},
    {"method": "draft", "k": 0},
    {"k": -1},
    {"k": 2.5},
    {"k": True},
    {"k": 10_000},
    {"temperature": -0.1},
    {"temperature": float("nan")},
    {"temperature": float("inf")},
    {"temperature": "hot"},
    {"top_p": 0},
    {"top_p": 1.1},
    {"top_k": -1},
    {"repetition_penalty": 0},
    {"epsilon": -1},
    {"epsilon": 2},
    {"delta": float("nan")},
    {"max_new_tokens": 0},
    {"max_new_tokens": 10**9},
    {"seed": -1},
    {"seed": None},
    {"chat": "yes"},
    {"method": "plain", "rule": "typical"},
    {"method": "plain", "tree": "2x2"},
    {"tree": "two by two"},
    {"tree": "0x2"},
    {"tree": "99x99x99"},
    {"tree": "x".join("1" * 40)},
    {"method": "draft", "tree": "sparse:8"},
    {"method": "ngram", "tree": "sparse:8"},
    {"method": "ngram", "k": 0},
    {"ngram_max": 0},
    {"ngram_max": 99},
    {"ngram_min": 0},
    {"ngram_max": 2, "ngram_min": 3},
    {"ngram_match": "luckiest"},
    {"method": "medusa", "tree": "sparse:0"},
    {"method": "medusa", "tree": "sparse:9999"},
    {"method": ["draft"]},
]


@pytest.mark.parametrize("parameters", BAD, ids=str)
def test_nonsense_is_refused_in_one_sentence(parameters: dict) -> None:
    with pytest.raises(ValueError) as error:
        specviz.decode(table_pair(), "abc", **parameters)  # at once, not at the first step
    assert str(error.value).endswith(".") and "\n" not in str(error.value)


@pytest.mark.parametrize("prompt", ["", "   \n", "x" * 300_000])
def test_a_prompt_that_cannot_be_taken(prompt: str) -> None:
    with pytest.raises(ValueError):
        specviz.decode(table_pair(), prompt, chat=False)


def test_a_prompt_longer_than_the_context_says_how_much_fits() -> None:
    with pytest.raises(ValueError, match="50 tokens"):
        specviz.decode(table_pair(max_context=40), "a" * 50, chat=False, max_new_tokens=8)


def test_a_method_that_the_pair_cannot_serve() -> None:
    from dataclasses import replace

    pair = replace(table_pair(), draft=None, medusa=None)
    for method in ("draft", "medusa"):
        with pytest.raises(ValueError, match="toy"):
            specviz.decode(pair, "abc", method=method, chat=False)


def test_a_medusa_tree_deeper_than_the_heads() -> None:
    with pytest.raises(ValueError, match="3 Medusa heads"):
        specviz.decode(table_pair(), "abc", method="medusa", tree="1x1x1x1", chat=False)


def test_ways_to_write_a_tree() -> None:
    assert DecodeConfig(tree=[4, 2, 1]) == DecodeConfig(tree="4x2x1")
    assert DecodeConfig(tree="4x2x1").widths == (4, 2, 1)
    assert DecodeConfig(method="medusa", tree="sparse:24").sparse_size == 24
    assert DecodeConfig(tree="").tree is None
    assert tree_size((4, 2, 1)) == 4 + 8 + 8


def test_what_is_lossless_is_said_truly() -> None:
    assert DecodeConfig(rule="rejection", temperature=1).lossless
    assert DecodeConfig(rule="match", temperature=1).lossless
    assert not DecodeConfig(rule="typical", temperature=0.7).lossless
    assert DecodeConfig(rule="typical", temperature=0).lossless
