"""`train heads` (a whole run, Ctrl-C and the same command again, what is refused) and `--heads`, over a tiny pair."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from specviz.cli import app
from specviz.models import load as loading
from specviz.trace import Trace
from specviz.training import quick
from specviz.training.corpus import Settings, write
from specviz.training.status import Status, read
from specviz.ui import build
from tests.models.test_given_heads import LAYOUTS, TOKEN, write_heads
from tests.models.test_given_heads import models as models  # a fixture
from tests.models.test_given_heads import stand_in as stand_in  # a fixture
from tests.models.tiny import write_pair
from tests.test_cli import PEAKS

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks transformers for it


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


@pytest.fixture
def decoded(tiny, monkeypatch):
    """Decodes with the tiny model and returns the trace."""
    monkeypatch.setattr("specviz.analysis.hardware.peaks", lambda device, dtype: PEAKS)
    fixed = ("--prompt", "Hello there", "--max-new-tokens", "16", "--no-baseline", "--json", "--device", "cpu", "--dtype", "float32")

    def decode(*arguments: object) -> Trace:
        result = CliRunner().invoke(app, ["run", *fixed, "--pair", str(tiny), *map(str, arguments)])
        assert result.exit_code == 0, result.output
        return Trace.from_json(result.stdout)

    return decode


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_decode_proposes_what_these_heads_say(decoded, tiny, tmp_path, name):
    folder = write_heads(tmp_path / "mine", name, tiny)
    for place in (folder, folder / name):
        trace = decoded("--heads", place, "--tree", "1x1")
        assert (trace.header.config.method, trace.header.proposer.name) == ("medusa", f"mine/{Path(name).stem}")
        assert {node.token_id for step in trace.steps for node in step.tree[1:]} == {TOKEN}
        assert trace.token_ids == decoded("--method", "plain").token_ids
    assert decoded("--heads", folder, "--method", "ngram").header.config.method == "ngram"


@pytest.mark.parametrize("where", ["nowhere", "empty", "damaged.pt", "narrow.pt"])
def test_heads_that_cannot_be_used_are_one_sentence_for_a_run_and_for_the_page(stand_in, tmp_path, monkeypatch, where):
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged.pt").write_bytes(b"PK damaged")
    torch.save({"0.0.linear.weight": torch.zeros(16, 16), "0.0.linear.bias": torch.zeros(16)}, tmp_path / "narrow.pt")
    monkeypatch.setattr(build, "serve", lambda *given: pytest.fail("the page is shown"))
    for command in (["run", "--prompt", "Hello"], ["serve"]):
        result = CliRunner().invoke(app, [*command, "--pair", "embedded", "--heads", str(tmp_path / where)])
        said = result.stderr.splitlines()
        assert result.exit_code == 2 and where in said[-1] and said[-1].endswith(".") and "Traceback" not in result.output


def test_the_page_shows_a_pair_with_these_heads(stand_in, monkeypatch):
    served = []
    monkeypatch.setattr(build, "serve", lambda host, port, pair: served.append((pair, loading.load(pair))))
    result = CliRunner().invoke(app, ["serve", "--pair", "embedded", "--heads", str(stand_in / "other2")])
    assert result.exit_code == 0, result.output
    told = "The pair embedded is shown with the heads other2/medusa on the target SmolLM2-135M-Instruct + other2.\n"
    assert result.stdout == told
    [(name, pair)] = served
    assert (name, pair.medusa.info.name, pair.target.info.name) == ("embedded", "other2/medusa", "SmolLM2-135M-Instruct + other2")


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_public_heads_are_calibrated_where_they_lie(tiny, tmp_path, name):
    heads, texts = write_heads(tmp_path / "public", name, tiny), tmp_path / "texts"
    write(loading.load_local(tiny, device="cpu", dtype="float32"), Settings(tokens=1500, rows=4), texts)
    result = CliRunner().invoke(app, ["train", "calibrate", "--pair", str(tiny), "--corpus", str(texts), "--out", str(heads)])
    assert result.exit_code == 0, result.output
    target = loading.load_local(tiny, medusa=heads, device="cpu", dtype="float32")
    assert len(target.medusa.accuracies) == 2, "they are not beside the heads"
