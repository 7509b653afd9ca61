"""Training of heads, live: the loss of each head, and how often its first and its first five candidates are right on held-out texts.

Everything is read from the lines of a run's log as plain data (see training/loop.py, `Entry`). All of it is measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.figures import plot
from specviz.figures.plot import Fig, signif, signifs
from specviz.figures.text import key

MOST = 300  # points of a curve: more than a screen has room for
TOP = 5
GAP = 0.065  # of the height: between the names of two curves
_COLOURS = ("bonus", "refused", "q", "accepted", "residual", "p")
_DASHES = ("solid", "6px,2px", "2px,2px", "8px,2px,2px,2px", "10px,3px", "4px,4px")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon")
_SIGNS = "●■◆▲★⬢"  # the same in a line of text


@dataclass(frozen=True)
class TrainingInfo:
    """A run's log in columns. `losses` and `looks` hold a row for each entry: minutes, tokens, then a value for each head, in `looks` its
    top-1 and then those of top-5; None where there is none. `minutes` is how long the training lasts.
    """

    heads: int
    minutes: float | None
    losses: tuple[tuple[float | None, ...], ...]
    looks: tuple[tuple[float | None, ...], ...]

    @property
    def end(self) -> float:
        """Where the axis of time ends."""
        last = [row[0] for row in (*self.losses[-1:], *self.looks[-1:]) if row[0] is not None]
        return max([self.minutes or 0.0, *last]) or 1.0


def training_info(entries: Sequence[Mapping[str, Any]], minutes: float | None = None) -> TrainingInfo:
    """The log `entries` of heads; of a long run only MOST entries of the losses are taken, evenly, the last among them."""
    names = list(dict.fromkeys(name for entry in entries for name in entry["losses"] if name.startswith("head ")))
    told = [entry for entry in entries if entry["losses"]]
    losses = [(*_place(entry), *(_number(entry["losses"].get(name)) for name in names)) for entry in _thinned(told)]
    looks = [(*_place(entry), *_tops(entry["held_out"]["text_accuracies"])) for entry in entries if entry.get("held_out")]
    heads = len(names) or (len(looks[0]) - 2) // 2 if looks else len(names)
    return TrainingInfo(heads, minutes, tuple(losses), tuple(looks))


def _place(entry: Mapping[str, Any]) -> tuple[float, float]:
    return round(entry["seconds"] / 60, 3), entry["tokens"]


def _number(value: float | None) -> float | None:
    """JSON knows no NaN."""
    return signif(value) if value is not None and math.isfinite(value) else None


def _tops(accuracies: Sequence[Sequence[float]]) -> list[float | None]:
    first = [_number(row[0]) for row in accuracies]
    return first + [_number(sum(row[:TOP])) for row in accuracies]


def _thinned(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    step = max(1, math.ceil(len(entries) / MOST))
    return list(entries[::-1][::step][::-1])


def draw_losses(info: TrainingInfo) -> Fig:
    """Cross-entropy of each head over the minutes of training."""
    data, ends = [], []
    for k in range(info.heads):
        y = [row[2 + k] for row in info.losses]
        line = _line(info.losses, y, k, "%{y:.3f}")
        line["marker"]["size"] = [0] * (len(y) - 1) + [7]  # a sign at the end alone
        data.append(line)
        ends.append(_end(info.losses, y, k))
    known = [value for row in info.losses for value in row[2:] if value is not None] or [0.0, 1.0]
    spare = 0.06 * (max(known) - min(known)) or 0.5
    layout = _layout(info, "@train.axis_loss", ends, (min(known) - spare, max(known) + spare))
    layout["yaxis"]["tickformat"] = ".3~g"
    return {"data": data, "layout": layout}


def draw_accuracies(info: TrainingInfo) -> Fig:
    """Top-1 (filled marks, full line) and top-5 (open marks, faint line) of each head on the held-out texts."""
    data, ends = [], []
    for k in range(info.heads):
        first, five = ([row[at] for row in info.looks] for at in (2 + k, 2 + info.heads + k))
        data.append(_line(info.looks, five, k, "%{y:.1%}", TOP))
        data.append(_line(info.looks, first, k, "%{y:.1%}", 1))
        ends.append(_end(info.looks, first, k))
    most = max((value for row in info.looks for value in row[2:] if value is not None), default=1.0)
    layout = _layout(info, "@train.axis_accuracy", ends, (0.0, min(1.0, math.ceil(10 * most + 0.5) / 10)))
    layout["yaxis"]["tickformat"] = ".0%"
    return {"data": data, "layout": layout}


def _line(rows: Sequence[Sequence[Any]], y: Sequence[float | None], k: int, value: str, top: int | None = None) -> Fig:
    """The curve of head `k`: of its loss, or how often it is right within its first `top` candidates."""
    colour, symbol, opened = _COLOURS[k % len(_COLOURS)], _SYMBOLS[k % len(_SYMBOLS)], top == TOP
    name = key("train.top", k=k + 1, top=top) if top else key("train.head", k=k + 1)
    line = {"color": f"var:{colour}", "width": 1.2 if opened else 2, "dash": "dot" if opened else _DASHES[k % len(_DASHES)]}
    edge = {"color": f"var:{colour}", "width": 1.4}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": signifs([row[0] for row in rows], 6),
        "y": list(y),
        "customdata": [f"{row[1]:,}" for row in rows],
        "line": line,
        "marker": {"symbol": symbol + ("-open" if opened else ""), "size": 6, "color": f"var:{colour}", "line": edge},
        "cliponaxis": False,
        "hovertemplate": f"%{{fullData.name}}: {value}<br>%{{x:.2f}} min · %{{customdata}}<extra></extra>",
    }


def _end(rows: Sequence[Sequence[Any]], y: Sequence[float | None], k: int) -> tuple[float, float, int] | None:
    """Where the curve of head `k` ends: minutes, value, k."""
    known = [(row[0], value, k) for row, value in zip(rows, y, strict=True) if value is not None]
    return known[-1] if known else None


def _spread(ends: Sequence[tuple[float, float, int]], low: float, high: float) -> list[tuple[float, float, int]]:
    """The same places moved apart, so that no name lies on another, and none outside."""
    gap, floor, found = GAP * (high - low), low, []
    for i, (x, y, k) in enumerate(sorted(ends, key=lambda end: end[1])):
        floor = max(floor, min(y, high - gap * (len(ends) - 1 - i)))
        found.append((x, floor, k))
        floor += gap
    return found


def _layout(info: TrainingInfo, title: str, ends: Sequence[tuple[float, float, int] | None], span: tuple[float, float]) -> Fig:
    """Room on the right for the names of the curves, which stand at their ends; `span` is that of the values."""
    notes = []
    for x, y, k in _spread([end for end in ends if end], *span):
        place = {"xref": "x", "yref": "y", "x": x, "y": signif(y), "xanchor": "left", "yanchor": "middle"}
        colour, sign = _COLOURS[k % len(_COLOURS)], _SIGNS[k % len(_SIGNS)]
        notes.append(plot.note(sign, **place, xshift=8, font={"size": plot.SMALL, "color": f"var:{colour}"}))
        notes.append(plot.note(key("train.head", k=k + 1), **place, xshift=20, font={"size": plot.SMALL, "color": "var:ink"}))
    small = {"size": plot.SMALL, "color": "var:soft"}
    return plot.layout(
        (46, 64, 22, 36),
        xaxis=plot.axis(range=[0, signif(info.end)], nticks=7, title={"text": "@train.axis_minutes", "font": small, "standoff": 2}),
        yaxis=plot.axis(nticks=6, range=signifs(span)),
        annotations=[plot.note(title, yshift=3, xshift=-30), *notes],
    )


def training_tables(info: TrainingInfo) -> dict[str, dict[str, Any]]:
    """The table twins of both figures: {"losses" | "accuracies": {"columns": [title…], "rows": [[cell…]…]}}."""
    place = ["@train.column_clock", "@train.column_tokens"]
    heads = range(1, info.heads + 1)
    tops = [key("train.top", k=k, top=top) for top in (1, TOP) for k in heads]
    return {
        "losses": {"columns": [*place, *(key("train.head", k=k) for k in heads)], "rows": [list(row) for row in info.losses]},
        "accuracies": {"columns": [*place, *tops], "rows": [list(row) for row in info.looks]},
    }
