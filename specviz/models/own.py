"""Heads that were trained on this machine, as pairs: "embedded+20261130-123456" is the pair "embedded" with the heads of that run.

A run of quick training lies in a folder of its name below the cache folder; a pair has that very name.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from specviz.models.embedded import cache_folder

HEADS = "medusa.safetensors"
NAME = re.compile(r"([a-z0-9.-]+)\+(\d{8}-\d{6})")
TIME = "%Y%m%d-%H%M%S"


@dataclass(frozen=True)
class Own:
    """A run by its name; `pair` is what it was trained for, `started` its time in UTC."""

    name: str
    pair: str
    started: datetime

    @property
    def folder(self) -> Path:
        """Where it lies, or would lie."""
        return folder() / self.name

    @property
    def usable(self) -> bool:
        """Whether there are heads that can be used."""
        return (self.folder / HEADS).is_file() and (self.folder / HEADS).with_suffix(".json").is_file()


def folder() -> Path:
    """Where runs are kept."""
    return cache_folder() / "training"


def named(name: object) -> Own | None:
    """The run that is called so, whether it is there or not; None where nothing can be called so."""
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    try:
        return match and Own(match[0], match[1], datetime.strptime(match[2], TIME).replace(tzinfo=UTC))
    except ValueError:
        return None


def new(pair: str) -> Own:
    """A run for `pair` that begins now."""
    now = datetime.now(UTC).replace(microsecond=0)
    return Own(f"{pair}+{now.strftime(TIME)}", pair, now)


def every() -> list[Own]:
    """All runs that are there, the newest first."""
    found = [named(path.name) for path in folder().iterdir() if path.is_dir()] if folder().is_dir() else []
    return sorted((one for one in found if one), key=lambda one: one.started, reverse=True)


def find(name: object) -> Own | None:
    """The run called `name`, if it has heads that can be used."""
    one = named(name)
    return one if one and one.usable else None
