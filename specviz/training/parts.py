"""A corpus on the disk: what it is made of, and which conversations its parts hold."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from specviz.i18n import Fault
from specviz.models.files import write_text

SETTINGS = "settings.json"


def claim(folder: Path, settings: dict[str, object]) -> None:
    """Write what the corpus is made of beside its parts; raises Fault where the parts that are there are made of something else."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = json.loads(json.dumps(settings))
    free = ("tokens", "rows")
    there = settings_of(folder)
    if there and {**there, **{key: settings[key] for key in free if key in settings}} != settings:
        raise Fault("training.other_corpus", path=folder)
    write_text(json.dumps(settings, indent=1) + "\n", folder / SETTINGS)


def settings_of(folder: Path) -> dict[str, Any]:
    """What the corpus in `folder` is made of: its "source", "self-distilled" or "chat", and the rest; {} where there is none."""
    path = folder / SETTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def sizes_of(folder: Path) -> dict[int, int]:
    """Tokens of every conversation of a corpus, by number."""
    found: dict[int, int] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as part:
            starts = part.get_tensor("starts").tolist()
            ends = [*starts[1:], part.get_slice("tokens").get_shape()[0]]
            found |= {n: end - start for n, start, end in zip(part.get_tensor("numbers").tolist(), starts, ends, strict=True)}
    return found


def contiguous(numbers: Sequence[int]) -> int:
    """How many of 0, 1, 2, … are there before the first that is missing."""
    there = set(numbers)
    return next(i for i in range(len(there) + 1) if i not in there)
