"""The figures of a training run, from the lines of its log."""

import json
import math
from itertools import pairwise

import pytest

from specviz.figures.training import GAP, MOST, draw_accuracies, draw_losses, training_info, training_tables
from specviz.i18n import catalogue


def entry(step: int, looked: bool = False, heads: int = 4) -> dict:
    """A line of a log: losses fall, shares rise, head by head lower."""
    losses = {f"head {k}": 3.0 / step + k for k in range(1, heads + 1)}
    rows = [[0.4 / k, 0.05, 0.04, 0.03, 0.02, 0.01] for k in range(1, heads + 1)]
    held_out = {"text_accuracies": rows} if looked else None
    return {"step": step, "done": step / 1000, "seconds": 6.0 * step, "tokens": 500 * step, "losses": losses, "held_out": held_out}


LOG = [entry(step, looked=step % 3 == 0) for step in range(1, 10)]


def test_the_columns_are_those_of_the_log():
    info = training_info(LOG, 2.0)
    assert (info.heads, info.end) == (4, 2.0)
    assert info.losses[0] == (0.1, 500, 4.0, 5.0, 6.0, 7.0)
    assert [row[:2] for row in info.looks] == [(0.3, 1500), (0.6, 3000), (0.9, 4500)]
    assert info.looks[0][2:] == pytest.approx((0.4, 0.2, 0.1333, 0.1, 0.54, 0.34, 0.2733, 0.24), rel=1e-3)


def test_top_five_are_five():
    [row] = training_info([entry(3, looked=True, heads=1)]).looks
    assert row[2:] == pytest.approx((0.4, 0.4 + 0.05 + 0.04 + 0.03 + 0.02))


def test_curves_and_marks_stand_where_the_numbers_are():
    info = training_info(LOG, 2.0)
    losses, shares = draw_losses(info), draw_accuracies(info)
    assert [trace["y"] for trace in losses["data"]] == [[row[2 + k] for row in info.losses] for k in range(4)]
    assert [trace["x"] for trace in losses["data"]] == [[row[0] for row in info.losses]] * 4
    opened = [trace for trace in shares["data"] if trace["marker"]["symbol"].endswith("-open")]
    full = [trace for trace in shares["data"] if trace not in opened]
    assert [trace["y"] for trace in full] == [[row[2 + k] for row in info.looks] for k in range(4)]
    assert [trace["y"] for trace in opened] == [[row[6 + k] for row in info.looks] for k in range(4)]
    assert losses["layout"]["xaxis"]["range"] == [0, 2]
    assert all(trace["marker"]["size"] == [0] * 8 + [7] for trace in losses["data"])


def test_colour_is_never_the_only_sign():
    info = training_info([entry(step, looked=True, heads=6) for step in range(1, 4)])
    losses = draw_losses(info)["data"]
    assert len({trace["line"]["dash"] for trace in losses}) == len({trace["line"]["color"] for trace in losses}) == 6
    assert len({trace["marker"]["symbol"] for trace in draw_accuracies(info)["data"]}) == 12
    names = [note["text"] for note in draw_losses(info)["layout"]["annotations"][1:]]
    assert len(names) == 12, "a curve without its sign and name at its end"


def test_names_of_curves_that_end_together_do_not_lie_on_each_other():
    equal = [entry(step, looked=True) for step in range(1, 4)]
    for one in equal:
        one["losses"] = dict.fromkeys(one["losses"], 2.0) | {"head 1": 8.0 / one["step"]}
        one["held_out"]["text_accuracies"] = [[0.0] * 6] * 3 + [[0.9] + [0.0] * 5]
    for draw in (draw_losses, draw_accuracies):
        layout = draw(training_info(equal))["layout"]
        low, high = layout["yaxis"]["range"]
        places = sorted({note["y"] for note in layout["annotations"][1:]})
        assert len(places) == 4
        assert min(b - a for a, b in pairwise(places)) >= 0.99 * GAP * (high - low)
        assert low <= places[0] and places[-1] <= high


def test_every_sentence_of_a_figure_is_in_the_catalogue():
    info = training_info(LOG)
    texts = json.dumps([draw_losses(info), draw_accuracies(info), training_tables(info)])
    keys = {word.split("|")[0].strip('"\\') for word in texts.split("@")[1:]}
    assert {key.split('"')[0].split("\\")[0] for key in keys} <= set(catalogue("en"))


def test_a_run_without_entries_is_an_empty_figure():
    info = training_info([], 3.0)
    assert (info.heads, info.end, info.losses, info.looks) == (0, 3.0, (), ())
    assert draw_losses(info)["data"] == draw_accuracies(info)["data"] == []
    assert training_tables(info)["losses"]["rows"] == []
    assert training_info([]).end == 1.0


def test_a_first_look_without_losses_still_has_its_heads():
    first = entry(3, looked=True) | {"losses": {}}
    info = training_info([first])
    assert info.heads == 4 and info.losses == () and len(draw_accuracies(info)["data"]) == 8


def test_what_is_no_number_is_left_out():
    odd = entry(2, looked=True)
    odd["losses"]["head 2"] = math.nan
    odd["held_out"]["text_accuracies"][0] = [math.nan] * 10
    info = training_info([odd])
    assert info.losses[0][3] is None and info.looks[0][2] is None and info.looks[0][6] is None
    json.dumps([draw_losses(info), draw_accuracies(info), training_tables(info)], allow_nan=False)


def test_a_long_log_is_thinned_and_keeps_its_last_entry():
    long = [entry(step) for step in range(1, 2001)]
    info = training_info(long)
    assert MOST / 2 < len(info.losses) <= MOST
    assert info.losses[-1][1] == 500 * 2000
    assert [row[0] for row in info.losses] == sorted(row[0] for row in info.losses)


def test_the_tables_hold_the_same_numbers():
    info = training_info(LOG)
    tables = training_tables(info)
    assert len(tables["losses"]["columns"]) == len(tables["losses"]["rows"][0]) == 6
    assert len(tables["accuracies"]["columns"]) == len(tables["accuracies"]["rows"][0]) == 10
    assert tables["accuracies"]["rows"] == [list(row) for row in info.looks]
