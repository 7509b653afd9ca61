"""The same law for whole runs: 20,000 tokens of every way to propose and lossless rule, against the target's own table.

Given the two tokens before it, each token must follow the target's row. Chi-square over all contexts that occur often enough; a correct
program fails a case with probability 1e-4.
"""

import itertools
from collections import Counter

import pytest
import torch
from scipy.stats import chi2

from specviz.config import DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import Decoding
from specviz.engine.sampling import warp
from tests.fakes import VOCAB, table_pair

DRAWS, FALSE_ALARM = 20_000, 1e-4
CASES = [
    {"method": "draft", "rule": "rejection", "k": 3, "top_p": 0.8, "temperature": 0.7},
    {"method": "draft", "rule": "rejection", "tree": "3x2"},
    {"method": "draft", "rule": "rejection", "tree": "[[0],[2],[0,1]]", "temperature": 0.7},
    {"method": "medusa", "rule": "rejection", "tree": "3x2"},
    {"method": "draft", "rule": "match", "tree": "2x2"},
    {"method": "ngram", "rule": "rejection", "k": 3, "ngram_max": 2, "ngram_min": 1},
    {"method": "ngram", "rule": "rejection", "tree": "3x2", "ngram_min": 1, "top_p": 0.8},
]


def _tokens(pair: Pair, case: dict, draws: int = DRAWS) -> list[list[int]]:
    runs = []
    for seed in range(draws // 100):
        config = DecodeConfig(**{"temperature": 1.0, **case, "chat": False, "max_new_tokens": 100, "seed": seed})
        rounds = Decoding(pair, [0, 1, 2], config).rounds()
        runs.append([token.token_id for done in rounds for token in done.emitted])
    return runs


def _p_value(runs: list[list[int]], rows: torch.Tensor) -> float:
    counts: Counter[tuple[int, int, int]] = Counter()
    for run in runs:
        text = [1, 2, *run]  # the last two tokens of the prompt come first
        counts.update(zip(text, text[1:], text[2:], strict=False))
    statistic, freedom = 0.0, 0
    for before, last in itertools.product(range(VOCAB), repeat=2):
        seen = [counts[before, last, x] for x in range(VOCAB)]
        row = rows[before, last]
        expected = [float(row[x]) * sum(seen) for x in range(VOCAB)]
        assert all(e > 0 or s == 0 for e, s in zip(expected, seen, strict=True)), "a token of probability 0 came out"
        large = [(s, e) for s, e in zip(seen, expected, strict=True) if e >= 5]
        rest = (sum(seen) - sum(s for s, _ in large), sum(expected) - sum(e for _, e in large))
        cells = large + ([rest] if rest[1] >= 5 else [])
        if len(cells) > 1:
            statistic += sum((s - e) ** 2 / e for s, e in cells)
            freedom += len(cells) - 1
    return float(chi2.sf(statistic, freedom))


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_sampled_text_follows_the_target(case: dict) -> None:
    pair = table_pair()
    config = DecodeConfig(**{"temperature": 1.0, **case})
    table = pair.target.table.reshape(-1, VOCAB)
    rows = warp(table, config, (), [()] * len(table)).reshape(VOCAB, VOCAB, VOCAB)
    assert _p_value(_tokens(pair, case), rows) > FALSE_ALARM


def test_typical_acceptance_is_not_lossless() -> None:
    """It changes the distribution, and this law notices: the label on the page is no formality."""
    pair = table_pair()
    rows = torch.softmax(pair.target.table, dim=-1)
    assert _p_value(_tokens(pair, {"method": "draft", "rule": "typical", "k": 3}, draws=4000), rows) < 1e-12
