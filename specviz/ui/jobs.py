"""Training behind the page: one run at a time, each in a process of its own, so that decoding stays quick and no reload disturbs it.

Nothing is remembered here that does not stand in the runs' folders (see training/status.py): a server that starts anew finds a run that
goes on, or one whose process is gone and that can be taken up again.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from specviz.i18n import ASSETS, Fault
from specviz.models import catalog, own
from specviz.training import status
from specviz.training.status import Status

LOG = logging.getLogger("specviz")
COMMAND = [sys.executable, "-m", "specviz", "train", "heads"]
OUTPUT, TOLD = "output.txt", "log.jsonl"  # what a run's process printed; its log (see training/loop.py)
NICE = 10  # decoding comes first
TOP = 5
Facts = dict[str, Any]

_children: dict[str, subprocess.Popen] = {}
_lock = threading.RLock()


def refusal() -> Fault | None:
    """Why nobody may train here, where that is so: a shared Space would compute for one visitor and wait with all others."""
    shared = "SPACE_ID" in os.environ and os.environ.get("SPECVIZ_TRAIN") != "1"
    return Fault("train.off_on_space") if shared else None


def start(pair: object, minutes: object) -> str:
    """Begin a run and return its name; raises Fault where the budget is none, the pair unknown, or a run is going on."""
    with _lock:
        budget = status.minutes(minutes)
        one = own.new(catalog.find(pair if isinstance(pair, str) else "").name)
        _check_free()
        _launch(one, Status(one.pair, budget, started=one.started.isoformat()))
        return one.name


def resume(name: object) -> None:
    """Go on with a run that was stopped, failed, or whose process is gone; raises Fault."""
    with _lock:
        one, told = _known(name)
        _check_free()
        if told.phase == "done":
            raise Fault("training.over", folder=one.folder)
        _launch(one, told)


def stop(name: object) -> None:
    """Ask the process of a run to end; what it has learned is kept. While it still loads there is nothing to keep."""
    with _lock:
        one, told = _known(name)
        if not going(one, told):
            return
        (one.folder / status.STOP).touch()
        child = _children.get(one.name)
        pid = child.pid if child else told.pid
        if told.phase == "loading" and pid:
            with suppress(psutil.Error):
                psutil.Process(pid).terminate()


def delete(name: object) -> None:
    """Take a run's folder away; raises Fault while it goes on, or where it cannot be."""
    with _lock:
        one, told = _known(name)
        if going(one, told):
            raise Fault("train.delete_going")
        try:
            shutil.rmtree(one.folder)
        except OSError as error:
            raise Fault("training.unwritable", path=one.folder, reason=error.strerror or error) from error


def current() -> str | None:
    """The name of the run that is going on."""
    return next((one.name for one in own.every() if (told := status.read(one.folder)) and going(one, told)), None)


def going(one: own.Own, told: Status) -> bool:
    """Whether a process works on a run. One that has just been started does not hold its lock yet; one that is done may still close."""
    if told.phase not in ("loading", *status.WORK):
        return False
    with _lock:
        child = _children.get(one.name)
        if child is not None and child.poll() is not None:
            del _children[one.name]
            _ended(one, child.returncode)
            child = None
    return child is not None or status.alive(one.folder)


def runs() -> list[Facts]:
    """Every run, the newest first, as the page shows it."""
    return [facts for one in own.every() if (facts := _facts(one))]


def log(name: str) -> list[Facts]:
    """The entries of a run's log; a line that is still being written is left out."""
    path = own.folder() / name / TOLD
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in lines]


def log_size(name: str) -> int:
    """The bytes of a run's log: whoever has seen as many has seen all of it."""
    path = own.folder() / name / TOLD
    return path.stat().st_size if path.is_file() else 0


def measured(weights: Path) -> Facts | None:
    """What was measured of the heads in a file: top-1 and top-5 of each on held-out texts, and how it was calibrated."""
    path = weights.with_suffix(".json")
    try:
        return _measured(path, path.stat().st_mtime_ns) if weights.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@lru_cache(maxsize=64)
def _measured(path: Path, changed: int) -> Facts:
    facts = json.loads(path.read_text(encoding="utf-8"))
    rows, calibrated = facts["held_out"]["text_accuracies"], facts.get("accuracies", [])
    return {
        "top1": [row[0] for row in rows],
        "top5": [round(sum(row[:TOP]), 5) for row in rows],
        "calibrated": [row[0] for row in calibrated],
        "calibration": facts.get("calibration", {}),
        "tokens": facts.get("corpus", {}).get("tokens"),
    }


def _facts(one: own.Own) -> Facts | None:
    told = status.read(one.folder)
    if told is None:
        return None
    alive = going(one, told)
    if not alive:
        told = status.read(one.folder) or told  # it may have ended between the two
    gone, asked = not alive and told.phase in ("loading", *status.WORK), (one.folder / status.STOP).exists()
    phase = ("stopped" if asked else "interrupted") if gone else told.phase
    hopeless = told.fault is not None and told.fault["key"] == "training.budget_small"
    return {
        "name": one.name,
        "pair": told.pair,
        "minutes": told.minutes,
        "started": told.started,
        "phase": phase,
        "at": told.at,
        "going": alive,
        "seconds": told.seconds,
        "corpus": told.corpus,
        "training": told.training,
        "calibrating": told.calibrating,
        "fault": told.fault and {"key": told.fault["key"], "args": told.fault["values"]},
        "stopping": alive and asked,
        "resumable": not alive and phase != "done" and not hopeless,
        "usable": not alive and one.usable,
        "measured": measured(one.folder / own.HEADS),
        "output": str(one.folder / OUTPUT),
    }


def _known(name: object) -> tuple[own.Own, Status]:
    one = own.named(name)
    told = None if one is None else status.read(one.folder)
    if one is None or told is None:
        raise Fault("train.unknown_run", name=str(name)[:60])
    return one, told


def _check_free() -> None:
    if fault := refusal():
        raise fault
    if busy := current():
        raise Fault("train.one_at_a_time", name=busy)


def _launch(one: own.Own, told: Status) -> None:
    """Start the process of a run, in our own process group: Ctrl-C on the server's terminal stops it, too, and is no loss."""
    root = str(ASSETS.parent)
    command = [*COMMAND, "--pair", told.pair, "--minutes", repr(told.minutes), "--out", str(one.folder)]
    environment = {**os.environ, "PYTHONPATH": root, "SPECVIZ_DEBUG": "1", "PYTHONUNBUFFERED": "1"}
    try:
        one.folder.mkdir(parents=True, exist_ok=True)
        told.phase, told.fault, told.pid = "loading", None, 0
        told.write(one.folder)
        (one.folder / status.STOP).unlink(missing_ok=True)
        with open(one.folder / OUTPUT, "ab") as output:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=root)
    except OSError as error:
        raise Fault("training.unwritable", path=one.folder, reason=error.strerror or error) from error
    _children[one.name] = child
    with suppress(psutil.Error, OSError, ValueError):
        psutil.Process(child.pid).nice(NICE)


def _ended(one: own.Own, code: int) -> None:
    """Keep in the log what a process said at last that ended otherwise than by itself or by being asked to."""
    if code and not (one.folder / status.STOP).exists():
        said = (one.folder / OUTPUT).read_text(encoding="utf-8", errors="replace") if (one.folder / OUTPUT).is_file() else ""
        LOG.error("training %s ended with status %s:\n%s", one.name, code, said[-4000:])
