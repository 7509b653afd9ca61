"""Medusa heads for any pair within a budget of minutes: the target writes texts, heads learn from them, and their tree is calibrated.

Most of the time goes into the texts: writing a token takes tens of times as long as learning from it, and heads that read little text
over and over learn it by heart. The rest goes into training, by the clock, and into measuring the heads on greedy answers. Everything
lies in one folder: `status.json` (see status.py), the texts, and the heads with their log, as `train medusa` leaves them. A run that was
stopped goes on where it was.

By the clock no two runs are alike. The conversations that are not over when the time for them is up are lost, so what is left leans a
little towards short answers.
"""

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from specviz.engine.lm import LanguageModel, Pair
from specviz.engine.memory import memory
from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa
from specviz.models.device import free_memory
from specviz.models.files import write_text, writing
from specviz.models.output import lm_head
from specviz.training import calibrate, data, make, medusa
from specviz.training.batched import decoder
from specviz.training.card import write_cards
from specviz.training.corpus import ANSWER_TOKENS, USER_TOKENS, Corpus, Settings, claim, settings_of, sizes_of, write
from specviz.training.status import SHARES, STOP, WORK, Phase, Pulse, Status

Tell = Callable[[Status], None]
Stopped = Callable[[], bool]

HEADS, BLOCKS = 4, 3  # three residual blocks learn more from the same text than one: docs/training.md has the figures
MOST_TOKENS, MOST_BYTES = 1_000_000, 2e9  # of a corpus, and of its states, in memory and on the disk
LEAST_ROWS, MOST_ROWS = 4, 192
CACHES = 0.25  # of the free memory, for the keys and values of all rows
TURN = USER_TOKENS + ANSWER_TOKENS + 64  # tokens of the longest conversation; assumed: the template around it has no more than 64
LOST = 160  # steps of each row that bring nothing: the template at first, half a conversation at last
LEAST_CONVERSATIONS, LEAST_TOKENS = 8, 500  # with fewer there is nothing to learn from; the first is held out
LEAST_ANSWER = 16  # tokens of a calibration answer
BATCH = 1024  # tokens of a step: smaller than with a large corpus, for there is time for few steps
TEXTS, CORPUS = "texts", "corpus"


def never() -> bool:
    """For runs that nobody stops."""
    return False


def heads(pair: Pair, folder: Path, status: Status, stopped: Stopped = never, tell: Tell = lambda status: None) -> None:
    """Do what is left of the run in `folder` (`status` as `status.sitting` gives it); it ends "done" or, when `stopped` says so, "stopped".

    A run that is stopped while it trains leaves heads that can be used. Raises Fault when the budget is too small for this pair on
    this machine, or the disk is full; what was there before stays.
    """
    run = _Run(pair, folder, status, stopped, tell)
    with writing(folder), memory(pair.device_name):
        for phase, work in zip(WORK, (run.write, run.train, run.calibrate), strict=True):
            if WORK.index(phase) < WORK.index(status.at):
                continue
            run.enter(phase)
            work()
            if run.stopped():
                break
    run.leave("stopped" if run.stopped() else "done")


