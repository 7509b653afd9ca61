"""The training loop, on a task of eight numbers: it must go on exactly where it stopped, and fail without harm."""

import dataclasses
import errno
import json
import math
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from specviz.i18n import Fault
from specviz.models import files
from specviz.training import data, loop
from specviz.training.corpus import Corpus
from tests.models.test_files import FULL
from tests.training.texts import texts_of

SCHEDULE = loop.Schedule(epochs=2, batch=24, peak=0.1, warmup=0.1, decay=0.01, seed=3)
FACTS: dict[str, Any] = {"corpus": {"source": "made by hand"}}
LENGTHS = [5 + i % 7 for i in range(90)]


@pytest.fixture(scope="module", autouse=True)
def look_as_often_as_asked() -> Iterator[None]:
    """Here a step takes no longer than a look."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "LOOKING", math.inf)
        yield


class Numbers:
    """Learns the mean of the states, through noise that is drawn anew in every step; `before` is called at each."""

    def __init__(self, corpus: Corpus, before: Callable[[data.Batch], None] = lambda batch: None):
        self.corpus, self.before = corpus, before
        self.weight, self.fast = torch.zeros(8, requires_grad=True), torch.zeros(1, requires_grad=True)
        self.looks = 0

    def parameters(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "fast": self.fast}

    def groups(self) -> list[tuple[list[Tensor], float]]:
        return [([self.weight], 1.0), ([self.fast], 4.0)]

    def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
        assert len(batch.places)
        self.before(batch)
        noise = torch.randn(8, generator=torch.Generator().manual_seed(batch.number))
        far = self.weight + self.fast - self.corpus.hidden[batch.rows] - noise
        return {"near": (1.0, far.pow(2).mean()), "small": (0.1, self.weight.pow(2).mean())}

    def held_out(self) -> dict[str, Any]:
        self.looks += 1
        return {"size": float(self.weight.detach().norm())}

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        files.write_tensors(self.parameters(), folder / "numbers.safetensors")
        files.write_text(json.dumps(facts), folder / "numbers.json")


@pytest.fixture(scope="module")
def texts() -> Corpus:
    """Ninety conversations; the shortest have nothing that is learned."""
    return texts_of(*([i, *range(length)] for i, length in enumerate(LENGTHS)), learned=[[length > 5] * (length + 1) for length in LENGTHS])


def interrupt_at(step: int) -> Callable[[data.Batch], None]:
    """Ctrl-C at a step, or at the next one in which something is learned."""

    def interrupt(batch: data.Batch) -> None:
        if batch.number >= step:
            raise KeyboardInterrupt

    return interrupt


def trained(texts: Corpus, folder: Path, schedule: loop.Schedule = SCHEDULE, before: Callable[[data.Batch], None] = lambda batch: None):
    task = Numbers(texts, before)
    return task, list(loop.fit(task, texts, schedule, folder, FACTS))


@pytest.fixture(scope="module")
def whole(texts: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Numbers, list[loop.Entry], Path]:
    folder = tmp_path_factory.mktemp("whole")
    return *trained(texts, folder), folder


def same(one: Numbers, other: Numbers) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters().values(), other.parameters().values(), strict=True))


def test_the_same_seed_gives_the_same_weights(texts: Corpus, whole, tmp_path: Path):
    assert same(whole[0], trained(texts, tmp_path / "again")[0])
    assert not same(whole[0], trained(texts, tmp_path / "other", dataclasses.replace(SCHEDULE, seed=4))[0])


def test_what_a_run_leaves_behind(whole):
    task, entries, folder = whole
    assert sorted(path.name for path in folder.iterdir()) == ["log.jsonl", "numbers.json", "numbers.safetensors"]
    assert torch.equal(load_file(folder / "numbers.safetensors")["weight"], task.weight)
    assert loop.read_log(folder) == entries and loop.names_of(entries) == ["near", "small"]
    assert entries[-1].done == 1 and [entry.step for entry in entries] == sorted(entry.step for entry in entries)
    assert task.looks == sum(entry.held_out is not None for entry in entries) == loop.LOOKS
    facts = json.loads((folder / "numbers.json").read_text())
    assert facts["corpus"] == FACTS["corpus"] and facts["held_out"] == entries[-1].held_out
    spent = {"seconds": round(entries[-1].seconds), "tokens": entries[-1].tokens}
    assert facts["run"] == {"schedule": dataclasses.asdict(SCHEDULE), "step": entries[-1].step, **spent}
    places = sum(length + 1 for i, length in enumerate(LENGTHS) if i % 32 and length > 5)
    assert entries[-1].tokens == 2 * places  # two epochs


def test_a_line_of_the_log_holds_the_mean_losses_since_the_last(texts: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "LOGGED", 5)
    monkeypatch.setattr(loop, "LOOKS", 1)
    seen: dict[int, float] = {}

    class Told(Numbers):
        def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
            terms = super().losses(batch)
            seen[batch.number] = terms["near"][1].item()
            return terms

    before = 0
    for entry in loop.fit(Told(texts), texts, SCHEDULE, tmp_path, FACTS):
        losses = [loss for number, loss in seen.items() if before <= number < entry.step]
        assert (entry.step % 5 == 0) == (entry.held_out is None) or entry.done == 1
        assert entry.losses["near"] == pytest.approx(sum(losses) / len(losses))
        before = entry.step
    assert before > 20


@pytest.mark.parametrize("steps", [(0,), (1,), (7, 8), (3, 11, 30)])
def test_an_interrupted_run_goes_on_to_the_very_same_weights(steps: tuple[int, ...], texts: Corpus, whole, tmp_path: Path):
    for step in steps:
        with pytest.raises(KeyboardInterrupt):
            trained(texts, tmp_path, before=interrupt_at(step))
        assert (tmp_path / loop.CHECKPOINT).is_file()
    task, entries = trained(texts, tmp_path)
    assert same(task, whole[0]) and not (tmp_path / loop.CHECKPOINT).exists()
    assert [entry.step for entry in entries if entry.held_out] == [e.step for e in whole[1] if e.held_out and e.step > steps[-1]]
    log = loop.read_log(tmp_path)
    assert [entry.step for entry in log] == sorted({entry.step for entry in log}) and log[-1].tokens == whole[1][-1].tokens


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_is_interrupted_in_its_middle_is_finished_first(number: int, texts, whole, tmp_path: Path, monkeypatch):
    """Half of the weights moved, or all of them and the step not counted, would be no state to go on from."""
    update, steps = torch.optim.AdamW.step, []

    def interrupted(self: torch.optim.AdamW) -> None:
        steps.append(update(self))
        if len(steps) == 9:
            signal.raise_signal(number)

    before = signal.signal(number, signal.default_int_handler)
    try:
        monkeypatch.setattr(torch.optim.AdamW, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained(texts, tmp_path)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert same(trained(texts, tmp_path)[0], whole[0])


def test_a_run_that_is_stopped_is_saved_and_can_go_on(texts: Corpus, whole, tmp_path: Path):
    task = Numbers(texts)
    answers = iter([False] * 12 + [True] * 99)
    entries = list(loop.fit(task, texts, SCHEDULE, tmp_path, FACTS, lambda: next(answers)))
    assert entries[-1].step == 12 and 0 < entries[-1].done < 1 and entries[-1].held_out == {"size": float(task.weight.detach().norm())}
    assert torch.equal(load_file(tmp_path / "numbers.safetensors")["weight"], task.weight) and (tmp_path / loop.CHECKPOINT).is_file()
    assert same(trained(texts, tmp_path)[0], whole[0])


def test_a_run_that_nobody_reads_any_more_can_go_on(texts: Corpus, whole, tmp_path: Path):
    entries: Iterator[loop.Entry] = loop.fit(Numbers(texts), texts, SCHEDULE, tmp_path, FACTS)
    assert next(entries).done < 1
    entries.close()
    assert (tmp_path / loop.CHECKPOINT).is_file()
    assert same(trained(texts, tmp_path)[0], whole[0])


def test_a_finished_run_leaves_nothing_to_go_on_from_even_where_its_last_line_is_not_read_on(texts: Corpus, tmp_path: Path):
    entries = loop.fit(Numbers(texts), texts, SCHEDULE, tmp_path, FACTS)
    while next(entries).done < 1:
        pass
    entries.close()
    assert not (tmp_path / loop.CHECKPOINT).exists()


def test_a_finished_folder_that_is_trained_again_starts_anew(texts: Corpus, whole, tmp_path: Path):
    trained(texts, tmp_path)
    task, entries = trained(texts, tmp_path)
    assert same(task, whole[0]) and loop.read_log(tmp_path) == entries


def test_another_run_is_not_taken_up(texts: Corpus, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        trained(texts, tmp_path, before=interrupt_at(4))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for other in ({"peak": 0.2}, {"epochs": 3.0}, {"minutes": 1.0}, {"seed": 0}):
        with pytest.raises(Fault, match="other settings"):
            trained(texts, tmp_path, dataclasses.replace(SCHEDULE, **other))
    for facts in ({"corpus": {"source": "another"}}, {**FACTS, "start": {"sha256": "1"}}, {}):
        with pytest.raises(Fault, match="other settings"):
            list(loop.fit(Numbers(texts), texts, SCHEDULE, tmp_path, facts))

    class Larger(Numbers):
        def __init__(self, corpus: Corpus):
            super().__init__(corpus)
            self.weight = torch.zeros(9, requires_grad=True)

    with pytest.raises(Fault, match="other settings"):
        list(loop.fit(Larger(texts), texts, SCHEDULE, tmp_path, FACTS))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run_and_harms_nothing(value: float, texts: Corpus, tmp_path: Path):
    trained(texts, tmp_path)
    saved = (tmp_path / "numbers.safetensors").read_bytes()

    class Broken(Numbers):
        def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
            terms = super().losses(batch)
            return {"near": (1.0, terms["near"][1] * (value if batch.number == 2 else 1.0))}

    task = Broken(texts)
    with pytest.raises(Fault) as caught:
        list(loop.fit(task, texts, SCHEDULE, tmp_path, FACTS))
    assert caught.value.key == "training.not_finite" and caught.value.values["step"] == "3"
    assert (tmp_path / "numbers.safetensors").read_bytes() == saved and task.weight.isfinite().all()
    trained(texts, tmp_path, dataclasses.replace(SCHEDULE, peak=0.01))  # the folder can be used again


def test_a_gradient_that_is_no_number_ends_the_run_too(texts: Corpus, tmp_path: Path):
    class Broken(Numbers):
        def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
            return {"root": (1.0, self.weight.abs().sqrt().sum() + 0 * self.fast.sum())}  # at 0 its slope is infinite

    with pytest.raises(Fault, match="At step 1"):
        list(loop.fit(Broken(texts), texts, SCHEDULE, tmp_path, FACTS))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError(FULL)], ids=["system", "safetensors"])
@pytest.mark.parametrize("name", ["numbers.safetensors", loop.CHECKPOINT])
def test_on_a_full_disk_what_was_written_stays(error: Exception, name: str, texts: Corpus, tmp_path: Path, monkeypatch, whole):
    monkeypatch.setattr(loop, "SAVED", -1.0)  # a checkpoint a step
    save, written = files.save_file, []

    def until_full(tensors: dict[str, Tensor], path: Path, metadata: object) -> None:
        written.append(path.name)
        if path.name.startswith(f"{name}.") and written.count(path.name) == 3:
            path.write_bytes(b"half")
            raise error
        save(tensors, path, metadata)

    monkeypatch.setattr(files, "save_file", until_full)
    with pytest.raises(Fault) as caught:
        trained(texts, tmp_path)
    assert caught.value.key == "training.disk_full" and str(tmp_path) in str(caught.value)
    assert not list(tmp_path.glob("*.part")) and len(load_file(tmp_path / "numbers.safetensors" if "numbers" in name else tmp_path / name))
    assert same(trained(texts, tmp_path)[0], whole[0])  # there is room again: it goes on from the last checkpoint


def test_a_folder_that_cannot_be_made_is_said(texts: Corpus, tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(Fault, match="could not be written"):
        trained(texts, tmp_path / "taken" / "run")


def test_what_was_logged_after_the_checkpoint_is_forgotten(texts: Corpus, whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As after a kill, which leaves an older checkpoint and half a line."""
    monkeypatch.setattr(loop, "LOGGED", 2)
    with pytest.raises(KeyboardInterrupt):
        trained(texts, tmp_path, before=interrupt_at(6))
    kept = loop.read_log(tmp_path)
    late = [dataclasses.replace(kept[-1], step=step) for step in (8, 10)]
    with (tmp_path / loop.LOG).open("a", encoding="utf-8") as log:
        log.write("".join(json.dumps(dataclasses.asdict(entry)) + "\n" for entry in late) + '{"step": 12, "do')
    assert loop.read_log(tmp_path) == kept + late  # the line that is not over is no line yet
    task, entries = trained(texts, tmp_path)
    assert loop.read_log(tmp_path) == kept + entries and same(task, whole[0])
    assert loop.read_log(tmp_path / "nothing") == []


