"""n-gram lookup leaves the text distributed as the target's own: whole runs of it, enumerated.

The target is the toy of test_lossless_exact: three tokens out of four. After every step the lookup proposes from the text as it is then,
so a run's outcomes are followed step by step, with the probability of each, in fp64; nothing is filled with plain decoding.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator

import pytest
import torch

from specviz.config import DecodeConfig
from specviz.engine.proposers.base import Committed
from specviz.engine.proposers.ngram import NGram
from specviz.engine.rules import Evidence, judge, rejection_tests
from specviz.engine.tree import TokenTree
from tests.laws.test_lossless_exact import LENGTH, Text, V, texts_of, total_variation
from tests.laws.test_lossless_exact import target as target  # a fixture

PROMPTS = [(0, 1, 2, 0, 1, 3, 0), (1, 1, 1), (2, 3, 2, 1, 2), (0,), (3, 0, 1, 2, 3)]
CASES = [
    {"k": 2},
    {"k": 2, "ngram_match": "earliest"},
    {"k": 3, "ngram_max": 1},
    {"tree": "2x2"},
    {"tree": "3x1", "ngram_max": 1},
    {"tree": "4x2", "ngram_max": 1, "ngram_match": "earliest"},
    {"tree": "[[0],[1],[1,0]]", "ngram_max": 1},
    {"tree": "[[1],[1,0]]", "ngram_max": 1},
]
Outcome = tuple[float, Text]  # its probability, and the tokens that a step emits


def rejection(tree: TokenTree, p: torch.Tensor) -> Iterator[Outcome]:
    """Each test passes with probability p_test / q_test; the extra token comes from p or, after a refusal, from the residual."""
    tests, residuals = rejection_tests(tree, p)
    passing = [min(1.0, a / b) for a, b in tests]
    draw, residual = [-2] * len(tree), [-1] * len(tree)
    for passes in itertools.product((True, False), repeat=len(tests)):
        share, u = 1.0, [0.0]
        for chance, passed in zip(passing, passes, strict=True):
            share *= chance if passed else 1 - chance
            u.append(chance / 2 if passed else (1 + chance) / 2)
        if share == 0:
            continue
        tried = Evidence(
            tree.tokens, tree.parents, [], [], [], [0.0, *(a for a, _ in tests)], [0.0, *(b for _, b in tests)], u, draw, residual
        )
        verdict = judge("rejection", tried)
        row = residuals[verdict.stopped_at] if verdict.token_id == -1 else p[verdict.stopped_at]
        for x in range(V):
            yield share * float(row[x]), (*texts_of(tree)[verdict.stopped_at], x)


def match(tree: TokenTree, p: torch.Tensor) -> Iterator[Outcome]:
    """The target draws a token after every node that the path so far leads to; nobody may look at what it would draw elsewhere."""

    def walk(node: int, share: float, draws: dict[int, int]) -> Iterator[tuple[float, dict[int, int]]]:
        for x in range(V):
            drawn, chance = {**draws, node: x}, share * float(p[node, x])
            child = [child for child in tree.children[node] if tree.tokens[child] == x]
            yield from walk(child[0], chance, drawn) if child else [(chance, drawn)]

    for share, draws in walk(0, 1.0, {}):
        verdict = judge("match", Evidence(tree.tokens, tree.parents, [], [], [], draw=[draws.get(node, -1) for node in range(len(tree))]))
        yield share, (*texts_of(tree)[verdict.stopped_at], verdict.token_id)


def run(target: dict[Text, torch.Tensor], prompt: Text, case: dict, rule: str) -> tuple[dict[Text, float], int]:
    """Every text of LENGTH tokens with its probability, and the largest number of candidates there was."""
    config = DecodeConfig(method="ngram", **{"ngram_min": 1, **case})
    found: dict[Text, float] = defaultdict(float)
    most = 0
    open_texts: list[tuple[float, Text]] = [(1.0, ())]
    while open_texts:
        share, text = open_texts.pop()
        if len(text) == LENGTH:
            found[text] += share
            continue
        proposer = NGram(config, (), V, torch.device("cpu"))
        proposer.begin(list(prompt))
        committed = Committed([*prompt, *text], None, config, torch.Generator())
        tree = proposer.propose(committed, LENGTH - len(text) - 1).tree
        most = max(most, len(tree) - 1)
        p = torch.stack([target[(*text, *path)] for path in texts_of(tree)])
        for part, emitted in (rejection if rule == "rejection" else match)(tree, p):
            assert len(text) + len(emitted) <= LENGTH
            open_texts.append((share * part, (*text, *emitted)))
    return found, most


@pytest.mark.parametrize("rule", ["rejection", "match"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_whole_runs_of_lookup_are_lossless(target: dict[Text, torch.Tensor], case: dict, rule: str) -> None:
    proposed = 0
    for prompt in PROMPTS:
        found, most = run(target, prompt, case, rule)
        assert total_variation(found, target) < 1e-12
        proposed = max(proposed, most)
    assert proposed >= 2, "nothing was put to the test"
