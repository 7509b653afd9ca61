"""`train heads`: a whole run, Ctrl-C and the same command again, and what is refused, over a tiny pair."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specviz.cli import app
from specviz.models import load as loading
from specviz.training import quick
from specviz.training.status import Status, read
from tests.models.tiny import write_pair


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The folder of a tiny target."""
    return write_pair(tmp_path_factory.mktemp("models"))[0]


@pytest.fixture
def cli(monkeypatch, tiny):
    """Runs a command; every pair is the tiny one, and a minute has eight seconds."""
    pair = loading.load_local(tiny, device="cpu", dtype="float32")
    monkeypatch.setattr(loading, "load", lambda *given: pair)
    monkeypatch.setattr(Status, "budget", property(lambda run: 8 * run.minutes))
    monkeypatch.setattr(quick, "LEAST_CONVERSATIONS", 2)
    monkeypatch.setattr(quick, "LEAST_TOKENS", 50)
    return lambda *arguments: CliRunner().invoke(app, ["train", "heads", *arguments])


def test_a_run_leaves_heads_and_says_where(cli, tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    result = cli("--pair", "tiny", "--minutes", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert f"The heads are in {tmp_path}" in result.output
    assert "writing texts" in result.output and "learning" in result.output
    assert (tmp_path / "medusa.safetensors").is_file() and read(tmp_path).phase == "done"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    again = cli("--pair", "tiny", "--minutes", "1", "--out", str(tmp_path))
    assert again.exit_code == 2 and "is over" in again.output


@pytest.mark.parametrize("minutes", ["0", "0.5", "1441", "nan"])
def test_a_budget_that_is_none_is_one_sentence(cli, tmp_path, minutes):
    result = cli("--pair", "tiny", "--minutes", minutes, "--out", str(tmp_path / "run"))
    assert result.exit_code == 2 and "from 1 to 1440" in result.output and "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_written_even_where_interrupts_were_ignored(tiny, tmp_path, number):
    """As a shell starts what it puts in the background: with SIGINT ignored."""
    command = [
        sys.executable,
        "-m",
        "tests.e2e.train_tiny",
        "train",
        "heads",
        "--pair",
        "embedded",
        "--minutes",
        "10",
        "--out",
        str(tmp_path / "run"),
    ]
    environment = {**os.environ, "SPECVIZ_TINY": str(tiny), "TINY_MINUTE": "60"}
    root, ignore = Path(quick.__file__).parents[2], lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen(
        command, env=environment, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=ignore
    ) as child:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not ((told := read(tmp_path / "run")) and told.corpus.get("tokens")):
            time.sleep(0.1)
        child.send_signal(number)
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "the same command goes on from there" in said
    told = read(tmp_path / "run")
    assert (told.phase, told.at) == ("stopped", "corpus") and list((tmp_path / "run" / quick.CORPUS).glob("*.safetensors"))
