"""The training commands, from a folder with a tiny model to parts that the program loads: what they print, and how they fail."""

import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from specviz.cli import app
from specviz.cli_train import SHIPPED
from specviz.i18n import t
from specviz.models import load as loading
from specviz.models.checkpoints import load_draft, load_medusa
from specviz.training import corpus as corpora
from specviz.training import loop, medusa
from tests.models.tiny import write_llama, write_pair, write_tokenizer
from tests.training.test_chat import CHAT_LINES

SMALL = ("--batch", "512", "--epochs", "1")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Tiny products are quickest on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the hub's format: what --pair names here."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    write_llama(folder, rows=100, layers=4)
    return folder


def cli(*arguments: object):
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


@pytest.fixture(scope="module")
def texts(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    done = cli("corpus", "--tokens", 4000, "--rows", 16, "--pair", model, "--out", folder)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Saved to {folder}.\n"
    return folder


def target_of(model: Path):
    return loading.load_local(model, device="cpu", dtype="float32", engine="hf").target.model


def test_a_corpus_is_written_once_and_grows(model: Path, texts: Path):
    before = {path.name: path.read_bytes() for path in texts.iterdir()}
    assert cli("corpus", "--tokens", 4000, "--rows", 16, "--pair", model, "--out", texts).exit_code == 0
    assert {path.name: path.read_bytes() for path in texts.iterdir()} == before
    other = cli("corpus", "--tokens", 4000, "--seed", 5, "--pair", model, "--out", texts)
    assert (other.exit_code, "holds another corpus" in other.stderr) == (2, True)


def test_a_draft(model: Path, texts: Path, tmp_path: Path):
    done = cli("draft", "--pair", model, "--corpus", texts, "--out", tmp_path, "--layers", "0,3", "--vocabulary", 80, *SMALL)
    assert done.exit_code == 0, done.output
    assert "100 %" in done.stdout and "KL " in done.stdout and "held out: overlap 0." in done.stdout
    assert done.stdout.endswith(f"Saved to {tmp_path}.\n")
    assert load_draft(tmp_path, target_of(model))[0].config.num_hidden_layers == 2


def test_heads_and_their_calibration(model: Path, texts: Path, tmp_path: Path):
    done = cli("medusa", "--pair", model, "--corpus", texts, "--out", tmp_path, "--heads", 3, "--untied", *SMALL)
    assert done.exit_code == 0, done.output
    assert "head 3 " in done.stdout and "top-1/top-5" in done.stdout
    heads = load_medusa(tmp_path, target_of(model))
    assert heads.count == 3 and not heads.shared and heads.accuracies is None
    measured = cli("calibrate", "--pair", model, "--corpus", texts, "--out", tmp_path)
    assert measured.exit_code == 0, measured.output
    assert [line[:2] for line in measured.stdout.splitlines()] == ["1:", "2:", "3:"]
    assert [len(row) for row in load_medusa(tmp_path, target_of(model)).accuracies] == [10] * 3


def test_heads_and_backbone(model: Path, texts: Path, tmp_path: Path):
    done = cli("medusa2", "--pair", model, "--corpus", texts, "--out", tmp_path, "--heads", 2, "--rank", 4, "--depth", 2, *SMALL)
    assert done.exit_code == 0, done.output
    assert "LM " in done.stdout and "kl 0." in done.stdout
    assert (tmp_path / "adapter_model.safetensors").is_file() and load_medusa(tmp_path, target_of(model)).count == 2
    facts = json.loads((tmp_path / "medusa.json").read_text())
    assert (facts["recipe"]["rank"], facts["recipe"]["alpha"], facts["recipe"]["lm"]) == (4, 4, "kl")


def test_lookup_is_calibrated_too(model: Path, texts: Path, tmp_path: Path):
    done = cli("calibrate", "--method", "ngram", "--pair", model, "--corpus", texts, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "ngram.json").is_file()


def test_chat_data_from_the_file_to_the_card(model: Path, tmp_path: Path):
    (tmp_path / "chat.jsonl").write_text(CHAT_LINES, encoding="utf-8")
    read = cli("corpus", "--chat", tmp_path / "chat.jsonl", "--pair", model, "--out", tmp_path / "corpus")
    assert read.exit_code == 0, read.output
    done = cli("medusa", "--pair", model, "--corpus", tmp_path / "corpus", "--out", tmp_path / "heads", "--heads", 2, *SMALL)
    assert done.exit_code == 0, done.output
    facts = json.loads((tmp_path / "heads" / "medusa.json").read_text())
    assert facts["corpus"]["source"] == "chat" and facts["recipe"]["labels"] == "text"


def test_prompts_from_a_file(model: Path, tmp_path: Path):
    (tmp_path / "prompts.txt").write_text("the cat\n\na mat\n", encoding="utf-8")
    done = cli("corpus", "--prompts", tmp_path / "prompts.txt", "--tokens", 300, "--rows", 4, "--pair", model, "--out", tmp_path / "c")
    assert done.exit_code == 0 and corpora.settings_of(tmp_path / "c")["prompts"] == ["the cat", "a mat"]
    (tmp_path / "none.txt").write_text("\n \n", encoding="utf-8")
    none = cli("corpus", "--prompts", tmp_path / "none.txt", "--pair", model, "--out", tmp_path / "d")
    assert (none.exit_code, "no prompt in" in none.stderr) == (2, True) and not (tmp_path / "d").exists()


def test_by_the_clock(model: Path, texts: Path, tmp_path: Path):
    done = cli("medusa", "--pair", model, "--corpus", texts, "--out", tmp_path, "--heads", 2, "--batch", 512, "--minutes", 0.05)
    assert done.exit_code == 0, done.output
    last = loop.read_log(tmp_path)[-1]
    assert last.done == 1 and 3 <= last.seconds < 10


@pytest.mark.parametrize("command", ["corpus", "medusa", "draft", "medusa2"])
def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(command: str, model: Path, texts: Path, tmp_path: Path, monkeypatch):
    class Pressed:
        asked = 0

        def __call__(self, *arguments: object) -> None:
            self.asked += 1
            if self.asked == 4:
                raise KeyboardInterrupt

    pressed = Pressed()
    options = {
        "corpus": ("--tokens", 3000, "--rows", 4),
        "medusa": ("--corpus", texts, "--heads", 2, *SMALL),
        "draft": ("--corpus", texts, "--layers", "0,3", *SMALL),
        "medusa2": ("--corpus", texts, "--heads", 2, "--rank", 4, "--warm", 0, *SMALL),
    }[command]
    with monkeypatch.context() as patched:
        if command == "corpus":
            step = corpora._Writer._draw
            patched.setattr(corpora._Writer, "_draw", lambda self, *rest: (pressed(), step(self, *rest))[1])
        else:
            advance = loop._Run._advance
            patched.setattr(loop._Run, "_advance", lambda self, batch: (pressed(), advance(self, batch))[1])
        left = cli(command, "--pair", model, "--out", tmp_path, *options)
    assert left.exit_code == 130, left.output
    assert left.stderr.splitlines()[-1] == t("en", "training.interrupted", path=tmp_path) and "Traceback" not in left.output
    assert command == "corpus" or (tmp_path / loop.CHECKPOINT).is_file()
    assert cli(command, "--pair", model, "--out", tmp_path, *options).exit_code == 0
    assert not (tmp_path / loop.CHECKPOINT).exists()


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["medusa", "--corpus", "TEXTS", "--labels", "hard"], 2, "The labels “hard” is unknown"),
        (["medusa2", "--corpus", "TEXTS", "--lm", "mse"], 2, "The lm “mse” is unknown"),
        (["draft", "--corpus", "TEXTS", "--layers", "0,9"], 2, "layers 0 to 3"),
        (["draft", "--corpus", "TEXTS", "--layers", "first"], 2, "numbers with commas"),
        (["draft", "--corpus", "TEXTS"], 2, "layers 0 to 3"),
        (["medusa", "--corpus", "NOWHERE"], 2, "There is no corpus in"),
        (["calibrate", "--corpus", "NOWHERE"], 2, "There is no corpus in"),
        (["calibrate", "--corpus", "TEXTS", "--method", "eagle"], 2, "method “eagle” is unknown"),
        (["calibrate", "--corpus", "TEXTS"], 2, "There is no checkpoint"),
        (["calibrate", "--corpus", "TEXTS", "--method", "draft"], 2, "no draft"),
        (["medusa", "--corpus", "TEXTS", "--from", "TEXTS"], 2, "There is no checkpoint"),
        (["draft", "--corpus", "TEXTS", "--layers", "0", "--from", "TEXTS"], 2, "There is no checkpoint"),
        (["medusa", "--corpus", "TEXTS", "--peak", "2"], 2, "Invalid value for '--peak'"),
        (["medusa", "--corpus", "TEXTS", "--heads", "0"], 2, "Invalid value for '--heads'"),
        (["medusa", "--corpus", "TEXTS", "--minutes", "0"], 2, "Invalid value for '--minutes'"),
        (["corpus", "--chat", "CHAT", "--prompts", "CHAT"], 2, "--prompts says how"),
        (["corpus", "--chat", "CHAT", "--share", "1/2", "--seed", "1"], 2, "--seed, --share says how"),
        (["corpus", "--chat", "CHAT"], 2, "Line 1 of"),
        (["corpus", "--share", "3/2"], 2, "A share is such as 2/3"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], status: int, sentence: str, model: Path, texts: Path, tmp_path: Path):
    (tmp_path / "chat").write_text("hello")
    places = {"TEXTS": str(texts), "NOWHERE": str(tmp_path / "nowhere"), "CHAT": str(tmp_path / "chat")}
    done = cli(*(places.get(argument, argument) for argument in arguments), "--pair", model, "--out", tmp_path / "out")
    assert (done.exit_code, sentence in done.stderr, "Traceback" in done.output) == (status, True, False), done.output
    if "Invalid" not in sentence:
        assert len([line for line in done.stderr.splitlines() if line and not line.startswith("Loading")]) == 1


