"""From a corpus folder to a folder that the program loads."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from specviz.i18n import Fault
from specviz.models.checkpoints import load_draft, load_medusa
from specviz.models.output import LmHead
from specviz.training import chat, draft, loop, make, medusa, medusa2
from specviz.training.corpus import Corpus, Settings, write
from specviz.training.status import Status
from tests.training.test_chat import CHAT_LINES
from tests.training.test_medusa2 import fresh

HEADS = medusa.Recipe(heads=3, vocabulary=90, epochs=1, batch=512, peak=5e-3)
JOINT = medusa2.Recipe(heads=3, vocabulary=90, epochs=1, batch=512, peak=1e-3, rank=4, depth=2)
CUT = draft.Recipe(layers=(0, 3), vocabulary=80, epochs=1, batch=512, peak=3e-3)


def card(folder: Path, name: str = "medusa") -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def words(folder: Path, name: str = "medusa") -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def talked(pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of other people's conversations."""
    folder = tmp_path_factory.mktemp("talked")
    (folder / "chat.jsonl").write_text(CHAT_LINES, encoding="utf-8")
    chat.write(pair, folder / "chat.jsonl", folder / "corpus")
    return folder / "corpus"


def test_a_draft(target, corpus_folder: Path, tmp_path: Path):
    entries = list(make.draft(target, corpus_folder, tmp_path, CUT))
    load_draft(tmp_path, target)
    assert names(tmp_path) == ["curves.svg", "draft.json", "draft.md", "draft.safetensors", "log.jsonl"]
    facts = card(tmp_path, "draft")
    assert facts["layers"] == [0, 3] and facts["held_out"] == entries[-1].held_out and facts["corpus"]["source"] == "self-distilled"
    assert facts["recipe"]["vocabulary"] == 80 and facts["run"]["step"] == entries[-1].step


def test_an_unfinished_draft_goes_on(target, corpus_folder: Path, tmp_path: Path):
    """Its layers are a list in the checkpoint and a tuple in the recipe."""
    asked = iter([False] * 3 + [True])
    list(make.draft(target, corpus_folder, tmp_path, CUT, stopped=lambda: next(asked)))
    assert names(tmp_path) == ["checkpoint.safetensors", "curves.svg", "draft.json", "draft.md", "draft.safetensors", "log.jsonl"]
    assert "It was stopped before its end" in words(tmp_path, "draft")
    list(make.draft(target, corpus_folder, tmp_path, CUT))
    assert "stopped" not in words(tmp_path, "draft")
    list(make.draft(target, corpus_folder, tmp_path / "whole", CUT))
    one, other = (load_file(folder / "draft.safetensors") for folder in (tmp_path, tmp_path / "whole"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("untied", "version"), [(False, "2"), (True, "1")])
def test_heads(untied: bool, version: str, target, corpus_folder: Path, tmp_path: Path):
    recipe = dataclasses.replace(HEADS, untied=untied)
    entries = list(make.medusa1(LmHead(target.lm_head.weight.detach()), corpus_folder, tmp_path, recipe))
    heads = load_medusa(tmp_path, target)
    assert heads.count == 3 and heads.logits(torch.randn(32)).isinf().sum() == 3 * (100 - len(heads.token_map))
    assert names(tmp_path) == ["curves.svg", "log.jsonl", "medusa.json", "medusa.md", "medusa.safetensors"]
    facts = card(tmp_path)
    assert facts["version"] == version and facts["recipe"]["labels"] == "soft" and facts["held_out"] == entries[-1].held_out
    assert [len(row) for row in facts["held_out"]["text_accuracies"]] == [10] * 3


def test_heads_begin_where_others_ended(target, corpus_folder: Path, tmp_path: Path):
    list(make.medusa1(target, corpus_folder, tmp_path / "first", HEADS))
    list(make.medusa1(target, corpus_folder, tmp_path / "second", dataclasses.replace(HEADS, peak=0.0), tmp_path / "first"))
    one, other = (load_file(tmp_path / name / "medusa.safetensors") for name in ("first", "second"))
    assert all(torch.equal(one[name], other[name]) for name in one) and one["0.0.linear.weight"].any()
    start = card(tmp_path / "second")["start"]
    assert start["corpus"] == card(tmp_path / "first")["corpus"] and len(start["sha256"]) == 64
    passes = card(tmp_path / "first")["run"]["tokens"] / start["corpus"]["learned"]
    assert f"(sha256 `{start['sha256']}`), trained on the same corpus: {passes:.2f} passes, 0" in words(tmp_path / "second")
    (tmp_path / "first" / "medusa.json").unlink()
    list(make.medusa1(target, corpus_folder, tmp_path / "third", HEADS, tmp_path / "first"))
    assert f"(sha256 `{start['sha256']}`), of whose training nothing is told" in words(tmp_path / "third")


def test_heads_and_backbone_together(tiny_folder: Path, target, corpus_folder: Path, tmp_path: Path):
    model = fresh(tiny_folder)
    entries = list(make.medusa2(model, corpus_folder, tmp_path, JOINT))
    of_heads = ["curves.svg", "log.jsonl", "medusa.json", "medusa.md", "medusa.safetensors"]
    assert names(tmp_path / make.WARM) == of_heads
    assert names(tmp_path) == sorted([*of_heads, make.WARM, "adapter_config.json", "adapter_model.safetensors"])
    facts, warm = card(tmp_path), card(tmp_path / make.WARM)
    assert (facts["recipe"]["labels"], facts["recipe"]["lm"], warm["recipe"]["labels"]) == ("soft", "kl", "soft")
    assert facts["start"]["corpus"] == warm["corpus"] and facts["held_out"]["kl"] > 0
    assert [entry.done for entry in entries].count(1.0) == 2  # the warm-up's end, and the end
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), target.parameters(), strict=True))  # the adapter is out again


