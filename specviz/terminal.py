"""What the commands share: the user's language, progress bars, and errors as one sentence.

Exit status 2 for bad input, 1 for everything else; a traceback only in the log, and only with SPECVIZ_DEBUG=1.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from specviz.account import printable
from specviz.i18n import LANGUAGES, Fault, t

LOG = logging.getLogger("specviz")
# Faults, and whole sections of them, that are the network's, the disk's or the machine's; and what is among them and yet the caller's.
OUTSIDE = ("embedded", "models", "serve", "cli", "training.disk_full", "training.not_finite")
BAD_INPUT = ("models.unknown", "models.not_a_model", "models.more_than_tensors", "cli.unwritable")


def language() -> str:
    """The user's language: SPECVIZ_LANG, or that of the locale; English where there are no texts in it."""
    names = (os.environ.get(name, "") for name in ("SPECVIZ_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))
    chosen = next((name for name in names if name), "en")[:2].lower()
    return chosen if chosen in LANGUAGES else "en"


LANG = language()


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """End the program with one sentence on standard error where something goes wrong."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        _end(130)
    except ValueError as error:  # Fault is one
        complain(error)
        key = getattr(error, "key", "")
        _end(1 if {key, key.split(".")[0]} & set(OUTSIDE) and key not in BAD_INPUT else 2, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has left
        _end(1)
    except Exception as error:
        complain(Fault("cli.unexpected", reason=f"{type(error).__name__}: {error}"[:300]))
        _end(1, error)


def complain(error: Exception) -> None:
    """Print the sentence of `error` in the user's language."""
    text = t(LANG, error.key, **error.values) if isinstance(error, Fault) else str(error)
    print(printable(" ".join(text.split())), file=sys.stderr)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error, gone when it is done; yields what moves it: the locale key of a stage, and how much of it is done.

    Where standard error is no terminal, each stage is a line.
    """
    if not sys.stderr.isatty():
        yield _stages_as_lines()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(stage: str, done: float) -> None:
            length = 1.0 if 0 < done < 1 else None  # a stage that only begins and ends has a bar that moves without a length
            bar.update(task, description=t(LANG, stage), completed=done, total=length)

        yield show


@contextlib.contextmanager
def amount_bar(stage: str, total: int = 0) -> Iterator[Callable[..., None]]:
    """A bar of tokens with their rate and the time that is left; yields what moves it: how many are done, and of how many if not `total`.

    The rate is that of this call: what was done before counts as done, not as fast. Where standard error is no terminal, a line a minute.
    """
    console, began = Console(stderr=True), time.monotonic()
    first: int | None = None
    told = 0.0
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[rate]}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(t(LANG, stage), total=total, rate="")

        def show(done: int, total: int = total) -> None:
            nonlocal first, told
            first, seconds = done if first is None else first, time.monotonic() - began
            rate = (done - first) / max(seconds, 1e-9)
            left = f"{max(0, total - done) / rate / 60:.0f}" if rate else "?"
            text = t(LANG, "cli.rate", done=f"{done:,}", total=f"{total:,}", rate=f"{rate:.0f}", left=left)
            bar.update(task, completed=min(done, total), total=total, rate=text)
            if not console.is_terminal and seconds - told >= 60:
                told = seconds
                print(f"{t(LANG, stage)} {text}", file=sys.stderr, flush=True)

        yield show


def _stages_as_lines() -> Callable[[str, float], None]:
    told: set[str] = set()

    def show(stage: str, done: float) -> None:
        if stage not in told:
            told.add(stage)
            print(t(LANG, stage), file=sys.stderr, flush=True)

    return show


def prepare() -> None:
    """Before a command: the log, and silence from the libraries, whose bars and warnings are not what this program says."""
    debug = os.environ.get("SPECVIZ_DEBUG") == "1"
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    LOG.setLevel(logging.INFO if debug else logging.ERROR)
    if not debug:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _end(status: int, error: Exception | None = None) -> NoReturn:
    if error is not None:
        LOG.info("the traceback:", exc_info=error)
    raise typer.Exit(status) from None