class _Run:
    """A sitting of a run."""

    def __init__(self, pair: Pair, folder: Path, status: Status, stopped: Stopped, tell: Tell):
        self.pair, self.folder, self.status, self.tell = pair, folder, status, tell
        self._asked, self._stop = stopped, folder / STOP
        self.before, self.began = status.seconds, time.monotonic()
        self.pulse, self.head = Pulse(0.5), lm_head(pair.target)

    @property
    def seconds(self) -> float:
        """Of the budget, used so far."""
        return self.before + time.monotonic() - self.began

    def stopped(self) -> bool:
        """Whether somebody asks to stop, here or by a file in the folder. It is asked at every step, so it also keeps the status fresh."""
        self.note()
        return self._asked() or self._stop.exists()

    def enter(self, phase: Phase) -> None:
        """Begin with a phase."""
        self.status.phase = self.status.at = phase
        self.note(at_once=True)

    def leave(self, phase: Phase) -> None:
        """The end."""
        self.status.phase = phase
        self.note(at_once=True)

    def note(self, at_once: bool = False) -> None:
        """Write the status and tell it, at most twice a second."""
        if not (at_once or self.pulse.due()):
            return
        self.status.seconds = round(self.seconds, 2)
        self.status.write(self.folder)
        self.tell(self.status)

    # ---- the phases -----------------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """The target writes for its share of the budget, or until there is as much as is of use."""
        until, facts, target = SHARES["corpus"] * self.status.budget, self.status.corpus, self.pair.target
        folder, texts = self.folder / CORPUS, self.folder / TEXTS
        if texts.is_dir():  # it was stopped between two phases
            return
        began = self.seconds - facts.get("seconds", 0.0)
        if "rows" not in facts:
            facts["rows"] = suitable_rows(target, until - self.seconds)

        def progress(done: int) -> None:
            facts.update(tokens=done, seconds=round(self.seconds - began, 2))

        most = int(min(MOST_TOKENS, MOST_BYTES / (2 * target.shape.width)))
        settings = Settings(tokens=most, rows=int(facts["rows"]))
        write(self.pair, settings, folder, progress, stopped=lambda: self.stopped() or self.seconds >= until)
        progress(int(facts["tokens"]))
        if not self.stopped():
            facts["conversations"] = self.check(folder)
            gather(folder, texts)

    def check(self, folder: Path) -> int:
        """How many conversations were written; raises Fault where that is too little to learn from and to measure with."""
        sizes = sorted(sizes_of(folder).values())
        if len(sizes) < LEAST_CONVERSATIONS or sum(sizes) < LEAST_TOKENS:
            wrote = {"conversations": len(sizes), "tokens": sum(sizes)}
            raise Fault("training.budget_small", minutes=f"{self.status.minutes:g}", **wrote)
        return len(sizes)

    def train(self) -> None:
        """Train until the time for it is up. How long that is is settled once: a checkpoint belongs to a schedule."""
        facts = self.status.training
        if "minutes" not in facts:
            facts["minutes"] = round(max(3.0, (1 - SHARES["calibrating"]) * self.status.budget - self.seconds) / 60, 4)
        recipe = medusa.Recipe(heads=HEADS, layers=BLOCKS, minutes=facts["minutes"], batch=BATCH, labels="soft")
        for entry in make.medusa1(self.head, self.folder / TEXTS, self.folder, recipe, stopped=self.stopped):
            facts.update(tokens=entry.tokens, seconds=entry.seconds, done=entry.done, step=entry.step)
            self.note(at_once=entry.held_out is not None)
        calibrate_on_text(self.folder)

    def calibrate(self) -> None:
        """Measure the heads on greedy answers to held-out prompts: as many and as long as there is time for, and at least one."""
        facts, texts = self.status.calibrating, Corpus.load(self.folder / TEXTS)
        prompts = min(calibrate.PROMPTS, len(data.split(texts)[1]))
        seconds = step_seconds(self.pair.target, prompts)
        steps = int((self.status.budget - self.seconds) / seconds) - max(map(len, calibrate.held_out_prompts(texts)))
        length = min(calibrate.ANSWER, max(LEAST_ANSWER, steps))
        facts.update(prompts=prompts, length=length)

        def progress(done: float) -> None:
            facts["done"] = round(done, 3)
            if self.stopped():
                raise _Stop

        made = replace(self.pair, medusa=load_medusa(self.folder, self.head))
        with contextlib.suppress(_Stop):
            calibrate.medusa(made, texts, self.folder, progress, prompts, length)
        write_cards(self.folder)


class _Stop(Exception):
    """Out of a calibration; the heads keep what was measured on the texts."""


def step_seconds(model: LanguageModel, rows: int, steps: int = 3) -> float:
    """How long a step of `rows` conversations takes: measured, the first one left out."""
    run, tokens = decoder(model, rows, TURN), torch.zeros(rows, dtype=torch.long)
    run.step(tokens, tokens)
    began = time.monotonic()
    for at in range(1, 1 + steps):
        run.step(tokens, tokens + at)
    return (time.monotonic() - began) / steps


def suitable_rows(model: LanguageModel, seconds: float) -> int:
    """How many conversations side by side bring the most tokens in `seconds`: 4, 8, 16, … or MOST_ROWS, each tried for a moment.

    More rows read the weights less often for a token, but of each some steps are lost.
    """
    shape = model.shape
    row = 2 * shape.layers * shape.kv_heads * shape.head_dim * TURN * shape.bytes_per_value  # of keys and values
    most = max(LEAST_ROWS, min(MOST_ROWS, int(CACHES * free_memory(model.device) / row)))
    best, rows = (0.0, LEAST_ROWS), LEAST_ROWS
    while True:
        step = step_seconds(model, rows)
        brings = rows * (seconds / step - LOST)
        if brings < best[0]:
            return best[1]
        best = brings, rows
        if rows == most:
            return rows
        rows = min(2 * rows, most)


def gather(corpus: Path, texts: Path) -> None:
    """All conversations of the folder `corpus`, numbered anew without gaps, in the folder `texts`; `corpus` is gone then.

    Answers of a few words come last: one of them must not be all that is held out.
    """
    whole = Corpus.join([Corpus.load(part) for part in sorted(corpus.glob("*.safetensors"))])
    short = [int(whole.learned[whole.conversation(i)].sum()) < 2 * HEADS for i in range(len(whole))]
    numbers = torch.tensor(sorted(range(len(whole)), key=short.__getitem__)).argsort()
    made = texts.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    try:
        claim(made, {**settings_of(corpus), "tokens": len(whole.tokens)})
        Corpus.join([replace(whole, numbers=numbers)]).save(made / "00000.safetensors")
        made.rename(texts)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(corpus)


def calibrate_on_text(folder: Path) -> None:
    """Until the heads are calibrated, let what they said of the held-out texts stand for it: their tree is never a guess.

    They are called as their run is.
    """
    path = folder / medusa.FILE.replace(".safetensors", ".json")
    facts = json.loads(path.read_text(encoding="utf-8"))
    measured = {"accuracies": facts["held_out"]["text_accuracies"], "calibration": {"on": "held-out texts"}}
    write_text(json.dumps({"name": folder.name, **facts, **measured}, indent=1) + "\n", path)
    write_cards(folder)
