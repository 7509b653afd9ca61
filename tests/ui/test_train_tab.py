"""The Train tab: what it answers, whatever it is asked, and its script."""

import json
import re
import zipfile
from pathlib import Path

import gradio as gr
import pytest
import torch

from specviz.i18n import ASSETS, LANGUAGES, catalogue
from specviz.models import load as loading
from specviz.models import own
from specviz.models.checkpoints import load_medusa
from specviz.models.load import load_local
from specviz.models.output import lm_head
from specviz.training import medusa
from specviz.training.status import LOCK, Status
from specviz.ui import handlers, jobs
from specviz.ui.tabs import train
from specviz.ui.text import pair_choices
from tests.models.tiny import write_pair

NAME = "embedded+20261130-000001"
PARTS = sorted((ASSETS / "train").glob("*.js"))
ROWS = [[0.4 / k, 0.05, 0.04, 0.03, 0.02, 0.01] for k in (1, 2)]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs are kept, for this test."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path)
    monkeypatch.delenv("SPACE_ID", raising=False)
    return tmp_path


def finished(shelf: Path, name: str = NAME) -> Path:
    """A run that is over: its status, its log, and random heads for a model of width 32."""
    folder = shelf / name
    folder.mkdir()
    Status("embedded", 5.0, "done", "calibrating", 300.0, "2026-11-30T00:00:01+00:00", training={"minutes": 0.9}).write(folder)
    line = {
        "step": 20,
        "done": 0.5,
        "seconds": 9.0,
        "tokens": 700,
        "losses": {"head 1": 3.0, "head 2": 4.0},
        "held_out": {"text_accuracies": ROWS},
    }
    (folder / jobs.TOLD).write_text(json.dumps(line) + "\n")
    facts = {"held_out": {"text_accuracies": ROWS}, "accuracies": ROWS, "corpus": {"tokens": 900}}
    medusa.save(medusa.Blocks(2, 32), torch.arange(50, dtype=torch.int32), folder, facts)
    (folder / LOCK).touch()
    (folder / "texts").mkdir()
    return folder


@pytest.mark.parametrize(
    "asked", [None, {}, [], "x", {"run": {"a": 1}, "have": []}, {"what": "format", "name": NAME}, {"name": "../../etc"}]
)
@pytest.mark.parametrize("answer", [train.state, train.begin, train.act, train.pack])
def test_whatever_is_asked_the_answer_is_plain_data_and_no_traceback(shelf: Path, answer: object, asked: object) -> None:
    json.dumps(answer(asked), allow_nan=False)
    if answer is not train.state:
        assert answer(asked)["error"]["key"] in catalogue("en")
    assert not list(shelf.iterdir())


def test_what_should_not_happen_is_a_sentence_and_a_trace_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list:
        raise RuntimeError("boom")

    monkeypatch.setattr(jobs, "runs", broken)
    assert train.state({})["error"]["key"] == "error.unexpected"
    assert "boom" in caplog.text


def test_the_state_shows_the_newest_run_or_the_one_that_is_wanted(shelf: Path) -> None:
    assert train.state({})["runs"] == [] and "shown" not in train.state({})
    finished(shelf)
    finished(shelf, "embedded+20261201-000001")
    told = train.state({})
    assert [run["name"] for run in told["runs"]] == ["embedded+20261201-000001", NAME]
    assert (told["run"], told["current"], told["off"]) == ("embedded+20261201-000001", None, None)
    assert train.state({"run": NAME})["run"] == NAME
    assert train.state({"run": "gone"})["run"] == "embedded+20261201-000001"
    assert told["pairs"][0][1] == "embedded"
    assert len(told["shipped"]["top1"]) >= 4


def test_curves_are_sent_once(shelf: Path) -> None:
    folder = finished(shelf)
    shown = train.state({})["shown"]
    assert shown["figures"]["losses"]["data"][0]["y"] == [3.0]
    assert shown["figures"]["losses"]["layout"]["xaxis"]["range"] == [0, 0.9], "the axis ends with the time that learning has"
    assert "shown" not in train.state({"have": shown["stamp"]})
    with (folder / jobs.TOLD).open("a") as log:
        log.write((folder / jobs.TOLD).read_text())
    assert train.state({"have": shown["stamp"]})["shown"]["stamp"] != shown["stamp"]


