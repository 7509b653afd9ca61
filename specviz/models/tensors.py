"""Tensors from checkpoint files, strictly: safetensors, whole or in shards with an index, and pickles of plain tensors and nothing else."""

import hashlib
import json
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.embedded import sha256

INDEX = ".safetensors.index.json"  # the end of the name of a checkpoint in shards


class Checkpoint:
    """A checkpoint: the names of its tensors at once, the tensors when they are asked for.

    Of safetensors only those that are asked for are read, of shards only the files that hold them. Raises Fault where the file, its index
    or a shard is missing, damaged, or a pickle of anything but plain tensors.
    """

    def __init__(self, path: Path):
        self.path = path
        self._pickled: dict[str, Tensor] = {}
        self._files: dict[str, Path] = {}  # by name of the tensor
        if path.name.endswith(INDEX):
            self._files = _index(path)
        elif path.suffix == ".safetensors":
            self._files = dict.fromkeys(_names(path), path)
        else:
            self._pickled = _unpickled(path)
            self._files = dict.fromkeys(self._pickled, path)

    @property
    def names(self) -> list[str]:
        """Of all tensors, in the order of the file."""
        return list(self._files)

    def read(self, names: Collection[str]) -> dict[str, Tensor]:
        """The tensors of these names."""
        if self._pickled:
            return {name: self._pickled[name] for name in names}
        found: dict[str, Tensor] = {}
        for path in self.files(names):
            found |= _some(path, [name for name in names if self._files[name] == path], self.path)
        return {name: found[name] for name in names}

    def files(self, names: Collection[str]) -> list[Path]:
        """The files that hold the tensors of these names."""
        return sorted({self._files[name] for name in names})

    def sha256(self, names: Collection[str]) -> str:
        """The hash of the files that hold these tensors."""
        return hash_of(self.files(names))


def hash_of(paths: Sequence[Path]) -> str:
    """The SHA-256 of a file; of several, that of their hashes, one a line."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """The SHA-256 of a weights file: the hub's cache already names its files by it, which saves reading gigabytes."""
    name = path.resolve().name
    return name if re.fullmatch("[0-9a-f]{64}", name) else sha256(path)


def find(path: Path, names: Sequence[str]) -> Path:
    """The file that `path` is, or the first of `names` that the folder `path` holds; raises Fault where there is none."""
    found = next((path / name for name in names if os.path.isfile(path / name)), None) if os.path.isdir(path) else path
    if found is None or not os.path.isfile(found):  # a Path would raise where it may not look
        raise Fault("error.checkpoint_missing", path=path, wanted=", ".join(names))
    return found


