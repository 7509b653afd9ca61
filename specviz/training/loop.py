"""How anything here is trained: batches of conversations, AdamW, warm-up and a cosine, a log, checkpoints.

A run lives in a folder: what is trained under its own name, `log.jsonl` (a line each entry), `curves.svg`, and, until it is over,
`checkpoint.safetensors`, from which an interrupted run is taken up. What is written replaces what was there whole or not at all.
"""

import contextlib
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors import safe_open
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.files import write_tensors, write_text, writing
from specviz.training import data
from specviz.training.corpus import Corpus

CHECKPOINT, LOG, CURVES = "checkpoint.safetensors", "log.jsonl", "curves.svg"
LOGGED = 20  # steps between two entries
LOOKS, LOOKING = 10, 0.2  # how often in a run the held-out conversations are looked at, and the share of the time that it may take
SAVED = 120.0  # seconds between two checkpoints


@dataclass(frozen=True)
class Schedule:
    """How long, how fast. A run ends after `epochs`, or, where `minutes` is given, by the clock; `batch` counts tokens after padding.

    `warmup` is a share of the run. With epochs the same seed gives the same weights; by the clock it cannot.
    """

    epochs: float = 1.0
    minutes: float | None = None
    batch: int = 2048
    peak: float = 1e-3
    warmup: float = 0.05
    decay: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Entry:
    """A line of the log: where a run stands, the mean losses since the last entry, and now and then the held-out figures."""

    step: int
    done: float  # share of the run
    seconds: float
    tokens: int
    losses: dict[str, float]
    held_out: dict[str, Any] | None = None


@runtime_checkable
class Task(Protocol):
    """Something to be trained."""

    def parameters(self) -> dict[str, Tensor]:
        """The trained tensors by name."""
        ...

    def groups(self) -> list[tuple[list[Tensor], float]]:
        """The same in groups, each with its factor on the learning rate."""
        ...

    def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
        """Named terms of the loss with their weights: Σ weight · term is what is minimised."""
        ...

    def held_out(self) -> dict[str, Any]:
        """Figures on conversations that are never trained on."""
        ...

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        """Write what is trained, and `facts` beside it."""
        ...


def fit(
    task: Task, corpus: Corpus, schedule: Schedule, folder: Path, facts: dict[str, Any], stopped: Callable[[], bool] = lambda: False
) -> Iterator[Entry]:
    """Train `task` and save it in `folder`, yielding the log as it grows; a run that `folder` holds unfinished goes on.

    `stopped` ends the run early with what has been learned saved and the checkpoint kept; an interrupt, or the end of whoever reads the
    log, keeps the checkpoint too. Raises Fault when there is nothing to learn, a loss is no number (the last save stays), or the disk
    is full.
    """
    data.keep_freed_memory()
    learned = data.split(corpus)[0]
    if not any(bool(corpus.learned[corpus.conversation(i)].any()) for i in learned):
        raise Fault("training.nothing_to_learn")
    with writing(folder):
        run = _Run(task, corpus, schedule, folder, facts, learned)
        try:
            yield from run.entries(stopped)
        except (KeyboardInterrupt, GeneratorExit):
            run.leave()
            raise


