"""Divergence along the text."""

import pytest

from specviz.figures.divergence import divergence_info, divergence_points, draw_divergence
from specviz.figures.plot import FADED
from specviz.figures.view import localised
from specviz.trace import Match
from tests.builders import make_trace
from tests.figures.steps import COLD, MEDUSA, PLAIN, REJECTION, STEPS


def test_positions_follow_the_text_without_a_gap_but_for_bonus_tokens() -> None:
    trace = make_trace(12, REJECTION)
    points = divergence_info(trace.steps, trace.header).points
    kinds = {i + 1: token.kind for i, token in enumerate(trace.emitted)}
    assert [p.position for p in points] == [place for place, kind in kinds.items() if kind in ("accepted", "recovered")]
    assert all((p.outcome == "accepted") == (kinds[p.position] == "accepted") for p in points)
    assert all(p.overlap == pytest.approx(1 - p.tv) for p in points)


def test_expected_and_observed_by_hand() -> None:
    """Refused at once: one point, nothing accepted; a full chain of 5: five points, all accepted, and p = q, so 1 − TV is 1."""
    header = make_trace(0).header
    refused = divergence_info([STEPS["chain refused"][0]], header)
    assert (len(refused.points), refused.observed, refused.points[0].tested) == (1, 0, 1)
    accepted = divergence_info([STEPS["long chain"][0]], header)
    assert (len(accepted.points), accepted.observed, accepted.expected) == (32, 1, pytest.approx(1))


def test_where_q_was_copied_there_is_no_kl() -> None:
    """It would be infinite; over the copied tokens alone it is 0, which says nothing. TV stays."""
    step = STEPS["chain refused"][0].model_copy(update={"matches": (Match(start=2, length=2, node=5),)})
    info = divergence_info([step], make_trace(0).header)
    assert info.points[0].kl is None and info.points[0].tv == step.rows[0].tv
    kl, overlap = draw_divergence(info)["data"][:2]
    assert (kl["x"], overlap["x"]) == ([], [1])


def test_what_was_cut_off_is_not_shown() -> None:
    assert len(divergence_info([STEPS["cut by the budget"][0]], make_trace(0).header).points) == 2


@pytest.mark.parametrize("config", [PLAIN])
def test_plain_decoding_has_no_divergence(config) -> None:
    trace = make_trace(3, config)
    info = divergence_info(trace.steps, trace.header)
    assert info.points == ()
    assert info.expected is info.observed is None
    assert draw_divergence(info)["layout"]["annotations"][2]["text"] == ""


@pytest.mark.parametrize("config", [MEDUSA, COLD, REJECTION])
def test_the_figure_holds_every_point_once(config) -> None:
    trace = make_trace(6, config)
    info = divergence_info(trace.steps, trace.header)
    kl, overlap, accepted, refused = draw_divergence(info, current=2)["data"]
    assert kl["x"] == overlap["x"] == [p.position for p in info.points]
    assert sorted(accepted["x"] + refused["x"]) == kl["x"]
    assert kl["marker"]["opacity"] == [1 if p.step == 2 else FADED for p in info.points]
    assert kl["y"] == [point["kl"] for point in divergence_points(info)]


def test_the_summary_is_said_in_words() -> None:
    trace = make_trace(6, REJECTION)
    info = divergence_info(trace.steps, trace.header)
    text = localised(draw_divergence(info), "en")["layout"]["annotations"][2]["text"]
    assert text == f"mean {info.expected:.2g} · observed {info.observed:.2g}"