class Clock:
    """Time that passes only in steps."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


def test_by_the_clock_a_run_ends_by_the_clock(texts: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    schedule = dataclasses.replace(SCHEDULE, minutes=2.0, epochs=0.001)
    entries = trained(texts, tmp_path, schedule, lambda batch: clock.tick(1.5))[1]
    steps = len([length for length in LENGTHS if length > 5])
    assert 80 <= entries[-1].step < 80 + steps and entries[-1].seconds == 120 and entries[-1].done == 1
    assert [entry.step for entry in entries] == sorted(entry.step for entry in entries) and not (tmp_path / loop.CHECKPOINT).exists()


def test_by_the_clock_an_interrupted_run_has_only_the_rest_of_its_time(texts: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    schedule = dataclasses.replace(SCHEDULE, minutes=1.0)

    def go_on(batch: data.Batch) -> None:
        clock.tick(1.0)
        if batch.number == 40 and clock.now < 1050:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(texts, tmp_path, schedule, go_on)
    used = clock.now - 1000
    clock.tick(10_000)  # over night
    entries = trained(texts, tmp_path, schedule, go_on)[1]
    assert clock.now - 11_000 == 60 > used > 30 and entries[-1].seconds == 60


def test_checkpoints_are_written_by_the_clock(texts: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock, seen = Clock(), []
    monkeypatch.setattr(loop, "time", clock)

    def look(batch: data.Batch) -> None:
        clock.tick(loop.SAVED / 4)
        seen.append((tmp_path / loop.CHECKPOINT).stat().st_mtime_ns if (tmp_path / loop.CHECKPOINT).exists() else 0)

    trained(texts, tmp_path, before=look)
    assert seen[:5] == [0] * 5 and len(set(seen)) == pytest.approx(len(seen) / 5, abs=2)


def test_looks_take_no_more_than_their_share_of_the_time(texts: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(loop, "LOOKING", 0.2)

    class Slow(Numbers):
        def held_out(self) -> dict[str, Any]:
            clock.tick(30.0)
            return super().held_out()

    schedule = dataclasses.replace(SCHEDULE, minutes=10.0)
    task = Slow(texts, lambda batch: clock.tick(1.0))
    entries = list(loop.fit(task, texts, schedule, tmp_path, FACTS))
    assert [entry.seconds for entry in entries if entry.held_out] == pytest.approx([90, 180, 330, 480, 630], abs=3)
    assert entries[-1].held_out and task.looks < loop.LOOKS


def test_the_rate_warms_up_and_follows_a_cosine_and_every_group_has_its_factor(texts: Corpus, tmp_path: Path, monkeypatch):
    update, rates = torch.optim.AdamW.step, []

    def told(self: torch.optim.AdamW) -> None:
        rates.append([group["lr"] for group in self.param_groups])
        update(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", told)
    schedule = dataclasses.replace(SCHEDULE, epochs=1)
    every = dataclasses.replace(texts, learned=torch.ones_like(texts.learned))
    steps = trained(every, tmp_path, schedule)[1][-1].step
    slow = [rate for rate, _ in rates]
    assert len(rates) == steps and all(math.isclose(fast, 4 * rate) for rate, fast in rates)
    expected = [0.1 * data.learning_rate((step + 0.5) / steps, 0.1) for step in range(steps)]
    assert slow == pytest.approx(expected) and min(slow) > 0 and 0.09 < max(slow) <= 0.1


def test_a_run_of_one_step_learns(texts: Corpus, tmp_path: Path):
    task, entries = trained(texts, tmp_path, dataclasses.replace(SCHEDULE, epochs=0.001))
    assert entries[-1].step == 1 and entries[-1].done == 1 and task.weight.abs().sum() > 0


def test_a_batch_in_which_nothing_is_learned_is_passed_over(tmp_path: Path):
    marks = [[i % 4 == 1] * 6 for i in range(64)]
    texts = texts_of(*([i] * 6 for i in range(64)), learned=marks)
    schedule = dataclasses.replace(SCHEDULE, batch=6)
    task, entries = trained(texts, tmp_path / "all", schedule)
    assert entries[-1].tokens == 2 * 6 * 16 and entries[-1].step == 2 * 62  # `Numbers` itself refuses a batch without places
    with pytest.raises(KeyboardInterrupt):
        trained(texts, tmp_path / "part", schedule, interrupt_at(70))
    assert same(trained(texts, tmp_path / "part", schedule)[0], task)


@pytest.mark.parametrize("learned", [[0], [0, 32]])
def test_where_only_held_out_conversations_have_answers_there_is_nothing_to_learn(learned: list[int], tmp_path: Path):
    texts = texts_of(*([i] * 4 for i in range(40)), learned=[[i in learned] * 4 for i in range(40)])
    with pytest.raises(Fault, match="Nothing can be learned"):
        trained(texts, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_off_the_main_thread_a_run_does_without_signals(texts: Corpus, whole, tmp_path: Path):
    found = []
    thread = threading.Thread(target=lambda: found.append(trained(texts, tmp_path)[0]))
    thread.start()
    thread.join()
    assert same(found[0], whole[0])
