"""Times of a run against the measured baseline, and the expected tokens of the literature."""

import pytest

from specviz.analysis.speed import expected_quantity, expected_tokens, speed
from specviz.config import DecodeConfig
from specviz.i18n import t
from specviz.trace import Baseline, Seconds
from tests.builders import make_header, make_step

CONFIG = DecodeConfig(k=2)


def timed(propose: float, verify: float, commit: float, record: float, tokens: int = 3):
    step = make_step(config=CONFIG, outcome="accept", keep=tokens)
    return step.model_copy(update={"seconds": Seconds(propose=propose, verify=verify, commit=commit, record=record)})


def test_recording_is_kept_apart_from_decoding():
    measured = speed([timed(0.02, 0.05, 0.002, 1.0), timed(0.04, 0.05, 0.003, 2.0, tokens=2)])
    assert measured.decode == pytest.approx(0.165)
    assert measured.per_token == pytest.approx(0.033)
    assert measured.record == 3.0
    assert measured.shares() == pytest.approx({"propose": 0.06 / 0.165, "verify": 0.1 / 0.165, "commit": 0.005 / 0.165})


def test_speedup_is_over_the_median_plain_token():
    baseline = Baseline(seconds=(0.05, 0.06, 9.0), passes=(), token_ids=(1, 2, 3))
    assert speed([timed(0.02, 0.038, 0.002, 0.0)], baseline).speedup == pytest.approx(3.0)


def test_an_empty_run_has_no_speed():
    nothing = speed([], make_header().baseline)
    assert (nothing.per_token, nothing.speedup) == (None, None)
    assert nothing.shares() == {"propose": None, "verify": None, "commit": None}


def test_without_a_baseline_there_is_no_speedup():
    assert speed([timed(0.02, 0.05, 0.002, 0.0)]).speedup is None
    assert speed([timed(0.02, 0.05, 0.002, 0.0)], Baseline(seconds=(), passes=(), token_ids=())).speedup is None


@pytest.mark.parametrize(("alpha", "k", "tokens"), [(0.75, 7, 3.600), (0.62, 7, 2.574), (0.80, 7, 4.161), (0.82, 7, 4.420)])
def test_expected_tokens_of_published_acceptances(alpha: float, k: int, tokens: float):
    assert expected_tokens(alpha, k) == pytest.approx(tokens, abs=5e-4)


def test_expected_tokens_at_the_ends():
    assert expected_tokens(1, 5) == 6
    assert expected_tokens(0, 5) == 1
    assert expected_tokens(0.5, 0) == 1
    with pytest.raises(ValueError, match="between 0 and 1"):
        expected_tokens(1.1, 5)
    assert expected_quantity(None, 5).value is None


def test_every_figure_names_its_formula():
    figures = (*speed([]).quantities(), expected_quantity(0.5, 3))
    assert all(t(lang, key) for lang in ("en", "zh") for figure in figures for key in (figure.label, figure.formula))
    assert {figure.origin for figure in figures} == {"measured", "computed"}
