"""The log of a training run as a picture: losses, and what the held-out conversations said."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from specviz.models.files import write_text
from specviz.training.loop import CURVES, Entry, names_of, read_log

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
STYLE: Any = {"svg.hashsalt": "specviz", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def draw(folder: Path) -> Path:
    """Write curves.svg from the run's log, and return its path; the same log gives the same bytes. Raises OSError."""
    entries = read_log(folder)
    looked = [entry for entry in entries if entry.held_out]
    picture = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.4), layout="constrained")  # no pyplot: it has one state for all threads
        left, right = figure.subplots(1, 2)
        _lines("loss", left, entries, {name: [entry.losses.get(name) for entry in entries] for name in names_of(entries)})
        left.set(xlabel="tokens learned from", ylabel="loss, nats", title="Training")
        _lines("held-out", right, looked, _held_out(looked))
        right.set(xlabel="tokens learned from", title="Held-out conversations")
        figure.savefig(picture, format="svg", metadata={"Date": None})
    write_text(picture.getvalue(), folder / CURVES)
    return folder / CURVES


def _held_out(entries: Sequence[Entry]) -> dict[str, list[float | None]]:
    """Top-1 accuracy of every head, and every single number that a task looks at."""
    found: dict[str, list[float | None]] = {}
    for entry in entries:
        figures = dict(entry.held_out or {})
        heads = figures.pop("text_accuracies", [])
        for name, value in [*((f"head {k}, top 1", row[0]) for k, row in enumerate(heads, start=1)), *figures.items()]:
            found.setdefault(name, []).append(value)
    return found


def _lines(kind: str, axes: Axes, entries: Sequence[Entry], columns: dict[str, list[float | None]]) -> None:
    """A line a column over the tokens, each with a marker where it has a single point and would not be seen."""
    for i, (name, values) in enumerate(columns.items()):
        points = [(entry.tokens, value) for entry, value in zip(entries, values, strict=True) if value is not None]
        across, up = [at for at, _ in points], [value for _, value in points]
        style: dict[str, Any] = {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": DASHES[i % len(DASHES)],
            "marker": "o" if len(points) == 1 else None,
        }
        axes.plot(across, up, label=name, linewidth=1.3, gid=f"{kind}-{i}", **style)
    if columns:
        axes.legend(frameon=False, fontsize=8)
