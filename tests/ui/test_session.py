"""The line in front of the model, and the flags that stop a run."""

import threading
import time
from collections.abc import Callable

import pytest

from specviz.i18n import Fault
from specviz.ui.session import Line, Stops


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def test_visitors_have_the_model_in_the_order_in_which_they_came() -> None:
    line, order, told = Line(), [], {name: [] for name in "abc"}
    begin = {name: threading.Event() for name in "abc"}

    def visit(name: str) -> None:
        with line.turn(threading.Event(), told[name].append):
            order.append(name)
            begin[name].wait(5)

    threads = []
    for name in "abc":
        threads.append(threading.Thread(target=visit, args=name, daemon=True))
        threads[-1].start()
        until(lambda: len(line._tickets) == len(threads))
    until(lambda: told["c"] == [2])
    assert order == ["a"], "two visitors had the model at once"
    begin["a"].set()
    until(lambda: told["c"] == [2, 1])
    begin["b"].set()
    begin["c"].set()
    for thread in threads:
        thread.join(5)
    assert order == ["a", "b", "c"]
    assert told == {"a": [], "b": [1], "c": [2, 1]}


def test_a_stopped_visitor_leaves_the_line() -> None:
    line, stopped = Line(), threading.Event()
    stopped.set()
    with line.turn(threading.Event(), lambda before: None), line.turn(stopped, lambda before: None):
        assert len(line._tickets) == 2
    assert line._tickets == []


def test_an_error_frees_the_model() -> None:
    line = Line()
    with pytest.raises(ZeroDivisionError), line.turn(threading.Event(), lambda before: None):
        _ = 1 / 0
    assert line._tickets == []


def test_a_full_line_is_refused_in_one_sentence() -> None:
    line, stopped = Line(longest=1), threading.Event()
    stopped.set()  # so that nobody waits
    with (
        line.turn(stopped, lambda before: None),
        line.turn(stopped, lambda before: None),
        pytest.raises(Fault, match="1 runs are waiting already"),
        line.turn(stopped, lambda before: None),
    ):
        pass


def test_stop_reaches_the_runs_of_one_visitor_only() -> None:
    stops = Stops()
    with stops.flag("a") as first, stops.flag("a") as second, stops.flag("b") as other:
        stops.stop("a")
        assert first.is_set()
        assert second.is_set()
        assert not other.is_set()
        stops.stop("nobody")
    assert stops._flags == {}
    assert other.is_set(), "a run whose visitor left goes on"