def take(path: Path, tensors: dict[str, Tensor], key: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """Take the tensor `key` out of `tensors`; raises Fault where it is missing, or has not this shape."""
    if key not in tensors:
        raise Fault("error.checkpoint_key_missing", path=path.name, key=key)
    tensor = tensors.pop(key)
    if shape is not None:
        check(path, key, tensor, shape)
    return tensor


def check(path: Path, key: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise Fault where a weight has not this shape, or holds no real numbers, or some that are not finite."""
    if tuple(tensor.shape) != shape:
        raise Fault("error.checkpoint_shape", path=path.name, key=key, shape=by(tensor.shape), wanted=by(shape))
    if not tensor.is_floating_point():
        raise Fault("error.checkpoint_dtype", path=path.name, key=key, dtype=str(tensor.dtype).removeprefix("torch."))
    wide = tensor.float() if tensor.element_size() == 1 else tensor  # torch cannot tell it of every type of eight bits
    if not bool(torch.isfinite(wide).all()):
        raise Fault("error.checkpoint_not_finite", path=path.name, key=key[:80])


def by(shape: Sequence[int]) -> str:
    """A shape in words: 4096×576."""
    return "×".join(map(str, shape)) or "()"


def nothing_left(path: Path, tensors: dict[str, Tensor]) -> None:
    """Raise Fault where there are tensors that nobody took."""
    if tensors:
        raise Fault("error.checkpoint_key_extra", path=path.name, key=next(iter(tensors))[:80])


def card(path: Path, required: bool = False) -> dict:
    """The JSON file beside a checkpoint; {} where there is none and none is required."""
    beside = path.with_suffix(".json")
    try:
        read = {} if beside == path else json.loads(beside.read_text(encoding="utf-8"))
        if isinstance(read, dict):
            return read
    except FileNotFoundError:
        if not required:
            return {}
    except (OSError, ValueError, RecursionError):
        pass
    raise Fault("error.checkpoint_card", path=beside.name)


def accuracies(path: Path, depths: int | None = None) -> tuple[tuple[float, ...], ...] | None:
    """accuracies[depth][rank] in the JSON file beside a checkpoint; None where it has none.

    Raises Fault where they are no shares between 0 and 1, or there are more than `depths` rows of them.
    """
    rows = card(path).get("accuracies")
    if rows is None:
        return None
    lists = isinstance(rows, list) and len(rows) > 0 and all(isinstance(row, list) and row for row in rows)
    if not lists or not all(isinstance(share, int | float) and 0 <= share <= 1 for row in rows for share in row):
        raise Fault("error.checkpoint_accuracies", path=path.with_suffix(".json").name)
    if depths is not None and len(rows) > depths:
        raise Fault("error.checkpoint_accuracies", path=path.with_suffix(".json").name)
    return tuple(tuple(map(float, row)) for row in rows)


def _names(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (OSError, SafetensorError, ValueError) as error:
        raise Fault("error.checkpoint_unreadable", path=path.name) from error


def _some(path: Path, names: list[str], whole: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            there = set(file.keys())
            if missing := [name for name in names if name not in there]:
                raise Fault("error.checkpoint_key_missing", path=whole.name, key=missing[0][:80])
            return {name: file.get_tensor(name) for name in names}
    except FileNotFoundError as error:
        raise Fault("error.checkpoint_shard", path=whole.name, shard=path.name) from error
    except (OSError, SafetensorError, RuntimeError) as error:
        raise Fault("error.checkpoint_unreadable", path=path.name) from error


def _index(path: Path) -> dict[str, Path]:
    """The shard of every tensor."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Fault("error.checkpoint_unreadable", path=path.name) from error
    plain = re.compile(r"[\w.-]+\.safetensors")  # a name in the same folder, no path to another
    if not isinstance(files, dict) or not all(isinstance(file, str) and plain.fullmatch(file) for file in files.values()):
        raise Fault("error.checkpoint_unreadable", path=path.name)
    return {name: path.parent / file for name, file in files.items()}


def _unpickled(path: Path) -> dict[str, Tensor]:
    """A pickle through torch's restricted unpickler; what it refuses, and what is no plain tensor, is refused here."""
    whole = False
    try:
        whole = _whole(path)
        with warnings.catch_warnings(action="ignore"):  # torch warns of the protocols that damaged bytes name
            raw = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a pickle is a program: what damaged ones raise has no end
        refused = whole and isinstance(error, pickle.UnpicklingError)  # sound, but with more in it
        raise Fault("error.checkpoint_pickle" if refused else "error.checkpoint_unreadable", path=path.name) from error
    if not isinstance(raw, dict) or not all(isinstance(key, str) and _plain(value) for key, value in raw.items()):
        raise Fault("error.checkpoint_pickle", path=path.name)
    return dict(raw)


def _whole(path: Path) -> bool:
    """Whether a pickle is a zip file with right checksums, at which torch does not look; raises BadZipFile where they are wrong.

    Pickles of the older format have none.
    """
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        if archive.testzip() is not None:
            raise zipfile.BadZipFile
    return True


def _plain(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and value.device.type == "cpu" and not value.is_quantized
