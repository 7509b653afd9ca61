import json
from dataclasses import replace
from pathlib import Path

import pytest

import specviz
from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa
from specviz.models.output import lm_head
from specviz.training import evaluate, make, medusa
from specviz.training.corpus import Corpus, Settings, write
from specviz.training.evaluate import PROMPTS, K, measure
from tests.fakes import table_pair
from tests.training.texts import texts_of


def test_prompts_are_all_different():
    assert len(set(PROMPTS)) == len(PROMPTS) == 10


def test_counts_are_added_up_over_prompts():
    pair = table_pair()
    counts = measure(pair, "draft", 1.0, prompts=("abc", "cab"), length=20, seed=3)
    chosen = {"method": "draft", "rule": "rejection", "k": K, "temperature": 1.0, "max_new_tokens": 20, "seed": 3, "chat": False}
    traces = [specviz.run(pair, prompt, baseline=False, **chosen) for prompt in ("abc", "cab")]
    assert counts.tokens == sum(len(trace.token_ids) for trace in traces) == 40
    assert counts.steps == sum(len(trace.steps) for trace in traces)
    assert counts.accepted == sum(token.kind == "accepted" for trace in traces for token in trace.emitted) > 0


def test_only_what_the_folder_holds_is_measured(tmp_path: Path):
    """A figure must not stand beside weights that it was not measured on."""
    with pytest.raises(Fault, match="There is no checkpoint"):
        evaluate.make(table_pair(), tmp_path)
    (tmp_path / "draft.json").write_text("{}")
    with pytest.raises(Fault, match="There is no checkpoint"):
        evaluate.make(table_pair(), tmp_path)
    (tmp_path / "draft.safetensors").write_bytes(b"other weights")
    with pytest.raises(Fault) as fault:
        evaluate.make(table_pair(), tmp_path)
    assert fault.value.key == "training.other_weights" and (tmp_path / "draft.json").read_text() == "{}"


def test_heads_that_were_stopped_are_measured_and_have_their_card(pair, corpus_folder: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(evaluate, "PROMPTS", ("the cat",))
    head, recipe = lm_head(pair.target), medusa.Recipe(heads=2, vocabulary=90, epochs=0.2, batch=512)
    list(make.medusa1(head, corpus_folder, tmp_path, recipe))
    assert "## Acceptance" not in (tmp_path / "medusa.md").read_text(encoding="utf-8")
    path = tmp_path / "medusa.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"accuracies": facts["held_out"]["text_accuracies"], "calibration": {"on": "held-out texts"}}))
    told: list[str] = []
    evaluate.make(replace(pair, medusa=load_medusa(tmp_path, head)), tmp_path, report=told.append)
    card = (tmp_path / "medusa.md").read_text(encoding="utf-8")
    assert f"# Medusa-1 heads for {pair.target.info.name}\n" in card and "their tree is built from these shares" in card
    assert len(told) == card.count("| calibrated tree of ") == 3 and json.loads(path.read_text())["acceptance"]["prompts"] == 1


def test_held_out_questions_are_those_of_the_corpus_without_its_template(pair, tmp_path: Path):
    write(pair, Settings(tokens=2_000, rows=4, seed=1, prompts=("the cat", "a mat")), tmp_path)
    assert set(evaluate.held_out_questions(pair, Corpus.load(tmp_path))) <= {"the cat", "a mat"}
    texts = texts_of([5, 6, 1], [5, 6, 2], learned=[[False, True, True]] * 2)
    with pytest.raises(Fault, match="held-out"):
        evaluate.held_out_questions(pair, texts)  # no chat template around what was asked
