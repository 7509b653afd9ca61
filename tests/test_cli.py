"""The command line, over a tiny pair: what it prints, what it saves, how it fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specviz import account, terminal
from specviz.cli import app
from specviz.config import DecodeConfig
from specviz.i18n import Fault, t
from specviz.models import embedded, hub
from specviz.models import load as loading
from specviz.trace import FORMAT, Peaks, Trace
from tests.models.tiny import write_pair, write_tokenizer

PEAKS = Peaks(device="a CPU", dtype="float32", flops=1e11, bandwidth=1e10, measured_on="2026-01-31")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    target, draft = write_pair(tmp_path_factory.mktemp("models"), target_rows=104)
    return loading.load_local(target, draft, device="cpu", dtype="float32", name="tiny")


@pytest.fixture
def cli(monkeypatch, tiny):
    """Runs a command; every pair is the tiny one."""
    monkeypatch.setattr(loading, "load", lambda name, device, dtype, progress, engine, parts=None: tiny)
    monkeypatch.setattr("specviz.analysis.hardware.peaks", lambda device, dtype: PEAKS)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_a_run_is_explained_step_by_step(cli):
    result = cli("run", "--prompt", "Hello", "--temperature", "1", "--k", "3", "--max-new-tokens", "24", "--seed", "3")
    assert result.exit_code == 0, result.output
    shown = result.output
    assert "target, proposer: draft" in shown
    assert "method draft, rule rejection, K = 3, temperature 1.0" in shown
    assert "step 1  after " in shown
    assert "min(1, " in shown and "; u = " in shown
    assert "✕" in shown and "◆" in shown
    assert "24 tokens in " in shown or "ended by: end of text" in shown
    labels = ("Tokens per step", "Acceptance rate", "accepted ÷ tested candidates (measured)", "Speed-up over plain decoding", "(computed)")
    assert all(label in shown for label in labels)


@pytest.mark.parametrize(("seed", "verdict"), [("1", "accepted"), ("2", "accepted")])
def test_greedy_says_what_the_argmax_is_and_that_p_is_shown_at_temperature_1(cli, seed, verdict):
    shown = cli("run", "--prompt", "abc", "--rule", "greedy", "--max-new-tokens", "8", "--no-baseline", "--seed", seed).output
    assert "argmax of p is" in shown
    assert "shown at temperature 1" in shown
    assert "Speed-up" not in shown


def test_the_typical_rule_says_that_it_changes_the_distribution(cli):
    typical = ("run", "--prompt", "abc", "--rule", "typical", "--max-new-tokens", "8", "--no-baseline")
    assert cli(*typical, "--temperature", "1").output.count("changes the distribution") == 2
    assert "changes the distribution" not in cli(*typical, "--temperature", "0").output


def test_a_large_tree_counts_what_was_not_tested(cli):
    shown = cli("run", "--prompt", "abc", "--tree", "8x4", "--rule", "greedy", "--max-new-tokens", "4", "--no-baseline").output
    assert "tree 8x4" in shown
    assert "candidates that were not tested" in shown


def test_a_lookup_tells_where_it_copied_from_or_that_nothing_matched(cli):
    lookup = ("run", "--method", "ngram", "--max-new-tokens", "12", "--no-baseline", "--no-chat", "--ngram-match", "earliest")
    shown = cli(*lookup, "--prompt", "tick tock tick tock tick", "--ngram-max", "3", "--ngram-min", "1", "--k", "4").output
    assert "proposer: the text itself (n-gram lookup)" in shown
    assert "K = 4, n = 3 down to 1, earliest match" in shown
    assert "copied: the 3-gram at the end of the text also stands at token 2" in shown
    assert "tree 2x2, n = 2 down to 2" in cli(*lookup, "--prompt", "abab", "--ngram-max", "2", "--tree", "2x2").output
    none = cli(*lookup, "--prompt", "abc", "--ngram-min", "4").output
    assert "No match: the 4-gram at the end of the text stands nowhere earlier" in none


def test_saved_and_printed_traces(cli, tmp_path):
    out = tmp_path / "deep" / "run.json.gz"
    result = cli("run", "--prompt", "Hello", "--max-new-tokens", "8", "--no-chat", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "Saved to" in result.output
    trace = Trace.load(out)
    assert trace.header.prompt == "Hello"
    assert trace.header.config == DecodeConfig(max_new_tokens=8, chat=False)
    assert trace.header.peaks == PEAKS
    assert len(trace.header.baseline.seconds) >= 16
    printed = cli("run", "--prompt", "Hello", "--max-new-tokens", "8", "--no-chat", "--json")
    assert Trace.from_json(printed.stdout).token_ids == trace.token_ids
    assert json.loads(printed.stdout)["format"] == FORMAT


def test_the_prompt_from_standard_input(tiny, cli):
    result = CliRunner().invoke(app, ["run", "--prompt", "-", "--max-new-tokens", "4", "--no-baseline", "--json"], input="from a pipe")
    assert Trace.from_json(result.stdout).header.prompt == "from a pipe"


def test_hostile_text_stays_text(cli, monkeypatch, tiny):
    monkeypatch.setattr(account, "explain_extra", lambda step, config: type("E", (), {"key": "app.title", "args": {}})())
    hostile = "[red]x[/red] \x1b[2J \x1b]0;title\x07 \u202eabc [link=http://x]y[/link]"
    assert account.visible(hostile) == "[red]x[/red] ␛[2J ␛]0;title␇ ⟨U+202E⟩abc [link=http://x]y[/link]"
    assert account.visible("a\r\n\tb") == "a␍↵⇥b"
    assert account.printable("👨‍👩‍👧 中文 e\u0301\n") == "👨‍👩‍👧 中文 e\u0301\n"
    result = cli("run", "--prompt", hostile, "--max-new-tokens", "4", "--no-baseline", "--method", "typ[red]")
    assert result.stderr == "The method “typ[red]” is unknown; choose one of plain, ngram, draft, medusa.\n"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--method", "eagle9"], 2, "method “eagle9” is unknown"),
        (["--k", "0"], 2, "k must be a whole number from 1"),
        (["--temperature", "-1"], 2, "temperature must be a number from 0"),
        (["--method", "plain", "--rule", "typical"], 2, "Typical acceptance judges candidates"),
        (["--method", "medusa"], 2, "has no Medusa heads"),
        (["--ngram-min", "5"], 2, "ngram_min must be a whole number from 1 to 4"),
        (["--ngram-match", "luckiest"], 2, "choose one of recent, earliest"),
        (["--prompt", "  "], 2, "prompt is empty"),
        (["--prompt", "x" * 200_001], 2, "characters; at most"),
        (["--out", "/proc/no/such/file.json"], 2, "cannot be written"),
        (["--temperature", "hot"], 2, "Invalid value for '--temperature'"),
        (["--no-such-option"], 2, "No such option"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, status, sentence):
    result = cli("run", "--prompt", "abc", *arguments)
    assert result.exit_code == status
    assert sentence in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (Fault("embedded.no_network"), 1, "no package index answered"),
        (Fault("models.unknown", name="x", choices="y"), 2, "no pair called"),
        (Fault("models.too_large", name="x", need=2, free=1, device="d"), 1, "needs 2 GB"),
        (RuntimeError("boom\nsecond line"), 1, "should not have (RuntimeError: boom second line)"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_failures_are_one_sentence_and_no_traceback(cli, monkeypatch, error, status, sentence):
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(loading, "load", fail)
    result = cli("run", "--prompt", "abc")
    assert (result.exit_code, result.stderr.count("\n")) == (status, 1 if sentence else 0)
    assert sentence in result.stderr


def test_an_interruption_keeps_what_was_decoded(cli, monkeypatch, tmp_path):
    told = []

    def interrupting(self: account.Account, step: object) -> None:
        told.append(step)
        if len(told) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(account.Account, "step", interrupting)
    result = cli("run", "--prompt", "abc", "--method", "plain", "--max-new-tokens", "9", "--no-baseline", "--out", str(tmp_path / "t.json"))
    assert result.exit_code == 0
    trace = Trace.load(tmp_path / "t.json")
    assert (len(trace.steps), trace.ended) == (2, "stopped")


def test_check_pair(cli, tmp_path):
    target, draft = write_pair(tmp_path, target_rows=104)
    fits = cli("check-pair", str(target), str(draft))
    assert (fits.exit_code, "padding ids" in fits.stdout) == (0, True)
    write_tokenizer(draft, order=-1)
    differs = cli("check-pair", str(target), str(draft))
    assert (differs.exit_code, "cannot draft" in differs.stdout) == (1, True)
    unknown = cli("check-pair", str(target), "nothing")
    assert (unknown.exit_code, "neither a pair" in unknown.stderr) == (2, True)


def test_models(cli, monkeypatch):
    monkeypatch.setattr(embedded, "cached", lambda: False)
    monkeypatch.setattr(hub, "cached", lambda part: "Qwen" in part.repo)
    monkeypatch.setattr(hub, "answers", lambda entry: "llama" in entry.name)
    monkeypatch.setattr("specviz.models.device.free_memory", lambda where: 25 * 10**9)
    result = cli("models", "--device", "cpu", "--dtype", "bfloat16")
    rows = {line.split()[0]: line.rstrip() for line in result.stdout.splitlines() if line and not line.startswith(" ")}
    assert rows["embedded"].split()[-5:] == ["fetched", "at", "the", "first", "start"]
    assert rows["qwen2.5-7b"].endswith("here")
    assert "licence to be accepted" in rows["llama-3.1-8b"]
    assert "hub does not answer" in rows["smollm2-1.7b"]
    assert "4.2" in rows["smollm2-1.7b"] and "Apache-2.0" in rows["smollm2-1.7b"] and "@ main" in rows["smollm2-1.7b"]
    monkeypatch.setattr("specviz.models.device.free_memory", lambda where: 10**9)
    assert "does not fit: 1.0 GB are free" in cli("models", "--device", "cpu").stdout
    assert cli("models", "--device", "abacus").exit_code == 2


def test_fetch(cli, monkeypatch, tmp_path):
    def fetch(progress):
        progress("embedded.downloading", 0.1)
        progress("embedded.downloading", 0.5)
        return tmp_path

    monkeypatch.setattr(embedded, "fetch", fetch)
    result = cli("fetch")
    assert str(tmp_path) in result.stdout.replace("\n", "")
    assert result.stderr == "Downloading SmolLM2-135M-Instruct (93 MB)\n"


def test_serve_opens_the_page_even_without_the_model(cli, monkeypatch):
    served = []

    def unreachable(progress: object) -> Path:
        raise Fault("embedded.no_network")

    monkeypatch.setattr(embedded, "fetch", unreachable)
    monkeypatch.setattr("specviz.ui.build.serve", lambda host, port, pair: served.append((host, port, pair)))
    result = cli("serve", "--port", "7999", "--pair", "embedded")
    assert (result.exit_code, served) == (0, [(None, 7999, "embedded")])
    assert result.stderr.splitlines() == [t("en", "embedded.no_network"), t("en", "cli.no_model_yet")]


@pytest.mark.parametrize(
    ("environment", "lang"),
    [
        ({"SPECVIZ_LANG": "zh"}, "zh"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "fr_FR"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_of_the_terminal(monkeypatch, environment, lang):
    for name in ("SPECVIZ_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert terminal.language() == lang


def test_the_real_program_in_chinese_without_loading_torch():
    code = "import sys; from specviz.cli import main\ntry: main()\nfinally: print('torch' in sys.modules)"
    environment = {**os.environ, "SPECVIZ_LANG": "zh", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, env=environment, check=False)
    assert "逐步观看" in done.stdout
    assert done.stdout.rstrip().endswith("False")
