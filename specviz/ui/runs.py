"""From a press of Run to the messages of the step player, and to the trace that the public endpoint returns.

A run happens in a thread of its own: it waits in the line, loads the models, measures, decodes, and tells what happens as it happens.
The page collects what was told since its last message, at most twelve times a second, so that decoding never waits for a browser.
"""

import asyncio
import contextlib
import contextvars
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from specviz.config import LONGEST_PROMPT, DecodeConfig
from specviz.i18n import Fault
from specviz.trace import Ended, Header, Step
from specviz.ui.session import Line

try:  # on a Space with a borrowed GPU, what computes must say so; everywhere else this changes nothing
    from spaces import GPU
except ImportError:
    GPU = None

LOG = logging.getLogger("specviz")
LONGEST_PAGE_RUN = 512  # tokens: others are waiting for the model
PAUSE = 1 / 12  # seconds between two messages: drawing takes processor time that decoding on the same machine then lacks
PATIENCE = 0.5  # seconds that a stopped run may take to end before the page stops listening to it


@dataclass(frozen=True)
class Request:
    """A run that was asked for, checked."""

    pair: str
    prompt: str
    config: DecodeConfig


@dataclass(frozen=True)
class Status:
    """What a run is doing before its first step: a locale key and its arguments."""

    key: str
    args: dict[str, object]


@dataclass(frozen=True)
class Done:
    """The end of a run."""

    ended: Ended


Told = Status | Header | Step | Done | Fault
Tell = Callable[[Told], None]
Work = Callable[[Tell], None]
View = TypeVar("View")


def request(pair: Any, prompt: Any, **parameters: Any) -> Request:
    """Check what a browser sent, which may be anything; raises Fault.

    What does not apply to the method is left out, as the page shows it: plain decoding has no tree, and nothing to judge.
    """
    whole: dict[str, Any] = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in parameters.items()
    }
    if whole.get("method") == "plain":
        whole |= {"tree": None, "rule": "rejection" if whole.get("rule") == "typical" else whole.get("rule")}
    config = DecodeConfig(**whole)
    if config.max_new_tokens > LONGEST_PAGE_RUN:
        raise Fault("error.page_length", limit=LONGEST_PAGE_RUN, value=config.max_new_tokens)
    if not isinstance(prompt, str) or not prompt.strip():
        raise Fault("error.prompt_empty")
    if len(prompt) > LONGEST_PROMPT:
        raise Fault("error.prompt_characters", found=len(prompt), limit=LONGEST_PROMPT)
    return Request(pair, prompt, config)


def run(asked: Request, line: Line, stopped: threading.Event, tell: Tell) -> None:
    """Do a run, from the line to its end. It stops within a step when `stopped` is set; what was decoded until then stays."""
    with line.turn(stopped, lambda before: tell(Status("status.queue", {"place": before}))):
        if not stopped.is_set():
            _load(asked.pair, tell)
        header, steps = None, []
        with contextlib.closing(_decode(asked)) as told:  # closing it lets go of the cache
            for what in () if stopped.is_set() else told:
                tell(what)
                header = what if isinstance(what, Header) else header
                steps += [what] if isinstance(what, Step) else []
                if stopped.is_set():
                    break
        tell(Done(_ended(header, steps)))


def _load(pair: str, tell: Tell) -> None:
    """Have the models in memory; a download tells how far it is."""
    from specviz.models.load import load  # torch takes seconds to import, and the page is up before

    last = Status("status.loading", {})

    def _progress(stage: str, done: float) -> None:
        nonlocal last
        fetching = stage == "embedded.downloading"
        status = Status("status.fetching", {"percent": round(100 * done)}) if fetching else Status(stage, {})
        if status != last:
            tell(status)
        last = status

    tell(last)
    load(pair, progress=_progress)


