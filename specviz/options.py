"""What the commands share: how an option is declared, the options that several have, and the pair that they name."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specviz.i18n import t
from specviz.terminal import LANG, progress_bar

if TYPE_CHECKING:
    from specviz.engine.lm import Pair


def option(key: str, *names: str, **more: Any) -> Any:
    """An option whose help is the text `key`."""
    return typer.Option(*names, help=t(LANG, key), **more)


def argument(key: str) -> Any:
    """An argument whose help is the text `key`."""
    return typer.Argument(help=t(LANG, key))


def application(key: str) -> typer.Typer:
    """A program, or a group of its commands, whose help is the text `key`."""
    return typer.Typer(help=t(LANG, key), no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)


PairName = Annotated[str | None, option("cli.pair", "--pair")]
Device = Annotated[str | None, option("cli.device", "--device")]
Dtype = Annotated[str | None, option("cli.dtype", "--dtype")]
HeadsPath = Annotated[Path | None, option("cli.heads_path", "--heads")]


def load_pair(
    pair: str | None,
    device: str | None,
    dtype: str | None,
    engine: str | None = None,
    parts: Path | None = None,
    heads: Path | None = None,
) -> "Pair":
    """The pair of that name, the model in that folder, or this machine's default, with a progress bar.

    The parts in the folder `parts`, or the Medusa heads at `heads`, take the place of its own.
    """
    from specviz.models import load
    from specviz.models.catalog import NAMES
    from specviz.models.hub import default_name

    given = load.trained_in(parts) if heads is None else load.heads_at(heads)
    with progress_bar() as show:
        if pair and pair not in NAMES and Path(pair).is_dir():
            show("models.loading", 0.0)
            return load.load_local(pair, given.draft, given.medusa, device, dtype, Path(pair).name, engine, given.adapter)
        return load.load(pair or default_name(), device, dtype, show, engine, given)
