"""Heads within a budget, on the tiny target: a whole run, runs that are stopped and taken up, and what ends one in a sentence."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from specviz.engine.lm import Pair
from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa
from specviz.models.output import lm_head
from specviz.training import quick
from specviz.training.corpus import Corpus, Settings, settings_of, sizes_of, write
from specviz.training.loop import CHECKPOINT, read_log
from specviz.training.status import STOP, Pulse, Status, read, sitting

BUDGET = 0.3  # minutes


@pytest.fixture(autouse=True)
def little_is_enough(monkeypatch):
    """The tiny target has a few seconds, on a machine that may be busy."""
    monkeypatch.setattr(quick, "LEAST_CONVERSATIONS", 2)
    monkeypatch.setattr(quick, "LEAST_TOKENS", 50)
    monkeypatch.setattr(quick, "suitable_rows", lambda model, seconds: 8)


def run(pair: Pair, folder: Path, stop_in: str | None = None, budget: float = BUDGET) -> Status:
    """A sitting; `stop_in` is the phase in which somebody presses Stop, once there is something in it."""

    def tell(status: Status) -> None:
        begun = {
            "corpus": status.corpus.get("tokens"),
            "training": status.training.get("tokens"),
            "calibrating": status.calibrating.get("done"),
        }
        if status.phase == stop_in and begun[stop_in]:
            (folder / STOP).touch()

    with sitting(folder, "tiny", budget) as status:
        quick.heads(pair, folder, status, tell=tell)
    return read(folder)


def test_a_run_ends_with_calibrated_heads(pair, tmp_path):
    seen: list[tuple[str, float]] = []
    with sitting(tmp_path, "tiny", BUDGET) as status:
        quick.heads(pair, tmp_path, status, tell=lambda told: seen.append((told.phase, told.seconds)))
    told = read(tmp_path)
    assert (told.phase, told.fault) == ("done", None)
    assert list(dict.fromkeys(phase for phase, _ in seen)) == ["corpus", "training", "calibrating", "done"]
    assert [seconds for _, seconds in seen] == sorted(seconds for _, seconds in seen)
    texts, facts = Corpus.load(tmp_path / quick.TEXTS), json.loads((tmp_path / "medusa.json").read_text())
    assert (len(texts), len(texts.tokens)) == (told.corpus["conversations"], told.corpus["tokens"])
    assert facts["corpus"]["source"] == "self-distilled" and facts["recipe"]["labels"] == "soft"
    assert (
        set(facts["calibration"]) == {"prompts", "answer_tokens", "longest"}
        and facts["calibration"]["prompts"] == told.calibrating["prompts"]
    )
    heads = load_medusa(tmp_path, lm_head(pair.target))
    assert heads.count == quick.HEADS and len(heads.accuracies) == quick.HEADS
    assert heads.info.name == tmp_path.name, "a trace would not say which heads these are"
    assert told.training["tokens"] == read_log(tmp_path)[-1].tokens > 0
    assert not (tmp_path / quick.CORPUS).exists() and not (tmp_path / CHECKPOINT).exists()


def test_the_phases_keep_to_their_shares_of_the_budget(pair, tmp_path):
    starts: dict[str, float] = {}
    with sitting(tmp_path, "tiny", BUDGET) as status:
        quick.heads(pair, tmp_path, status, tell=lambda told: starts.setdefault(told.phase, told.seconds) and None)
    assert starts["training"] >= 0.75 * 60 * BUDGET
    assert starts["training"] <= 0.75 * 60 * BUDGET + 2.0, "the texts took longer than they may"
    assert (
        status.training["minutes"] == pytest.approx((0.92 * 60 * BUDGET - starts["training"]) / 60, abs=0.005)
        or status.training["minutes"] == 0.05
    )


def test_stopped_while_it_writes_it_goes_on_with_what_was_written(pair, tmp_path):
    told = run(pair, tmp_path, "corpus")
    assert (told.phase, told.at) == ("stopped", "corpus")
    assert not (tmp_path / "medusa.safetensors").exists()
    before = Corpus.join([Corpus.load(part) for part in (tmp_path / quick.CORPUS).glob("*.safetensors")])
    assert len(before) and told.seconds < 0.75 * 60 * BUDGET
    told = run(pair, tmp_path)
    assert told.phase == "done"
    after = Corpus.load(tmp_path / quick.TEXTS)
    kept = {after.tokens[after.conversation(i)].numpy().tobytes() for i in range(len(after))}
    assert {before.tokens[before.conversation(i)].numpy().tobytes() for i in range(len(before))} <= kept


def test_stopped_while_they_learn_the_heads_can_be_used_and_learn_on(pair, tmp_path):
    told = run(pair, tmp_path, "training", budget=0.4)
    assert (told.phase, told.at) == ("stopped", "training")
    facts = json.loads((tmp_path / "medusa.json").read_text())
    assert facts["accuracies"] == facts["held_out"]["text_accuracies"] and facts["calibration"] == {"on": "held-out texts"}
    assert load_medusa(tmp_path, lm_head(pair.target)).accuracies is not None
    steps, weights = read_log(tmp_path)[-1].step, load_file(tmp_path / "medusa.safetensors")
    told = run(pair, tmp_path, budget=0.4)
    assert told.phase == "done"
    assert read_log(tmp_path)[-1].step > steps, "it began anew"
    assert any(not torch.equal(tensor, weights[name]) for name, tensor in load_file(tmp_path / "medusa.safetensors").items())
    assert "prompts" in json.loads((tmp_path / "medusa.json").read_text())["calibration"]


def test_stopped_while_they_are_calibrated_only_that_is_done_again(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(quick, "Pulse", lambda seconds: Pulse(0.0))  # Stop is pressed in time, however soon they are calibrated
    told = run(pair, tmp_path, "calibrating")
    assert (told.phase, told.at) == ("stopped", "calibrating")
    steps = read_log(tmp_path)[-1].step
    assert "on" in json.loads((tmp_path / "medusa.json").read_text())["calibration"]
    assert run(pair, tmp_path).phase == "done"
    assert read_log(tmp_path)[-1].step == steps
    assert "prompts" in json.loads((tmp_path / "medusa.json").read_text())["calibration"]


def test_stopped_between_two_phases_nothing_is_lost(pair, tmp_path):
    texts = tmp_path / quick.TEXTS
    with sitting(tmp_path, "tiny", BUDGET) as status:
        quick.heads(pair, tmp_path, status, stopped=texts.is_dir)
    assert (read(tmp_path).phase, read(tmp_path).at) == ("stopped", "corpus")
    conversations = len(Corpus.load(texts))
    assert run(pair, tmp_path).phase == "done"
    assert len(Corpus.load(texts)) == conversations


def test_a_budget_that_is_too_small_is_one_sentence(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(quick, "LEAST_CONVERSATIONS", 10**6)
    with pytest.raises(Fault, match=r"0\.02 min is too small") as fault:
        run(pair, tmp_path, budget=0.02)
    told = read(tmp_path)
    assert (told.phase, told.fault) == ("failed", {"key": fault.value.key, "values": fault.value.values})


def test_a_full_disk_is_one_sentence_and_leaves_room_to_say_it(pair, tmp_path, monkeypatch):
    def full(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("specviz.models.files.save_file", full)
    with pytest.raises(Fault) as fault:
        run(pair, tmp_path)
    assert fault.value.key == "training.disk_full"
    assert read(tmp_path).fault["key"] == "training.disk_full"
    assert not list(tmp_path.rglob("*.part"))


def test_a_disk_that_fills_up_while_heads_are_saved_is_the_same_sentence(pair, tmp_path, monkeypatch):
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specviz.training.medusa.write_tensors", full)
    with pytest.raises(Fault) as fault:
        run(pair, tmp_path)
    assert fault.value.key == "training.disk_full"
    monkeypatch.undo()
    monkeypatch.setattr(quick, "LEAST_CONVERSATIONS", 2)
    assert run(pair, tmp_path).phase == "done", "with room again it goes on"


def test_rows_are_as_many_as_bring_the_most(pair, monkeypatch):
    monkeypatch.undo()
    tried: list[int] = []

    def timed(seconds_of_rows):
        def step(model: object, rows: int, steps: int = 3) -> float:
            tried.append(rows)
            return seconds_of_rows(rows)

        return step

    monkeypatch.setattr(quick, "step_seconds", timed(lambda rows: 0.01))  # rows cost nothing
    assert quick.suitable_rows(pair.target, 60.0) == quick.MOST_ROWS
    monkeypatch.setattr(quick, "step_seconds", timed(lambda rows: 0.01 * rows))  # rows save nothing
    assert quick.suitable_rows(pair.target, 600.0) == quick.LEAST_ROWS
    monkeypatch.setattr(quick, "step_seconds", timed(lambda rows: 0.1 + 0.01 * rows))
    by_hand = max([4, 8, 16, 32, 64, 128, 192], key=lambda rows: rows * (300 / (0.1 + 0.01 * rows) - quick.LOST))
    assert quick.suitable_rows(pair.target, 300.0) == by_hand == 32
    monkeypatch.setattr(quick, "free_memory", lambda device: 0)
    assert quick.suitable_rows(pair.target, 1e6) == quick.LEAST_ROWS


def test_a_step_is_timed(pair):
    assert 0 < quick.step_seconds(pair.target, 4) < 5


def test_gathered_texts_have_no_gaps_and_the_shortest_answers_come_last(pair, tmp_path):
    folder = tmp_path / "corpus"
    write(pair, Settings(tokens=3000, rows=8, seed=2), folder)
    parts = [Corpus.load(part) for part in folder.glob("*.safetensors")]
    whole = Corpus.join(parts)
    first = whole.conversation(0)
    learned = whole.learned.clone()
    learned[first.start : first.stop - 2] = False  # the first answer has two words now
    for part in folder.glob("*.safetensors"):
        part.unlink()
    replace(whole, learned=learned, numbers=whole.numbers + 5).save(folder / "00000.safetensors")
    quick.gather(folder, tmp_path / "texts")
    texts = Corpus.load(tmp_path / "texts")
    assert not folder.exists()
    assert texts.numbers.tolist() == list(range(len(whole)))
    assert settings_of(tmp_path / "texts") | {"tokens": 0} == {**settings_of(tmp_path / "texts"), "tokens": 0}
    assert torch.equal(texts.tokens[texts.conversation(0)], whole.tokens[whole.conversation(1)])
    short = [int(texts.learned[texts.conversation(i)].sum()) < 2 * quick.HEADS for i in range(len(texts))]
    assert short == sorted(short) and short[-1]


def test_writing_stops_when_it_is_told_to(pair, tmp_path):
    steps = iter(range(400))
    write(pair, Settings(tokens=10**6, rows=4), tmp_path, stopped=lambda: next(steps) == 399)
    assert 0 < sum(sizes_of(tmp_path).values()) < 4 * 400