def _decode(asked: Request) -> Generator[Told, None, None]:
    """Everything that computes. Arguments and yields are plain data: on a borrowed GPU this runs in another process."""
    from specviz.analysis.hardware import peaks
    from specviz.engine.loop import baseline, decode
    from specviz.engine.memory import memory
    from specviz.engine.run import header
    from specviz.engine.timings import sized, timings
    from specviz.models.load import load

    pair = load(asked.pair)
    decode(pair, asked.prompt, asked.config)  # first of all: it refuses what makes no sense
    yield Status("status.roofs", {})
    with memory(pair.device_name):
        roofs = peaks(str(pair.target.device), str(pair.target.dtype).removeprefix("torch."))
    yield Status("status.timings", {})
    with memory(pair.device_name):
        measured = timings(pair, asked.config.method)
    config = sized(asked.config, measured)
    yield Status("status.baseline", {})
    plain = baseline(pair, asked.prompt, config)
    yield header(pair, asked.prompt, config, plain, roofs, measured)
    yield Status("status.decoding", {})
    yield from decode(pair, asked.prompt, config)


if GPU is not None:
    _decode = GPU(duration=120)(_decode)


def _ended(header: Header | None, steps: list[Step]) -> Ended:
    from specviz.engine.loop import ended

    return ended(steps, header.config, header.eos_ids) if header else "stopped"


async def listen(work: Work, view: Callable[[Told], View], stopped: threading.Event, pause: float = PAUSE) -> AsyncIterator[list[View]]:
    """Do `work` in a thread and yield views of what it told, collected, at most every `pause` seconds.

    Views are made in that thread, between two steps. Errors are told as Faults, an unexpected one after it was logged. When the
    listener leaves, `stopped` is set.
    """
    views: list[View | None] = []  # None is the end
    news, loop = asyncio.Event(), asyncio.get_running_loop()

    def _add(what: View | None) -> None:
        views.append(what)
        with contextlib.suppress(RuntimeError):  # the page may be gone, and its loop with it
            loop.call_soon_threadsafe(news.set)

    context = contextvars.copy_context()  # a borrowed GPU is granted to the visitor whose request this is
    threading.Thread(target=context.run, args=(_guarded, work, view, _add), daemon=True).start()
    try:
        while True:
            if not await _arrived(news, stopped):
                yield [view(Done("stopped"))]  # it is still loading or reading the prompt, and ends when that is over
                return
            news.clear()
            batch = views[:]
            del views[: len(batch)]
            if said := [what for what in batch if what is not None]:
                yield said
            if batch[-1:] == [None]:
                return
            await asyncio.sleep(pause)
    finally:
        stopped.set()


async def _arrived(news: asyncio.Event, stopped: threading.Event) -> bool:
    """Wait for news; False when the run was stopped and says nothing for PATIENCE seconds."""
    silent_since = None
    while not news.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), 0.1)
        if stopped.is_set():
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > PATIENCE:
                return news.is_set()
    return True


def _guarded(work: Work, view: Callable[[Told], View], add: Callable[[View | None], None]) -> None:
    try:
        work(lambda told: add(view(told)))
    except Fault as fault:
        add(view(fault))
    except Exception:
        LOG.exception("a run failed")
        add(view(Fault("error.unexpected")))
    finally:
        add(None)


class Messages:
    """What a run told, as messages of the player: figures of each step included, numbered from 0."""

    def __init__(self) -> None:
        self._run, self._seq = secrets.token_hex(8), -1
        self._header: Header | None = None

    def view(self, told: Told) -> dict:
        """One part of a message."""
        from specviz.figures.view import header_view, step_view

        match told:
            case Status(key, args):
                return {"status": {"key": key, "args": args}}
            case Header():
                self._header = told
                return {"header": header_view(told)}
            case Step() if self._header:
                return {"steps": [step_view(told, self._header)]}
            case Done(ended):
                return {"done": {"ended": ended}}
            case Fault():
                return {"error": {"key": told.key, "args": told.values}}
            case _:
                raise TypeError("a step before its header")

    def message(self, parts: list[dict]) -> dict:
        """The next message: steps one after another; the latest status, where nothing of what it announced has come yet."""
        self._seq += 1
        message: dict = {"run": self._run, "seq": self._seq}
        for part in parts:
            steps = message.get("steps", []) + part.get("steps", [])
            message |= part
            if steps:
                message["steps"] = steps
        if message.keys() & {"steps", "done", "error"}:
            message.pop("status", None)
        return message
