"""Files that are whole or not there: what was written before stays until its successor is complete."""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from specviz.i18n import Fault

_SYSTEM = re.compile(r"\(os error (\d+)\)")  # how safetensors tells what the system said


def write_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file, or, where the name ends in .pt, torch's pickle of the same. Raises OSError."""

    def save(part: Path) -> None:
        plain = {name: tensor.contiguous() for name, tensor in tensors.items()}
        if path.suffix == ".pt":
            torch.save(plain, part)
            return
        part.touch()
        mode = part.stat().st_mode  # what a new file may be; safetensors would make it one that only its owner can read
        save_file(plain, part, metadata)
        part.chmod(mode)

    try:
        _replace(path, save)
    except SafetensorError as error:
        if (said := _SYSTEM.search(str(error))) is None:
            raise
        raise OSError(int(said[1]), os.strerror(int(said[1])), str(path)) from error


def write_text(text: str, path: Path) -> None:
    """A text file, in UTF-8. Raises OSError."""
    _replace(path, lambda part: part.write_bytes(text.encode("utf-8")))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # two programs may write one corpus
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what a disk can do to us into a sentence."""
    try:
        yield
    except OSError as error:
        reason = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unwritable"
        raise Fault(f"training.{reason}", path=folder, reason=error.strerror or error) from error
