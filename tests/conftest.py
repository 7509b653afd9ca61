"""For every test: shapes and types of tensor code are checked as it runs, and nothing asks a model hub for anything."""

import ast
import os
import threading
from functools import wraps

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

_parse, _one_at_a_time = ast.parse, threading.RLock()


@wraps(_parse)
def parse(*given: object, **options: object) -> ast.AST:
    """`ast.parse` for one thread at a time: where the garbage collector lets another one in, CPython 3.11 fails with a SystemError.

    Pytest and the import hook below parse what the threads of the page import late.
    """
    with _one_at_a_time:
        return _parse(*given, **options)


ast.parse = parse

from jaxtyping import install_import_hook

import tests.typecheck  # noqa: F401 (the hook looks it up by name)

# Before anything imports specviz; only where tensors are: bad values of users must reach our own checks.
install_import_hook(["specviz.engine", "specviz.models", "specviz.training"], "tests.typecheck.check")

import socket
from typing import TYPE_CHECKING

import pytest

import specviz

if TYPE_CHECKING:
    from specviz.engine.lm import Pair

BROWSER_REQUIRED = os.environ.get("SPECVIZ_REQUIRE_BROWSER") == "1"


@pytest.fixture(scope="session")
def embedded_pair() -> "Pair":
    """The embedded model with its draft and heads, in float32 on the CPU."""
    return specviz.load("embedded", "cpu", "float32")


@pytest.fixture(scope="session")
def reference_pair() -> "Pair":
    """The same on the reference engine, whose models are transformers' own."""
    return specviz.load("embedded", "cpu", "float32", engine="hf")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection to another machine fails the test that uses this."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            pytest.fail(f"a connection to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the embedded model; run it late and browsers last, so that the quick tests fail first."""
    for item in items:
        if {"embedded_pair", "reference_pair"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("model")
    items.sort(key=lambda item: 2 * bool(item.get_closest_marker("browser")) + bool(item.get_closest_marker("model")))


def _browser_tests(session_config: pytest.Config) -> tuple[int, int]:
    """How many browser tests ran to a verdict, and how many did not."""
    reporter = session_config.pluginmanager.get_plugin("terminalreporter")
    reports = [report for kind in ("passed", "failed", "error", "skipped", "xfailed") for report in reporter.stats.get(kind, [])]
    browser = {report.nodeid for report in reports if "browser" in getattr(report, "keywords", ())}
    skipped = {report.nodeid for report in reporter.stats.get("skipped", []) if "browser" in getattr(report, "keywords", ())}
    return len(browser - skipped), len(skipped)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in the last lines how many browser tests did not run."""
    ran, missed = _browser_tests(config)
    if ran or missed or BROWSER_REQUIRED:
        terminalreporter.write_line(f"browser tests: {ran} ran, {missed} did not run" + (" (no browser found)" if missed else ""))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where a browser is required, a run without all of its browser tests has failed."""
    ran, missed = _browser_tests(session.config)
    if BROWSER_REQUIRED and (missed or not ran) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
