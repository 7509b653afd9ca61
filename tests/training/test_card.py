import copy
import json
from pathlib import Path
from typing import Any

import pytest

from specviz.i18n import ASSETS
from specviz.models.embedded import sha256
from specviz.training.card import write_card, write_cards
from specviz.training.loop import CHECKPOINT

SHIPPED = ASSETS / "models" / "smollm2-135m"
PARTS = [(SHIPPED, "draft"), (SHIPPED, "medusa"), (SHIPPED / "medusa2", "medusa")]


@pytest.mark.parametrize(("folder", "method"), PARTS)
def test_shipped_cards_say_what_their_files_are(folder: Path, method: str, tmp_path: Path):
    card = (folder / f"{method}.md").read_text(encoding="utf-8")
    assert sha256(folder / f"{method}.safetensors") in card
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / f"{method}.md").unlink()
    write_card(tmp_path, method)
    assert (tmp_path / f"{method}.md").read_text(encoding="utf-8") == card


@pytest.mark.parametrize(("folder", "method"), PARTS)
def test_shipped_parts_were_measured_at_both_temperatures(folder: Path, method: str):
    facts = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    runs = facts["acceptance"]["runs"]
    assert {run["temperature"] for run in runs} == {0, 1}
    assert all(0 < run["accepted"] <= run["tested"] and run["steps"] < run["tokens"] <= run["steps"] + run["accepted"] for run in runs)
    stages = [facts["corpus"], *([facts["start"]["corpus"]] if method == "draft" or folder == SHIPPED else [])]
    assert max(corpus["tokens"] for corpus in stages) >= 1_000_000


def test_shipped_parts_are_small():
    sizes = [path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()]
    assert max(sizes) <= 45_000_000 and sum(sizes) <= 90_000_000


# ---- what is said of other parts --------------------------------------------------------------------------------------------------------


ROWS = [[0.4, 0.12, 0.06, 0.04, 0.03, 0.02], [0.2, 0.09, 0.06, 0.04, 0.03, 0.02]]
CORPUS = {"tokens": 5000, "conversations": 40, "held_out": 2, "learned": 3000, "source": "self-distilled", "seed": 1, "target": "f7"}
RECIPE = {"epochs": 1.0, "batch": 512, "peak": 1e-3, "warmup": 0.05, "seed": 0, "untied": False, "labels": "soft"}
RUN = {"temperature": 0.0, "tree": "sparse:16", "steps": 50, "tokens": 90, "tested": 200, "accepted": 40, "depths": [[40, 50]]}
MEASURED: dict[str, Any] = {
    "accuracies": ROWS,
    "calibration": {"prompts": 4, "answer_tokens": 500, "longest": 128},
    "acceptance": {"prompts": 10, "longest": 128, "seed": 0, "k": 5, "dtype": "bfloat16", "runs": [RUN]},
    "target": "Tiny",
}
TRAINED: dict[str, Any] = {
    "corpus": CORPUS, "recipe": RECIPE, "run": {"step": 20, "seconds": 120, "tokens": 3000}, "threads": 1, "torch": "2", "device": "cpu",
}  # fmt: skip
HEADS: dict[str, Any] = {
    **TRAINED, **MEASURED, "held_out": {"text_accuracies": ROWS},
    "medusa_num_heads": 2, "medusa_num_layers": 1, "truncated_vocab_size": 90,
}  # fmt: skip
DRAFT: dict[str, Any] = {
    **TRAINED, **MEASURED, "held_out": {"overlap": 0.5, "agreement": 0.6, "covered": 0.9}, "layers": [0, 3], "vocabulary": 80,
}  # fmt: skip


def facts_of(method: str = "medusa") -> dict[str, Any]:
    return copy.deepcopy(DRAFT if method == "draft" else HEADS)


def card_of(folder: Path, facts: dict[str, Any], method: str = "medusa") -> str:
    (folder / f"{method}.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / f"{method}.safetensors").write_bytes(b"weights")
    write_card(folder, method)
    return (folder / f"{method}.md").read_text(encoding="utf-8")


def test_heads_whose_training_was_stopped_have_a_tree_from_the_held_out_texts(tmp_path: Path):
    """As the Train tab leaves them: nothing was calibrated on greedy answers, so the card has no such figures."""
    facts = facts_of()
    text = card_of(tmp_path, facts | {"accuracies": ROWS, "calibration": {"on": "held-out texts"}})
    assert "their tree is built from these shares" in text and "not calibrated on greedy answers yet" in text
    assert "tokens of greedy answers" not in text and text.count("| depth |") == 1 and "| 1 | 0.400 |" in text


def test_heads_that_nobody_calibrated_have_no_tree(tmp_path: Path):
    facts = facts_of()
    del facts["calibration"], facts["accuracies"], facts["acceptance"]
    text = card_of(tmp_path, facts)
    assert "not calibrated on greedy answers yet" in text and "tree" not in text and "## Acceptance" not in text


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({}, "of whose training nothing is told beside it."),
        ({"seed": 1}, "of whose training nothing is told beside it."),
        (CORPUS, "trained on the same corpus: 2.00 passes, 3 min."),
        (CORPUS | {"tokens": 1000, "conversations": 5}, "trained on a corpus of the same kind and seed, of 1,000 tokens."),
        (CORPUS | {"tokens": 1000, "seed": 9}, "trained on a corpus of its own of 1,000 tokens."),
        ({"tokens": 1000}, "trained on a corpus of its own of 1,000 tokens."),
    ],
)
def test_what_a_run_began_with_is_said_as_far_as_it_is_known(theirs: dict[str, Any], said: str, tmp_path: Path):
    facts = facts_of()
    run = {"tokens": 2 * facts["corpus"]["learned"], "seconds": 180}
    text = card_of(tmp_path, facts | {"start": {"sha256": "a1", "corpus": theirs, "run": run}})
    assert f"\n- It began with an earlier one (sha256 `a1`), {said}\n" in text


