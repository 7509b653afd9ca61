"""A training run on the terminal: what it says while it works, and how it is interrupted."""

import contextlib
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from specviz.i18n import Fault, t
from specviz.terminal import LANG, complain

if TYPE_CHECKING:
    from specviz.training.loop import Entry


def follow(entries: "Iterator[Entry]", folder: Path) -> None:
    """A training run on the terminal: one line each entry."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    with resumable(folder), contextlib.closing(cast("Generator[Entry]", entries)):
        for entry in entries:
            minutes, seconds = divmod(int(entry.seconds), 60)
            losses = "  ".join(f"{name} {value:.3f}" for name, value in entry.losses.items())
            left = entry.seconds / entry.done * (1 - entry.done) / 60 if entry.done else 0.0
            facts = {"done": f"{100 * entry.done:.0f}", "time": f"{minutes}:{seconds:02d}", "left": f"{left:.0f}"}
            console.print(t(LANG, "cli.training", **facts, rate=f"{entry.tokens / max(entry.seconds, 1e-9):.0f}", losses=losses))
            if entry.held_out:
                console.print(t(LANG, "cli.held_out", figures=_figures(entry.held_out)))
    console.print(t(LANG, "cli.saved", path=folder))


def _figures(held_out: dict[str, Any]) -> str:
    figures = dict(held_out)
    tops = [f"{row[0]:.3f}/{sum(row[:5]):.3f}" for row in figures.pop("text_accuracies", [])]
    return "  ".join([f"{name} {value:.4f}" for name, value in figures.items()] + (["top-1/top-5", *tops] if tops else []))


@contextlib.contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on where the work is interrupted, or the program is asked to end."""
    with signals(signal.default_int_handler):
        try:
            yield
        except KeyboardInterrupt:
            complain(Fault("training.interrupted", path=folder))
            raise


@contextlib.contextmanager
def signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """`handler` for Ctrl-C and for a request to end, also where whoever started us had told us to ignore them."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def ask(stop: threading.Event) -> None:
    """The first time it is a request, which leaves time to save; the second time it is meant."""
    if stop.is_set():
        raise KeyboardInterrupt
    stop.set()
