"""Warping, drawing, divergence: known numbers, edges, and agreement with transformers."""

import math

import pytest
import torch
from scipy.stats import chisquare
from transformers import RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specviz.config import DecodeConfig
from specviz.engine.divergence import entropy, kl, total_variation
from specviz.engine.sampling import draw, draw_without_replacement, fit, warp
from specviz.i18n import Fault

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(5, 300, generator=GENERATOR) * 3
TEXT = [3, 5, 5, 7]
PATHS = [[], [1], [1, 2], [9], [3]]


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "penalty"), [(1, 0, 1, 1), (0.5, 0, 1, 1), (1, 20, 1, 1), (1, 0, 0.8, 1), (0.7, 50, 0.9, 1.3)]
)
def test_warping_agrees_with_transformers(temperature: float, top_k: int, top_p: float, penalty: float) -> None:
    config = DecodeConfig(temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=penalty)
    ours = warp(LOGITS, config, TEXT, PATHS)
    for row, (logits, path) in enumerate(zip(LOGITS, PATHS, strict=True)):
        ids, scores = torch.tensor([TEXT + path]), logits[None].clone()
        processors = [RepetitionPenaltyLogitsProcessor(penalty)] if penalty != 1 else []
        processors += [TemperatureLogitsWarper(float(temperature))] if temperature != 1 else []
        processors += [TopKLogitsWarper(top_k)] if top_k else []
        processors += [TopPLogitsWarper(top_p)] if top_p < 1 else []
        for processor in processors:
            scores = processor(ids, scores)
        torch.testing.assert_close(ours[row], scores.softmax(-1)[0], atol=1e-6, rtol=1e-5)


def test_a_wide_nucleus_sorts_the_whole_vocabulary() -> None:
    flat = torch.zeros(1, 5000)
    assert int((warp(flat, DecodeConfig(temperature=1.0, top_p=0.9), [], [[]]) > 0).sum()) == 4500


def test_numbers_that_are_not_finite_are_a_fault() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(Fault):
            warp(torch.tensor([[0.0, bad]]), DecodeConfig(), [], [[]])


def test_a_draw_is_the_inverse_cdf_and_never_a_token_of_probability_zero() -> None:
    p = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]])
    for u, wanted in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.999999999, 3), (1.0, 3)):
        assert int(draw(p, torch.tensor([u], dtype=torch.float64))) == wanted


def test_drawing_without_replacement_has_the_right_law() -> None:
    q = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    counts = {}
    for _ in range(20_000):
        pair = tuple(draw_without_replacement(q, 2, generator)[0])
        counts[pair] = counts.get(pair, 0) + 1
    expected = {(a, b): float(q[0, a] * q[0, b] / (1 - q[0, a])) for a in range(3) for b in range(3) if a != b}
    assert set(counts) == set(expected)
    assert chisquare([counts[key] for key in expected], [20_000 * share for share in expected.values()]).pvalue > 1e-4
    assert sorted(draw_without_replacement(q, 9, generator)[0]) == [0, 1, 2]


def test_fit_pads_and_cuts_vocabularies() -> None:
    logits = torch.zeros(2, 100)
    assert fit(logits, 100) is logits or torch.equal(fit(logits, 100), logits)
    assert fit(logits, 96).shape == (2, 96)
    wide = fit(logits, 104)
    assert wide.shape == (2, 104) and bool((wide[:, 100:] == -math.inf).all())


def test_divergences_of_known_rows() -> None:
    p = torch.tensor([[0.9, 0.05, 0.03, 0.02], [0.4, 0.3, 0.2, 0.1], [0.25] * 4], dtype=torch.float64)
    assert entropy(p).tolist() == pytest.approx([0.4280, 1.2799, math.log(4)], abs=1e-4)
    q = torch.tensor([[0.1, 0.2, 0.4, 0.3]] * 3, dtype=torch.float64)
    assert total_variation(p, q).tolist() == pytest.approx([0.8, 0.4, 0.2], abs=1e-12)
    assert kl(p, p)[0].tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    wanted = sum(a * math.log(a / b) for a, b in zip((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.4, 0.3), strict=True))
    assert float(kl(p, q)[0][1]) == pytest.approx(wanted)


def test_kl_says_how_much_of_p_it_leaves_out() -> None:
    p, q = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64), torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
    divergence, missing = kl(p, q)
    assert float(missing) == pytest.approx(0.2)
    assert float(divergence) == pytest.approx(0.625 * math.log(0.625 / 0.5) + 0.375 * math.log(0.375 / 0.5))
