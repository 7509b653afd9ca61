"""A disk that does what disks do."""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from specviz.i18n import Fault
from specviz.models import files

FULL = "Error while serializing: I/O error: No space left on device (os error 28)"  # what safetensors says on a full disk


@contextlib.contextmanager
def largest(size: int) -> Iterator[None]:
    """No file may have more than `size` bytes: as close to a full disk as a test comes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(kind: str, path: Path, size: int, value: float) -> None:
    if kind == "tensors":
        files.write_tensors({"a": torch.full((size,), value)}, path, {"told": "x"})
    else:
        files.write_text(f"{value}" * size, path)


@pytest.mark.parametrize("kind", ["tensors", "text"])
def test_a_file_is_replaced_whole_or_not_at_all(kind: str, tmp_path: Path):
    path = tmp_path / "new" / "a.safetensors"
    write(kind, path, 10, 1.0)
    before = path.read_bytes()
    with largest(1000), pytest.raises(OSError) as caught:
        write(kind, path, 10_000, 2.0)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == [path.name]
    write(kind, path, 10_000, 2.0)
    assert path.stat().st_size > 10_000 and [file.name for file in path.parent.iterdir()] == [path.name]


def test_two_programs_can_write_one_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, save = tmp_path / "a.safetensors", files.save_file

    def while_the_other_writes(tensors: object, part: Path, metadata: object) -> None:
        save(tensors, part, metadata)
        monkeypatch.setattr(files, "save_file", save)
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: 1)
            write("tensors", path, 10, 1.0)

    monkeypatch.setattr(files, "save_file", while_the_other_writes)
    write("tensors", path, 10, 2.0)
    assert float(load_file(path)["a"][0]) == 2.0 and [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_safetensors_wraps_is_an_error_of_the_system_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = {FULL: errno.ENOSPC, "Error while serializing: I/O error: Permission denied (os error 13)": errno.EACCES}

    def refuse(said: str) -> None:
        def save(tensors: object, path: Path, metadata: object) -> None:
            path.write_bytes(b"half")
            raise SafetensorError(said)

        monkeypatch.setattr(files, "save_file", save)

    for text, number in said.items():
        refuse(text)
        with pytest.raises(OSError) as caught:
            files.write_tensors({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
        assert caught.value.errno == number and not list(tmp_path.iterdir())
    refuse("something else")
    with pytest.raises(SafetensorError):
        files.write_tensors({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


def test_others_may_read_what_they_may_read_of_any_file(tmp_path: Path):
    files.write_tensors({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    files.write_text("a", tmp_path / "a.json")
    assert (tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "a.json").stat().st_mode


def test_an_interrupt_leaves_no_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files.write_tensors({"a": torch.ones(3)}, tmp_path / "a.safetensors")

    def interrupt(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "save_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_tensors({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"] and load_file(tmp_path / "a.safetensors")["a"].tolist() == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("number", "key"),
    [(errno.ENOSPC, "disk_full"), (errno.EDQUOT, "disk_full"), (errno.EACCES, "unwritable"), (errno.EROFS, "unwritable")],
)
def test_a_disks_error_is_one_sentence(number: int, key: str, tmp_path: Path):
    with pytest.raises(Fault) as caught, files.writing(tmp_path):
        raise OSError(number, "why")
    assert caught.value.key == f"training.{key}" and str(tmp_path) in str(caught.value) and "why" in str(caught.value)


def test_a_folder_that_is_a_file_is_said(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(Fault, match="could not be written"), files.writing(tmp_path / "taken"):
        files.write_text("x", tmp_path / "taken" / "a.json")
