"""Lossless rules leave the text distributed as the target's own: proven by enumerating everything that can happen.

A toy target over four tokens, of depth two. For every tree that the proposer can make, every outcome of every test and every draw, the
probability of the tokens that come out is added up, in fp64; what is left open is filled with plain decoding. The sum must be the
target's joint distribution of three tokens, within 1e-12 in total variation.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
import torch

from specviz.engine.rules import Evidence, judge, rejection_tests
from specviz.engine.tree import TokenTree

V, LENGTH = 4, 3
Text = tuple[int, ...]


@pytest.fixture(scope="module")
def target() -> dict[Text, torch.Tensor]:
    return _table(0)


def _table(seed: int) -> dict[Text, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    texts = [text for length in range(LENGTH) for text in itertools.product(range(V), repeat=length)]
    table = {text: torch.rand(V, generator=generator, dtype=torch.float64) ** 3 + 0.01 for text in texts}
    return {text: row / row.sum() for text, row in table.items()}


def plain(target: dict[Text, torch.Tensor], start: Text) -> dict[Text, float]:
    """How plain decoding goes on from `start`."""
    texts = {start: 1.0}
    for _ in range(LENGTH - len(start)):
        texts = {(*text, x): share * float(target[text][x]) for text, share in texts.items() for x in range(V)}
    return texts


def total_variation(found: dict[Text, float], target: dict[Text, torch.Tensor]) -> float:
    wanted = plain(target, ())
    return sum(abs(found.get(text, 0) - share) for text, share in wanted.items()) / 2


def drawn_trees(draft: dict[Text, torch.Tensor], widths: Text) -> Iterator[tuple[float, TokenTree]]:
    """Every tree whose children are drawn without replacement, with its probability."""

    def orders(q: torch.Tensor, width: int) -> Iterator[tuple[float, Text]]:
        for order in itertools.permutations(range(V), width):
            share, left = 1.0, 1.0
            for x in order:
                share *= float(q[x]) / left
                left -= float(q[x])
            yield share, order

    def grow(share: float, tokens: list[int], parents: list[int], texts: list[Text], level: list[int], depth: int):
        if depth == len(widths):
            inner = sorted({parent for parent in parents if parent >= 0})
            rows = tuple(inner.index(node) if node in inner else -1 for node in range(len(tokens)))
            yield share, TokenTree(tuple(tokens), tuple(parents), torch.stack([draft[texts[node]] for node in inner]), rows, drawn=True)
            return
        for combination in itertools.product(*(list(orders(draft[texts[node]], widths[depth])) for node in level)):
            more_tokens, more_parents, more_texts, next_level, chance = list(tokens), list(parents), list(texts), [], share
            for node, (part, order) in zip(level, combination, strict=True):
                chance *= part
                for x in order:
                    next_level.append(len(more_tokens))
                    more_tokens.append(x)
                    more_parents.append(node)
                    more_texts.append((*texts[node], x))
            yield from grow(chance, more_tokens, more_parents, more_texts, next_level, depth + 1)

    yield from grow(1.0, [0], [-1], [()], [0], 0)


def chosen_tree(draft: dict[Text, torch.Tensor], widths: Text) -> TokenTree:
    """The tree of the most probable tokens."""
    tokens, parents, texts, level = [0], [-1], [()], [0]
    for width in widths:
        next_level = []
        for node in level:
            for x in draft[texts[node]].topk(width).indices.tolist():
                next_level.append(len(tokens))
                tokens.append(x)
                parents.append(node)
                texts.append((*texts[node], x))
        level = next_level
    return TokenTree(tuple(tokens), tuple(parents), q_row=(-1,) * len(tokens), drawn=False)


def texts_of(tree: TokenTree) -> list[Text]:
    return [tuple(tree.tokens[node] for node in tree.path(i)[1:]) for i in range(len(tree))]


def rejection_outcomes(tree: TokenTree, target: dict[Text, torch.Tensor], tested: Callable = rejection_tests) -> dict[Text, float]:
    """What comes out of a tree under rejection: each test passes with probability min(1, p/q), and `judge` is asked in both cases."""
    texts = texts_of(tree)
    p = torch.stack([target[text] for text in texts])
    tests, residuals = tested(tree, p)
    p_test, q_test = [0.0, *(test[0] for test in tests)], [0.0, *(test[1] for test in tests)]
    passing = [1.0] + [min(1.0, a / b) if b > 0 else 1.0 for a, b in tests]
    residual, leaf = [-1] * len(tree), [-2] * len(tree)  # tell which distribution the extra token is drawn from
    found: dict[Text, float] = defaultdict(float)
    for passes in itertools.product((True, False), repeat=len(tests)):
        share, u = 1.0, [0.0]
        for a, passed in zip(passing[1:], passes, strict=True):
            share *= a if passed else 1 - a
            u.append(a / 2 if passed else (1 + a) / 2)
        if share == 0:
            continue
        evidence = Evidence(tree.tokens, tree.parents, [], [], [], p_test, q_test, u, draw=leaf, residual_draw=residual)
        verdict = judge("rejection", evidence)
        last = verdict.stopped_at
        row = residuals[last] if verdict.token_id == -1 else p[last]
        for x in range(V):
            for text, rest in plain(target, (*texts[last], x)).items():
                found[text[:LENGTH]] += share * float(row[x]) * rest
    return found


@pytest.mark.parametrize("widths", [(1,), (2,), (3,), (1, 1), (2, 1)])
def test_rejection_with_drawn_children_is_lossless(target: dict[Text, torch.Tensor], widths: Text) -> None:
    draft = _table(1)
    found: dict[Text, float] = defaultdict(float)
    for share, tree in drawn_trees(draft, widths):
        for text, part in rejection_outcomes(tree, target).items():
            found[text] += share * part
    assert total_variation(found, target) < 1e-12


@pytest.mark.parametrize("widths", [(1,), (3,), (4,), (1, 1), (2, 2), (3, 1)])
def test_rejection_with_chosen_children_is_lossless(target: dict[Text, torch.Tensor], widths: Text) -> None:
    assert total_variation(rejection_outcomes(chosen_tree(_table(1), widths), target), target) < 1e-12


@pytest.mark.parametrize("widths", [(1,), (2,), (1, 1)])
def test_sample_and_match_is_lossless(target: dict[Text, torch.Tensor], widths: Text) -> None:
    tree = chosen_tree(_table(1), widths)
    texts = texts_of(tree)
    found: dict[Text, float] = defaultdict(float)
    for draws in itertools.product(range(V), repeat=len(tree)):
        share = 1.0
        for text, x in zip(texts, draws, strict=True):
            share *= float(target[text][x])
        verdict = judge("match", Evidence(tree.tokens, tree.parents, [], [], [], draw=draws))
        for text, rest in plain(target, (*texts[verdict.stopped_at], verdict.token_id)).items():
            found[text[:LENGTH]] += share * rest
    assert total_variation(found, target) < 1e-12


def test_a_known_example_accepts_as_often_as_published() -> None:
    """p = (.40, .35, .15, .10), q = (.10, .20, .40, .30): drawn without replacement, 1, 2, 3 children accept .55, .761, .85."""
    p, q = torch.tensor([0.40, 0.35, 0.15, 0.10], dtype=torch.float64), torch.tensor([0.10, 0.20, 0.40, 0.30], dtype=torch.float64)
    for width, wanted in ((1, 0.55), (2, 0.761), (3, 0.85)):
        accepted = 0.0
        for share, tree in drawn_trees({(): q}, (width,)):
            refused = 1.0
            for p_test, q_test in rejection_tests(tree, p.expand(len(tree), V))[0]:
                refused *= 1 - min(1.0, p_test / q_test)
            accepted += share * (1 - refused)
        assert accepted == pytest.approx(wanted, abs=5e-4)


def test_resampling_from_p_instead_of_the_residual_would_be_seen(target: dict[Text, torch.Tensor]) -> None:
    """The law has teeth: the classic mistake is far outside its tolerance."""

    def wrong(tree: TokenTree, p: torch.Tensor) -> tuple:
        tests, residuals = rejection_tests(tree, p)
        return tests, {node: p[node] for node in residuals}

    assert total_variation(rejection_outcomes(chosen_tree(_table(1), (2,)), target, wrong), target) > 0.01
