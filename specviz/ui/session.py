"""What the server knows of its visitors: who waits for the model, and who has asked to stop. Runs themselves are kept in the browser."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from specviz.i18n import Fault

LONGEST_LINE = 64


class Line:
    """The line in front of the model: one visitor at a time, in the order in which they came."""

    def __init__(self, longest: int = LONGEST_LINE):
        self._longest = longest
        self._tickets: list[object] = []
        self._moved = threading.Condition()

    @contextmanager
    def turn(self, stopped: threading.Event, tell: Callable[[int], None]) -> Iterator[None]:
        """Wait until it is our turn or `stopped` is set, telling how many are before us whenever that changes; then hold the model.

        Raises Fault when the line is full.
        """
        ticket = object()
        with self._moved:
            if len(self._tickets) > self._longest:
                raise Fault("error.waiting_room", limit=self._longest)
            self._tickets.append(ticket)
        try:
            self._wait(ticket, stopped, tell)
            yield
        finally:
            with self._moved:
                self._tickets.remove(ticket)
                self._moved.notify_all()

    def _wait(self, ticket: object, stopped: threading.Event, tell: Callable[[int], None]) -> None:
        told = 0
        while (before := self._before(ticket)) and not stopped.is_set():
            if before != told:
                tell(before)
                told = before
            with self._moved:
                self._moved.wait(0.1)  # short, because `stopped` cannot wake us

    def _before(self, ticket: object) -> int:
        with self._moved:
            return self._tickets.index(ticket)


class Stops:
    """A flag for every run in progress, by the visitor's session; gone with the run."""

    def __init__(self) -> None:
        self._flags: dict[str, set[threading.Event]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def flag(self, session: str) -> Iterator[threading.Event]:
        """The flag of a new run; it is set when the visitor stops it or leaves."""
        flag = threading.Event()
        with self._lock:
            self._flags.setdefault(session, set()).add(flag)
        try:
            yield flag
        finally:
            flag.set()
            with self._lock:
                self._flags[session].discard(flag)
                if not self._flags[session]:
                    del self._flags[session]

    def stop(self, session: str) -> None:
        """Set the flags of all runs of a visitor."""
        with self._lock:
            flags = list(self._flags.get(session, ()))
        for flag in flags:
            flag.set()