def stop_after(count: int) -> Callable[[], bool]:
    asked: Iterator[int] = iter(range(10**9))
    return lambda: next(asked) >= count


def test_a_joint_run_goes_on_wherever_it_was_stopped(tiny_folder: Path, corpus_folder: Path, tmp_path: Path):
    list(make.medusa2(fresh(tiny_folder), corpus_folder, tmp_path / "whole", JOINT))
    steps = len(loop.read_log(tmp_path / "whole" / make.WARM)) and loop.read_log(tmp_path / "whole" / make.WARM)[-1].step
    for count in (3, steps + 4):
        list(make.medusa2(fresh(tiny_folder), corpus_folder, tmp_path / "run", JOINT, stopped=stop_after(count)))
        assert (tmp_path / "run" / loop.CHECKPOINT).exists() == (count > steps)
    list(make.medusa2(fresh(tiny_folder), corpus_folder, tmp_path / "run", JOINT))
    for name in ("adapter_model.safetensors", "medusa.safetensors"):
        one, other = (load_file(tmp_path / folder / name) for folder in ("run", "whole"))
        assert all(torch.equal(one[key], other[key]) for key in one)
    one, other = (card(tmp_path / folder)["start"] for folder in ("run", "whole"))
    assert (one["sha256"], one["corpus"], one["run"]["tokens"]) == (other["sha256"], other["corpus"], other["run"]["tokens"])


def test_by_the_clock_the_warm_up_has_its_share(tiny_folder: Path, corpus_folder: Path, tmp_path: Path):
    list(make.medusa2(fresh(tiny_folder), corpus_folder, tmp_path, dataclasses.replace(JOINT, minutes=0.06)))
    warm, joint = (card(folder)["run"]["schedule"]["minutes"] for folder in (tmp_path / make.WARM, tmp_path))
    assert warm == pytest.approx(0.02) and joint == pytest.approx(0.04)


def test_a_softened_adapter_has_a_card_without_what_was_measured_before(tiny_folder: Path, corpus_folder: Path, tmp_path: Path):
    list(make.medusa2(fresh(tiny_folder), corpus_folder, tmp_path, JOINT, called="tiny"))
    facts, path = card(tmp_path), tmp_path / "medusa.json"
    assert words(tmp_path).startswith("# Medusa-2 for tiny\n") and f"is {facts['held_out']['kl']:.3g} nats a token" in words(tmp_path)
    rows = [[0.5] * 10] * 3
    path.write_text(json.dumps(facts | {"accuracies": rows, "calibration": {"prompts": 1, "answer_tokens": 9}, "acceptance": {"k": 5}}))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    make.soften(fresh(tiny_folder), corpus_folder, tmp_path, 1e3, lambda alpha, kl: None)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before, "the KL is low enough"
    for share in (0.5, 0.25):
        make.soften(fresh(tiny_folder), corpus_folder, tmp_path, share * facts["held_out"]["kl"], lambda alpha, kl: None)
    after = card(tmp_path)
    assert after["held_out"]["kl"] <= 0.25 * facts["held_out"]["kl"] and "acceptance" not in after
    assert after["accuracies"] == after["held_out"]["text_accuracies"] != rows and after["calibration"] == {"on": "held-out texts"}
    assert f"α was lowered from {JOINT.alpha} to {after['softened']['alpha']:.3g} after" in words(tmp_path)
    assert f"is {after['held_out']['kl']:.3g} nats a token" in words(tmp_path)


@pytest.mark.parametrize("count", [6, 300])  # fewer than there are conversations, and more
def test_the_card_says_how_many_of_the_users_prompts_were_asked(count: int, pair, target, tmp_path: Path):
    prompts = tuple(f"{number} cats" for number in range(count))
    write(pair, Settings(tokens=3000, rows=8, seed=1, prompts=(*prompts, *prompts[:5])), tmp_path / "corpus")
    lines = "".join(f"{prompt}\n" for prompt in (*prompts, *prompts[:5]))
    list(make.medusa1(target, tmp_path / "corpus", tmp_path / "heads", HEADS))
    texts, known = Corpus.load(tmp_path / "corpus"), card(tmp_path / "heads")["corpus"]
    asked = {tuple(texts.tokens[texts.conversation(i)][: texts.answer(i)].tolist()) for i in range(len(texts))}
    assert (known["prompts"], known["prompts_used"]) == (count, len(asked)) and (len(asked) == count) == (count < len(texts))
    assert known["prompts_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert f"the questions are {len(asked)} of {count} prompts" in words(tmp_path / "heads") and "with itself" not in words(
        tmp_path / "heads"
    )


