"""A draft's tree that names ranks leaves the text distributed as the target's own: whole runs with the real proposer, enumerated.

The toy of test_lossless_exact is the target; the draft is a table over the same four tokens. Such candidates are chosen, not drawn, so
each is tested as if its q were 1, at any temperature; ranks that are left out change what is proposed, and nothing else.
"""

from collections import defaultdict
from dataclasses import replace

import pytest
import torch

import specviz
from specviz.config import DecodeConfig
from specviz.engine.loop import Decoding, proposer_of
from specviz.engine.proposers.base import Committed
from specviz.engine.tree import TokenTree, expected_tokens, sparse_shape
from tests.fakes import TableLM, table_pair
from tests.laws.test_lossless_exact import LENGTH, Text, V, texts_of, total_variation
from tests.laws.test_lossless_exact import target as target  # a fixture
from tests.laws.test_lossless_ngram import match, rejection

PROMPT = (1, 2)
TREES = ["[[0]]", "[[2]]", "[[0],[1],[0,0]]", "[[1],[3],[1,2],[3,0]]", "[[0],[2],[0,0],[0,3],[2,1]]", "[[0],[1],[2],[3]]"]


def draft_run(target: dict[Text, torch.Tensor], config: DecodeConfig) -> tuple[dict[Text, float], int]:
    """Every text of LENGTH tokens with its probability, and the largest number of candidates there was."""
    pair = replace(table_pair(), target=TableLM(1, vocab=V), draft=TableLM(2, vocab=V))
    found: dict[Text, float] = defaultdict(float)
    most, open_texts = 0, [(1.0, ())]
    while open_texts:
        share, text = open_texts.pop()
        if len(text) == LENGTH:
            found[text] += share
            continue
        tree = propose(pair, config, [*PROMPT, *text], LENGTH - len(text) - 1)
        most = max(most, len(tree) - 1)
        p = torch.stack([target[(*text, *path)] for path in texts_of(tree)])
        for part, emitted in (rejection if config.rule == "rejection" else match)(tree, p):
            open_texts.append((share * part, (*text, *emitted)))
    return found, most


def propose(pair: specviz.engine.lm.Pair, config: DecodeConfig, ids: list[int], depth: int) -> TokenTree:
    proposer = proposer_of(pair, config)
    proposer.begin(ids)
    return proposer.propose(Committed(ids, None, config, torch.Generator().manual_seed(0)), depth).tree


@pytest.mark.parametrize("rule", ["rejection", "match"])
@pytest.mark.parametrize("tree", TREES)
def test_whole_runs_of_named_ranks_are_lossless(target: dict[Text, torch.Tensor], tree: str, rule: str) -> None:
    config = DecodeConfig(method="draft", rule=rule, tree=tree, temperature=1.0)
    found, most = draft_run(target, config)
    assert total_variation(found, target) < 1e-12
    assert most == len(config.choices)


@pytest.mark.parametrize("tree", [*TREES, "3x2x1", "4x2"])
def test_the_candidates_are_the_draft_s_tokens_of_those_ranks(tree: str) -> None:
    """By hand: every candidate is the token of its rank in the draft's row behind its own path."""
    pair, ids = replace(table_pair(), draft=TableLM(2, vocab=V), target=TableLM(1, vocab=V)), [1, 2, 0, 3]
    config = DecodeConfig(method="draft", rule="match", tree=tree, temperature=1.0)
    found = propose(pair, config, ids, 9)
    texts = {()} | {tuple(found.text(node)) for node in range(1, len(found))}
    shape = config.choices or sorted(_full(config.widths), key=lambda path: (len(path), path))
    wanted = {(): ()}
    for path in shape:
        above = wanted[path[:-1]]
        order = pair.draft.logits_after([*ids, *above]).argsort(descending=True).tolist()
        wanted[path] = (*above, order[path[-1]])
    assert texts == set(wanted.values()) and len(found) == len(shape) + 1
    for node in range(len(found)):
        q = found.q_after(node)
        assert (q is not None) == bool(found.children[node])
        if q is not None:
            torch.testing.assert_close(q, pair.draft.logits_after([*ids, *found.text(node)]).softmax(-1))


def _full(widths: tuple[int, ...]) -> set[tuple[int, ...]]:
    level, found = [()], set()
    for width in widths:
        level = [(*path, rank) for path in level for rank in range(width)]
        found |= set(level)
    return found


def test_only_candidates_with_children_cost_a_pass() -> None:
    config = DecodeConfig(method="draft", rule="greedy", tree="[[0],[1],[2],[3],[1,0],[1,0,0]]", chat=False, max_new_tokens=24)
    for done in list(Decoding(table_pair(), [0, 1, 2], config).rounds())[2:-3]:
        fed = [work.tokens for work in done.passes if work.kind == "draft"]
        assert len(fed) == 3 and fed[1:] == [1, 1], "what was not seen yet, then one candidate of each level"


def test_a_calibrated_tree_of_a_draft_is_the_one_of_its_accuracies() -> None:
    accuracies = ((0.6, 0.2, 0.1), (0.5, 0.1), (0.4, 0.05))
    pair = replace(table_pair(), draft_accuracies=accuracies)
    shape = sparse_shape(accuracies, 7)
    trees = {}
    for tree in ("sparse:7", str([list(path) for path in shape])):
        config = DecodeConfig(method="draft", tree=tree, temperature=1.0, chat=False)
        trees[tree] = propose(pair, config, [1, 2, 3], 9)
    calibrated, named = trees.values()
    assert (calibrated.tokens, calibrated.parents, calibrated.drawn) == (named.tokens, named.parents, False)
    assert len(calibrated) == 8 and expected_tokens(shape, accuracies) > 1.9


def test_a_draft_that_excludes_a_token_proposes_nothing_in_its_place() -> None:
    """top-k 2 leaves two tokens: ranks 2 and 3 are nobody, and neither is what would stand below them."""
    config = DecodeConfig(method="draft", tree="[[0],[2],[3],[2,0],[0,1]]", temperature=1.0, top_k=2, chat=False)
    tree = propose(table_pair(), config, [1, 2, 3], 9)
    assert tree.parents == (-1, 0, 1)
    nobody = propose(table_pair(), replace(config, tree="[[5]]"), [1, 2, 3], 9)
    assert nobody.parents == (-1,)
    rounds = list(Decoding(table_pair(), [1, 2, 3], replace(config, tree="[[5]]", max_new_tokens=8)).rounds())
    assert [len(done.emitted) for done in rounds] == [1] * 8
