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
    {"method": "plain", "tree": "[[0]]"},
    {"method": "medusa", "tree": "[]"},
    {"method": "medusa", "tree": "[[]]"},
    {"method": "medusa", "tree": "[[0],[0,0]"},
    {"method": "medusa", "tree": "[0,1]"},
    {"method": "medusa", "tree": "[[0],[[0]]]"},
    {"method": "medusa", "tree": "[" * 15_000},
    {"method": "medusa", "tree": "[[0]," * 900 + "[0]" + "]" * 900},
    {"method": "medusa", "tree": "[[" + "9" * 5000 + "]]"},
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


MISSHAPEN = [
    ("[[0],[0,0],[1,0]]", r"\[1, 0\] has no parent: add \[1\]"),
    ("[[0,0]]", r"\[0, 0\] has no parent"),
    ("[[0],[1],[0]]", r"names the candidate \[0\] twice"),
    ("[[-1]]", "“-1” is none"),
    ("[[0],[0.5]]", "“0.5” is none"),
    ('[[0],["1"]]', "“1” is none"),
    ("[[true]]", "“True” is none"),
    ([[0], [0, None]], "“None” is none"),
    ([[2**31]], "“2147483648” is none"),
    ([[10**5000]], "“…” is none"),
    ([10**5000], "not “…”"),
    ([[rank] for rank in range(257)], "1 to 256 candidates"),
    ([[0] * (1 + depth) for depth in range(33)], "at most 32 levels"),
    ("[[0],[0,0],[0,0,0],[0,0,0,0]]", "4 levels, and there are 3 Medusa heads"),
    ("[[0],[6]]", "rank 6, and the model has only 6 tokens"),
    ("7", "rank 6, and the model has only 6 tokens"),
]


@pytest.mark.parametrize(("tree", "sentence"), MISSHAPEN, ids=[str(place) for place in range(len(MISSHAPEN))])
def test_a_tree_that_is_none_is_refused_in_one_sentence(tree: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as error:
        specviz.decode(table_pair(), "abc", method="medusa", tree=tree, chat=False)
    assert str(error.value).endswith(".") and "\n" not in str(error.value) and len(str(error.value)) < 200


def test_a_draft_takes_ranks_and_a_sparse_tree_only_where_it_was_calibrated() -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="never calibrated"):
        specviz.decode(table_pair(), "abc", method="draft", tree="sparse:4", chat=False)
    specviz.decode(replace(table_pair(), draft_accuracies=((0.5, 0.2), (0.4, 0.1))), "abc", method="draft", tree="sparse:4", chat=False)
    with pytest.raises(ValueError, match="rank 6"):
        specviz.decode(table_pair(), "abc", method="draft", tree="[[6]]", chat=False)


# The tree that is published for Medusa on a 7B model, in the published order.
MC_SIM_7B_63 = [
    [0], [0, 0], [1], [0, 1], [2], [0, 0, 0], [1, 0], [0, 2], [3], [0, 3], [4], [0, 4], [2, 0], [0, 5], [0, 0, 1], [5], [0, 6], [6],
    [0, 7], [0, 1, 0], [1, 1], [7], [0, 8], [0, 0, 2], [3, 0], [0, 9], [8], [9], [1, 0, 0], [0, 2, 0], [1, 2], [0, 0, 3], [4, 0], [2, 1],
    [0, 0, 4], [0, 0, 5], [0, 0, 0, 0], [0, 1, 1], [0, 0, 6], [0, 3, 0], [5, 0], [1, 3], [0, 0, 7], [0, 0, 8], [0, 0, 9], [6, 0],
    [0, 4, 0], [1, 4], [7, 0], [0, 1, 2], [2, 0, 0], [3, 1], [2, 2], [8, 0], [0, 5, 0], [1, 5], [1, 0, 1], [0, 2, 1], [9, 0], [0, 6, 0],
    [0, 0, 0, 1], [1, 6], [0, 7, 0],
]  # fmt: skip


def test_a_published_tree_is_taken_in_any_order_and_spelling() -> None:
    config, tuples = DecodeConfig(method="medusa", tree=MC_SIM_7B_63), tuple(map(tuple, MC_SIM_7B_63))
    assert (len(config.choices), config.widths, config.sparse_size) == (63, None, None)
    assert [sum(len(path) == depth for path in config.choices) for depth in range(1, 5)] == [10, 28, 23, 2]
    assert config.choices == tuple(sorted(tuples, key=lambda path: (len(path), path)))
    for spelling in (MC_SIM_7B_63[::-1], tuples, str(MC_SIM_7B_63), f" {list(tuples)}\n", config.tree):
        assert DecodeConfig(method="medusa", tree=spelling) == config
    assert DecodeConfig(tree="[ (0,), (1,), (0, 0,), ]").tree == "[[0],[1],[0,0]]"


def test_what_a_tree_is_called() -> None:
    calibrated = {tree: DecodeConfig(method="medusa", tree=tree).calibrated for tree in (None, "sparse:8", "4x2", "[[0]]")}
    assert calibrated == {None: True, "sparse:8": True, "4x2": False, "[[0]]": False}
    assert not DecodeConfig(method="draft").calibrated


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