def test_a_card_names_its_target_or_its_weights(pair, target, corpus_folder: Path, tmp_path: Path):
    recipe = dataclasses.replace(HEADS, epochs=0.1)
    list(make.medusa1(target, corpus_folder, tmp_path / "1", recipe))
    assert words(tmp_path / "1").startswith(f"# Medusa-1 heads for the model with weights of sha256 `{pair.target.info.sha256}`\n")
    (tmp_path / "2").mkdir()
    Status("embedded", 5.0).write(tmp_path / "2")  # as a run of `train heads` has it
    list(make.medusa1(target, corpus_folder, tmp_path / "2", recipe))
    assert words(tmp_path / "2").startswith("# Medusa-1 heads for SmolLM2-135M-Instruct\n")
    assert "`python -m specviz train heads --minutes 5`" in words(tmp_path / "2") and "train corpus" not in words(tmp_path / "2")


def test_a_corpus_in_one_file_has_no_known_source(target, corpus: Corpus, tmp_path: Path):
    corpus.save(tmp_path / "texts.safetensors")
    list(make.medusa1(target, tmp_path / "texts.safetensors", tmp_path / "heads", HEADS))
    assert "where they come from was not told" in words(tmp_path / "heads")


def test_other_peoples_text_is_learned_as_text(tiny_folder: Path, talked: Path, tmp_path: Path):
    list(make.medusa1(fresh(tiny_folder), talked, tmp_path / "1", HEADS))
    list(make.medusa2(fresh(tiny_folder), talked, tmp_path / "2", JOINT))
    for folder in ("1", "2"):
        assert card(tmp_path / folder)["corpus"]["source"] == "chat" and card(tmp_path / folder)["recipe"]["labels"] == "text"
        assert len(card(tmp_path / folder)["corpus"]["data"]) == 64
        assert "conversations of a file (sha256" in words(tmp_path / folder)
    assert card(tmp_path / "2")["recipe"]["lm"] == "ce"
    chosen = dataclasses.replace(JOINT, labels="soft", lm="kl")
    list(make.medusa2(fresh(tiny_folder), talked, tmp_path / "3", chosen, warm=0.0))
    assert (card(tmp_path / "3")["recipe"]["labels"], card(tmp_path / "3")["recipe"]["lm"]) == ("soft", "kl")
    assert "start" not in card(tmp_path / "3") and make.WARM not in names(tmp_path / "3")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (dataclasses.replace(CUT, layers=(0, 4)), "layers 0 to 3"),
        (dataclasses.replace(CUT, layers=()), "layers 0 to 3"),
        (dataclasses.replace(CUT, layers=(-1, 2)), "layers 0 to 3"),
        (dataclasses.replace(HEADS, labels="hard"), "labels “hard” is unknown; choose one of soft, text"),
        (dataclasses.replace(JOINT, labels="x"), "labels “x”"),
        (dataclasses.replace(JOINT, lm="mse"), "lm “mse” is unknown; choose one of kl, ce"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(recipe: loop.Schedule, said: str, target, corpus_folder: Path, tmp_path: Path):
    kinds: dict[type, Callable[..., Iterator[loop.Entry]]] = {
        draft.Recipe: make.draft,
        medusa.Recipe: make.medusa1,
        medusa2.Recipe: make.medusa2,
    }
    with pytest.raises(Fault, match=said):
        list(kinds[type(recipe)](target, corpus_folder, tmp_path / "run", recipe))
    assert not (tmp_path / "run").exists()


def test_a_corpus_of_another_model_is_refused(pair, corpus_folder: Path, corpus: Corpus, tmp_path: Path):
    make.refuse_other_model(corpus_folder, pair.target.info.sha256)
    make.refuse_no_corpus(corpus_folder)
    with pytest.raises(Fault, match="of another model"):
        make.refuse_other_model(corpus_folder, "0" * 64)
    with pytest.raises(Fault, match="no corpus"):
        make.refuse_no_corpus(tmp_path)
    with pytest.raises(Fault, match="of another model"):
        list(make.medusa1(LmHead(torch.randn(100, 16)), corpus_folder, tmp_path, HEADS))


def test_layers_are_numbers_with_commas():
    assert make.layers_of("0,1, 29") == (0, 1, 29)
    for text in ("", "0,,1", "a", "0-3", "1.5"):
        with pytest.raises(Fault, match="numbers with commas"):
            make.layers_of(text)


def test_nobody_stops_a_run_by_default():
    assert make.never() is False