def test_training_is_refused_on_a_shared_space(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/specviz")
    assert train.state({})["off"]["key"] == "train.off_on_space"
    assert train.begin({"pair": "embedded", "minutes": 5})["error"]["key"] == "train.off_on_space"


def test_a_run_is_packed_without_its_texts(shelf: Path) -> None:
    finished(shelf)
    answer = train.pack({"name": NAME, "form": "here"})
    with zipfile.ZipFile(answer["path"]) as archive:
        assert sorted(archive.namelist()) == ["log.jsonl", "medusa.json", "medusa.safetensors"]
    assert answer["file"] == f"{NAME}-here.zip"
    assert Path(answer["path"]).parent == Path(train.packs().name)


@pytest.mark.parametrize("form", ["v1", "v2", "vllm"])
def test_other_formats_hold_the_same_heads(
    shelf: Path, form: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path_factory.mktemp("export")
    base = load_local(*write_pair(made / "models"), device="cpu", dtype="float32", name="embedded")
    monkeypatch.setattr(loading, "load", lambda name: base)
    folder, target = finished(shelf), lm_head(base.target)
    answer = train.pack({"name": NAME, "form": form})
    with zipfile.ZipFile(answer["path"]) as archive:
        archive.extractall(made / "heads")
    hidden = torch.randn(3, 32)
    ours, theirs = load_medusa(folder, target).logits(hidden), load_medusa(made / "heads", target).logits(hidden)
    assert torch.allclose(ours[..., :50], theirs[..., :50], atol=1e-5)
    assert torch.isfinite(theirs).all() == (form != "vllm")
    assert train.pack({"name": NAME, "form": "onnx"})["error"]["key"] == "error.unknown_choice"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_heads_are_used_by_choosing_them_and_their_tree_in_the_player(shelf: Path, lang: str) -> None:
    finished(shelf)
    pair, *controls = train.use(NAME, lang, "draft", "typical", "4x2x1", 0.7, "story")
    assert pair["value"] == NAME and pair["choices"] == pair_choices(lang) and NAME in dict(map(reversed, pair["choices"]))
    adapted = dict(zip(handlers.ADAPTED, controls, strict=True))
    assert adapted["method"]["value"] == "medusa" and adapted["tree"]["value"] == ""
    assert adapted["epsilon"]["interactive"], "the rule was changed"


@pytest.mark.parametrize("name", [None, "embedded", "../x", {"a": 1}, NAME])
def test_heads_that_are_not_there_change_nothing(shelf: Path, name: object) -> None:
    assert train.use(name, "en", "draft", "greedy", "", 0.7, None) == [gr.skip()] * (1 + len(handlers.ADAPTED))


def test_the_pairs_end_with_the_heads_that_were_trained_here(shelf: Path) -> None:
    before = pair_choices("en")
    finished(shelf)
    [(label, name)] = [pair for pair in pair_choices("en") if pair not in before]
    assert name == NAME and "SmolLM2-135M" in label and re.search(r"\d\d-\d\d \d\d:\d\d", label)
    assert handlers.pairs("zh")["choices"][-1][1] == NAME
    (shelf / NAME / own.HEADS).unlink()
    assert pair_choices("en") == before


def test_the_tab_can_say_everything_that_it_may_be_told() -> None:
    said = re.compile(r"""["`](train\.[a-z_0-9]+)["`]""")
    keys = {key for path in PARTS for key in said.findall(path.read_text(encoding="utf-8"))}
    phases = ("loading", "corpus", "training", "calibrating", "done", "stopped", "interrupted", "failed")
    keys |= {f"train.{kind}_{phase}" for kind in ("said", "state") for phase in phases}
    assert len(keys) > 30
    for lang in LANGUAGES:
        assert keys - set(train.SCRIPTS.options()["locales"][lang]) == set()
        assert set(train.SCRIPTS.options()["locales"][lang]) <= set(catalogue(lang))