@pytest.mark.parametrize(("seconds", "said"), [(0, "0"), (6, "0.1"), (51, "0.8"), (89, "1"), (4282, "71"), (60_000, "1000")])
def test_a_short_run_did_not_take_no_time(seconds: int, said: str, tmp_path: Path):
    facts = facts_of()
    assert f"- Time: {said} min on 1 CPU" in card_of(tmp_path, facts | {"run": facts["run"] | {"seconds": seconds}})


def test_without_its_run_a_start_on_the_same_corpus_has_no_passes(tmp_path: Path):
    facts = facts_of()
    text = card_of(tmp_path, facts | {"start": {"sha256": "a1", "corpus": facts["corpus"]}})
    assert "(sha256 `a1`), trained on the same corpus.\n" in text


def test_a_corpus_with_the_users_prompts_is_not_called_the_targets_own(tmp_path: Path):
    facts = facts_of()
    facts["corpus"] |= {"prompts": 40, "prompts_used": 30, "prompts_sha256": "b2"}
    text = card_of(tmp_path, facts)
    assert "the questions are 30 of 40 prompts of the\n  user's (sha256 of the lines of their file that are not empty: `b2`)" in text
    assert "--seed 1 --prompts FILE`" in text and "with itself" not in text and "no\n  other text" not in text
    assert "not in the corpus" not in text, "the user's prompts were not compared with ours"


@pytest.mark.parametrize("source", ["chat", None])
def test_other_peoples_text_is_not_called_drawn_and_its_questions_not_new(source: str | None, tmp_path: Path):
    facts = facts_of()
    del facts["corpus"]["source"]
    facts["corpus"] |= {"source": source, "data": "c3"} if source else {}
    text = card_of(tmp_path, facts)
    assert "drawn and not greedy" not in text and "not in the corpus" not in text and "train corpus" not in text
    assert ("(sha256 `c3`)" in text) == (source is not None) and ("where they come from was not told" in text) == (source is None)


def test_a_run_within_a_budget_is_called_by_its_command(tmp_path: Path):
    text = card_of(tmp_path, facts_of() | {"quick": {"minutes": 7.5}})
    assert "`python -m specviz train heads --minutes 7.5`" in text and "train medusa" not in text and "train corpus" not in text


def test_a_run_that_is_not_over_says_so(tmp_path: Path):
    assert "stopped" not in card_of(tmp_path, facts_of())
    (tmp_path / CHECKPOINT).touch()
    assert "It was stopped before its end" in card_of(tmp_path, facts_of())


def test_a_target_without_a_name_is_known_by_its_weights(tmp_path: Path):
    facts = facts_of()
    del facts["target"]
    assert card_of(tmp_path, facts).startswith(f"# Medusa-1 heads for the model with weights of sha256 `{facts['corpus']['target']}`\n")
    del facts["corpus"]["target"]
    assert card_of(tmp_path, facts).startswith("# Medusa-1 heads for a model that is not named\n")


@pytest.mark.parametrize("method", ["draft", "medusa"])
def test_parts_that_were_trained_elsewhere_have_a_card_of_what_was_measured(method: str, tmp_path: Path):
    text = card_of(tmp_path, MEASURED, method)
    assert "trained is not told" in text and "## Calibration" in text and "## Acceptance on" in text and "## Data" not in text


def test_all_cards_of_a_folder_are_written_at_once(tmp_path: Path):
    write_cards(tmp_path)
    for method in ("draft", "medusa"):
        card_of(tmp_path, facts_of(method), method)
        (tmp_path / f"{method}.md").write_text("old")
    (tmp_path / "ngram.json").write_text("{}")
    (tmp_path / "medusa.safetensors").unlink()
    write_cards(tmp_path)
    assert (tmp_path / "medusa.md").read_text() == "old" and (tmp_path / "draft.md").read_text().startswith("# A draft for Tiny")