@dataclass
class _Run:
    """The state of a run."""

    task: Task
    corpus: Corpus
    schedule: Schedule
    folder: Path
    facts: dict[str, Any]
    learned: list[int]
    step: int = 0
    tokens: int = 0
    before: float = 0.0  # seconds of earlier sittings
    looking: float = 0.0  # seconds of this sitting
    over: bool = False
    recent: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        groups = [{"params": weights, "factor": factor} for weights, factor in self.task.groups()]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), weight_decay=self.schedule.decay, lr=0.0)
        self.began, self.saved = time.monotonic(), time.monotonic()
        self.per_epoch = len(self._epoch(0))
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / CHECKPOINT).is_file():
            self._resume()
        else:
            (self.folder / LOG).write_text("", encoding="utf-8")

    @property
    def seconds(self) -> float:
        """Of all sittings."""
        return self.before + time.monotonic() - self.began

    @property
    def steps(self) -> int:
        """Of the whole run, where it is counted in epochs."""
        return max(1, round(self.schedule.epochs * self.per_epoch))

    @property
    def done(self) -> float:
        """Share of the run."""
        if self.schedule.minutes is not None:
            return min(1.0, self.seconds / (60 * self.schedule.minutes))
        return min(1.0, self.step / self.steps)

    def entries(self, stopped: Callable[[], bool]) -> Iterator[Entry]:
        """Train, and tell."""
        looked = math.floor(self.done * LOOKS)
        for conversations in islice(self._batches(), self.step, None):
            if self.done >= 1 or stopped():
                break
            self._advance(replace(data.batch_of(self.corpus, conversations), number=self.step))
            look = math.floor(self.done * LOOKS) > looked and self.looking <= LOOKING * self.seconds
            if look and self.done < 1:
                looked = math.floor(self.done * LOOKS)
                yield self._look()
            elif self.step % LOGGED == 0 and self.recent:
                yield self._entry(None)
            if time.monotonic() - self.saved > SAVED:
                self.checkpoint()
        self.over, last = self.done >= 1, self._look()
        self.leave()
        yield last

    def leave(self) -> None:
        """Keep what it takes to go on, as long as there is something left to do."""
        if self.over:
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
        else:
            self.checkpoint()

    def _epoch(self, number: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(self.schedule.seed + 1_000_003 * number)
        return list(data.batches(self.corpus, self.learned, self.schedule.batch, generator))

    def _batches(self) -> Iterator[list[int]]:
        epoch = 0
        while True:
            yield from self._epoch(epoch)
            epoch += 1

    def _advance(self, batch: data.Batch) -> None:
        """One step; a batch in which nothing is learned is passed over. Interrupted, it has happened or it has not."""
        terms = self.task.losses(batch) if len(batch.places) else {}
        if terms:
            loss = torch.stack([weight * term for weight, term in terms.values()]).sum()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_([w for group in self.optimizer.param_groups for w in group["params"]], 1.0)
            if not (math.isfinite(float(loss.detach())) and math.isfinite(float(norm))):
                (self.folder / CHECKPOINT).unlink(missing_ok=True)  # going on from it would end here again
                raise Fault("training.not_finite", step=self.step + 1, folder=self.folder)
        with _unbroken():
            if terms:
                self._update()
                self.tokens += len(batch.rows)
                self.recent.append({name: float(term.detach()) for name, (_, term) in terms.items()})
            self.step += 1

    def _update(self) -> None:
        half = 0.0 if self.schedule.minutes is not None else 0.5 / self.steps  # of the coming step: neither end of the curve is wasted
        rate = self.schedule.peak * data.learning_rate(self.done + half, self.schedule.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _look(self) -> Entry:
        began = time.monotonic()
        entry = self._entry(self.task.held_out())
        self.looking += time.monotonic() - began
        self.task.save(self.folder, {**self.facts, "held_out": entry.held_out, "run": self._account(entry)})
        return entry

    def _account(self, entry: Entry) -> dict[str, Any]:
        return {"schedule": asdict(self.schedule), "step": entry.step, "seconds": round(entry.seconds), "tokens": entry.tokens}

    def _entry(self, held_out: dict[str, Any] | None) -> Entry:
        names = self.recent[-1] if self.recent else {}
        losses = {name: sum(row[name] for row in self.recent) / len(self.recent) for name in names}
        entry = Entry(self.step, round(self.done, 5), round(self.seconds, 1), self.tokens, losses, held_out)
        self.recent = []
        with (self.folder / LOG).open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(entry)) + "\n")
        return entry

    def checkpoint(self) -> None:
        """Write what it takes to go on."""
        tensors = {f"weight.{name}": weight.detach() for name, weight in self.task.parameters().items()}
        for name, weight in self.task.parameters().items():
            tensors |= {f"{key}.{name}": moment for key, moment in self.optimizer.state.get(weight, {}).items()}
        text = {name: str(getattr(self, name)) for name in ("step", "tokens", "seconds")} | {"settings": self._settings()}
        write_tensors(tensors, self.folder / CHECKPOINT, text)
        data.hand_back_freed_memory()
        self.saved = time.monotonic()

    def _settings(self) -> str:
        """What must be the same for a run to go on."""
        known = {name: self.facts.get(name) for name in ("corpus", "start")}
        return json.dumps({"schedule": asdict(self.schedule), **known}, sort_keys=True)

    def _resume(self) -> None:
        with safe_open(self.folder / CHECKPOINT, "pt") as file:
            facts, names = file.metadata() or {}, set(file.keys())
            mine = self.task.parameters()
            shapes = {name: tuple(file.get_slice(f"weight.{name}").get_shape()) for name in mine if f"weight.{name}" in names}
            same = shapes == {name: tuple(weight.shape) for name, weight in mine.items()}
            if not same or facts.get("settings") != self._settings():
                raise Fault("training.other_run", folder=self.folder)
            self.step, self.tokens, self.before = int(facts["step"]), int(facts["tokens"]), float(facts["seconds"])
            for name, weight in mine.items():
                weight.data.copy_(file.get_tensor(f"weight.{name}"))
                state = {key: file.get_tensor(f"{key}.{name}") for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}.{name}" in names}
                if state:  # AdamW counts its steps on the CPU
                    self.optimizer.state[weight] = {key: kept if key == "step" else kept.to(weight.device) for key, kept in state.items()}
        _cut_log(self.folder / LOG, self.step)


@contextlib.contextmanager
def _unbroken() -> Iterator[None]:
    """Hold signals back until the block is over: half of a step is no state to go on from."""
    main = threading.current_thread() is threading.main_thread()
    found = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)] if main else []
    handlers = [(number, handler) for number, handler in found if callable(handler)]
    came: list[int] = []
    for number, _ in handlers:
        signal.signal(number, lambda which, frame: came.append(which))
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
    for number, handler in handlers:
        if number in came:
            handler(number, None)


def read_log(folder: Path) -> list[Entry]:
    """The entries of a run, also of one that is still going on: a line that is not complete yet is left out."""
    path = folder / LOG
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
    return [Entry(**json.loads(line)) for line in lines]


def _cut_log(path: Path, step: int) -> None:
    """Forget what was logged after the checkpoint: it will be done again."""
    kept = [entry for entry in read_log(path.parent) if entry.step <= step]
    write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in kept), path)


def names_of(entries: Sequence[Entry]) -> list[str]:
    """The losses of a log, in order."""
    return list(dict.fromkeys(name for entry in entries for name in entry.losses))