def test_a_corpus_of_another_model_is_refused(texts: Path, tmp_path: Path):
    other, _ = write_pair(tmp_path)
    done = cli("medusa", "--pair", other, "--corpus", texts, "--out", tmp_path / "out")
    assert (done.exit_code, "of another model" in done.stderr) == (2, True)


def test_the_shipped_parts_are_not_replaced_by_those_of_another_pair(model: Path, texts: Path):
    for command in ("draft", "medusa", "medusa2"):
        done = cli(command, "--pair", model, "--corpus", texts, "--out", SHIPPED)
        assert (done.exit_code, "name another with --out" in done.stderr) == (2, True)


def test_a_loss_that_is_no_number_is_one_sentence(model: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(medusa, "DECAY", math.nan)
    done = cli("medusa", "--pair", model, "--corpus", texts, "--out", tmp_path, *SMALL)
    assert (done.exit_code, "At step 1 the loss was not a finite number" in done.stderr) == (1, True)


def test_a_full_disk_is_one_sentence_and_no_fault_of_the_callers(model: Path, texts: Path, tmp_path: Path, monkeypatch):
    def full(self: medusa.Medusa1, folder: Path, facts: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(medusa.Medusa1, "save", full)
    done = cli("medusa", "--pair", model, "--corpus", texts, "--out", tmp_path, *SMALL)
    assert (done.exit_code, "The disk is full" in done.stderr) == (1, True)
    monkeypatch.setattr(corpora.Corpus, "save", lambda self, path: full(None, path, None))
    done = cli("corpus", "--tokens", 500, "--rows", 4, "--pair", model, "--out", tmp_path / "corpus")
    assert (done.exit_code, "The disk is full" in done.stderr) == (1, True)


def test_a_folder_that_is_no_model_is_said(tmp_path: Path):
    done = cli("corpus", "--pair", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2 and "Traceback" not in done.output and done.stderr.count("\n") <= 2


def test_a_name_of_the_catalogue_is_not_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Somebody has a folder called embedded: the pair of that name is meant."""
    asked: list[str] = []

    def load(name: str, *rest: object) -> None:
        asked.append(name)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedded").mkdir()
    monkeypatch.setattr(loading, "load", load)
    assert cli("corpus", "--out", tmp_path / "out").exit_code == 130 and asked == ["embedded"]


def test_what_was_trained_is_what_is_measured(model: Path, texts: Path, tmp_path: Path):
    """The parts in --out, not those that the pair came with: their hash is the one that a calibration demands."""
    assert cli("draft", "--pair", model, "--corpus", texts, "--layers", "0,3", "--out", tmp_path, *SMALL).exit_code == 0
    done = cli("calibrate", "--method", "draft", "--pair", model, "--corpus", texts, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "draft.json").read_text())["accuracies"]
