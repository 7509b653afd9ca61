"""What a run of quick training is doing, told through its folder: the process that works writes it, any other may read it.

A run is alive while a process holds the lock of its folder: the system lets go of it however that process ends, and no number of a
process that somebody else has got since is taken for it.
"""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from specviz.i18n import Fault

Phase = Literal["loading", "corpus", "training", "calibrating", "done", "stopped", "failed"]
WORK: tuple[Phase, ...] = ("corpus", "training", "calibrating")  # the phases that the budget pays for, in order
SHARES = {"corpus": 0.75, "training": 0.17, "calibrating": 0.08}  # of the budget (see quick.py)
FILE, LOCK, STOP = "status.json", "run.lock", "stop"
LEAST, MOST = 1.0, 1440.0  # minutes
PATIENCE = 2.0  # seconds to wait for a lock: a reader who looks whether a run is alive holds it for a moment
LOG = logging.getLogger("specviz")


@dataclass
class Status:
    """A run of `minutes` for the pair called `pair`. `seconds` are those of the budget that are used up, in all sittings; loading models
    does not count. `at` is the phase of WORK that was reached; the three after it hold what was measured in each.
    """

    pair: str
    minutes: float
    phase: Phase = "loading"
    at: Phase = "corpus"
    seconds: float = 0.0
    started: str = ""  # ISO 8601, UTC
    pid: int = 0
    corpus: dict[str, float] = field(default_factory=dict)  # rows, tokens, seconds, conversations
    training: dict[str, float] = field(default_factory=dict)  # minutes, tokens, seconds, done
    calibrating: dict[str, float] = field(default_factory=dict)  # prompts, length, done
    fault: dict[str, Any] | None = None  # the key and the values of a Fault

    @property
    def budget(self) -> float:
        """Seconds."""
        return 60 * self.minutes

    def write(self, folder: Path) -> None:
        """Write status.json, whole or not at all; raises OSError."""
        part = folder / f"{FILE}.part"
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        part.replace(folder / FILE)


def read(folder: Path) -> Status | None:
    """What the run in `folder` says of itself; None where there is none, or what is there cannot be read."""
    try:
        return Status(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def alive(folder: Path) -> bool:
    """Whether a process is working on the run in `folder`."""
    if not (folder / LOCK).exists():
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True


def minutes(value: object) -> float:
    """A budget in minutes, from what somebody typed; raises Fault."""
    try:
        number = float(str(value).strip())
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not LEAST <= number <= MOST:
        raise Fault("training.minutes", value=str(value)[:20], least=f"{LEAST:g}", most=f"{MOST:g}")
    return number


@contextlib.contextmanager
def sitting(folder: Path, pair: str, budget: float) -> Iterator[Status]:
    """Work on the run in `folder`, a new one or one that was interrupted; how the block ends is written into its status.

    Raises Fault when another process works on it, when it is a run of another pair or budget or is over, or when the folder cannot be
    written.
    """
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / LOCK, timeout=PATIENCE))
            status = _begun(folder, pair, budget)
        except Timeout as error:
            raise Fault("training.busy", folder=folder) from error
        except OSError as error:
            raise Fault("training.unwritable", path=folder, reason=error.strerror or error) from error
        yield held.enter_context(_told(folder, status))


def _begun(folder: Path, pair: str, budget: float) -> Status:
    status = read(folder) or Status(pair, budget, started=datetime.now(UTC).isoformat(timespec="seconds"))
    if (status.pair, status.minutes) != (pair, budget):
        raise Fault("training.other_run", folder=folder)
    if status.phase == "done":
        raise Fault("training.over", folder=folder)
    status.phase, status.fault, status.pid = "loading", None, os.getpid()
    (folder / STOP).unlink(missing_ok=True)
    status.write(folder)
    return status


@contextlib.contextmanager
def _told(folder: Path, status: Status) -> Iterator[Status]:
    try:
        yield status
    except KeyboardInterrupt:
        status.phase = "stopped"
        raise
    except Fault as fault:
        status.phase, status.fault = "failed", {"key": fault.key, "values": fault.values}
        raise
    except Exception as error:
        LOG.info("training failed", exc_info=True)
        reason = f"{type(error).__name__}: {error}"[:300]
        status.phase, status.fault = "failed", {"key": "training.unexpected", "values": {"reason": reason}}
        raise
    finally:
        with contextlib.suppress(OSError):  # the disk may be full; who reads the status sees that the process is gone
            status.write(folder)


class Pulse:
    """Lets something happen at most every `seconds`."""

    def __init__(self, seconds: float):
        self.seconds, self.last = seconds, -math.inf

    def due(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True
