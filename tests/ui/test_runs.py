"""A run from request to messages. Models are replaced by made-up traces: what is tested is what the page does around them."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from specviz.config import LONGEST_PROMPT, DecodeConfig
from specviz.figures.view import header_view, step_view
from specviz.i18n import Fault, catalogue
from specviz.trace import Header, Step, Trace
from specviz.ui import handlers, runs
from specviz.ui.runs import Done, Messages, Status
from specviz.ui.session import Line, Stops
from tests.builders import make_trace

GOOD = {
    "pair": "embedded", "prompt": "Hello", "method": "draft", "rule": "rejection", "k": 5, "tree": "", "temperature": 0.7, "top_p": 1,
    "epsilon": 0.09, "delta": 0.3, "max_new_tokens": 64, "seed": 0, "ngram_max": 4, "ngram_min": 2, "ngram_match": "recent",
}  # fmt: skip
ODD = [None, "5", "", [], [1] * 10_000, {}, {"__type__": "update"}, math.nan, math.inf, -1, 10**30, True, "x" * 1_000_000]


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return make_trace(steps=12, config=DecodeConfig(temperature=0.7, max_new_tokens=64))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch, recorded: Trace) -> list[int]:
    """Decoding yields the recorded steps; the list holds the indices of those that were really asked for."""
    asked: list[int] = []

    def decode(request: runs.Request) -> Iterator[runs.Told]:
        yield recorded.header.model_copy(update={"prompt": request.prompt})
        for step in recorded.steps:
            asked.append(step.index)
            yield step

    monkeypatch.setattr(runs, "_decode", decode)
    monkeypatch.setattr(runs, "_load", lambda pair, tell: tell(Status("status.loading", {})))
    return asked


def collect(work: runs.Work, stopped: threading.Event | None = None, pause: float = 0.0) -> list[list[runs.Told]]:
    async def listen() -> list[list[runs.Told]]:
        return [batch async for batch in runs.listen(work, lambda told: told, stopped or threading.Event(), pause)]

    return asyncio.run(listen())


# ---- what is asked for ---------------------------------------------------------------------------------------------------------


def test_a_request_becomes_a_checked_configuration() -> None:
    asked = runs.request(**GOOD | {"k": 4.0, "max_new_tokens": 32.0})
    assert (asked.config.k, asked.config.max_new_tokens, asked.config.tree) == (4, 32, None)


def test_what_does_not_apply_to_plain_decoding_is_left_out() -> None:
    config = runs.request(**GOOD | {"method": "plain", "rule": "typical", "tree": "3x2"}).config
    assert (config.tree, config.rule) == (None, "rejection")


@pytest.mark.parametrize("name", sorted(set(GOOD) - {"pair", "tree"}))
def test_whatever_a_browser_sends_is_taken_or_refused_in_one_sentence(name: str) -> None:
    refused = Fault("error.prompt_empty")
    for value in ODD:
        try:
            runs.request(**GOOD | {name: value})
        except Fault as fault:
            refused = fault
        assert refused.key in catalogue("en")
        assert len(str(refused)) < 300


def test_a_tree_may_be_anything_too() -> None:
    for value in [*ODD, "9" * 1000, "1x" * 500, "sparse:", [[]], "２x２"]:
        with suppress(Fault):
            assert runs.request(**GOOD | {"tree": value}).config.tree in (None, "5")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"prompt": "  \n"}, "error.prompt_empty"),
        ({"prompt": "x" * (LONGEST_PROMPT + 1)}, "error.prompt_characters"),
        ({"max_new_tokens": runs.LONGEST_PAGE_RUN + 1}, "error.page_length"),
        ({"temperature": math.nan}, "error.number"),
        ({"method": "magic"}, "error.unknown_choice"),
    ],
)
def test_a_refusal_says_what_is_wrong(change: dict, key: str) -> None:
    with pytest.raises(Fault) as refused:
        runs.request(**GOOD | change)
    assert refused.value.key == key


# ---- the run -------------------------------------------------------------------------------------------------------------------


def test_a_run_tells_what_it_does_and_every_step(decoded: list[int], recorded: Trace) -> None:
    told: list[runs.Told] = []
    runs.run(runs.request(**GOOD), Line(), threading.Event(), told.append)
    assert told[0] == Status("status.loading", {})
    assert isinstance(told[1], Header)
    assert tuple(told[2:-1]) == recorded.steps
    assert isinstance(told[-1], Done)


def test_stop_stops_the_decoding_within_a_step(decoded: list[int]) -> None:
    stopped, told = threading.Event(), []

    def tell(what: runs.Told) -> None:
        told.append(what)
        if isinstance(what, Step) and what.index == 3:
            stopped.set()

    line = Line()
    runs.run(runs.request(**GOOD), line, stopped, tell)
    assert decoded == [0, 1, 2, 3], "decoding went on after Stop"
    assert told[-1] == Done("stopped")
    assert line._tickets == []


def test_a_run_that_is_stopped_in_the_line_loads_nothing(decoded: list[int]) -> None:
    line, stopped, told = Line(), threading.Event(), []

    def tell(what: runs.Told) -> None:
        told.append(what)
        stopped.set()

    with line.turn(threading.Event(), lambda before: None):
        runs.run(runs.request(**GOOD), line, stopped, tell)
    assert told == [Status("status.queue", {"place": 1}), Done("stopped")]
    assert decoded == []


def test_a_download_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from specviz.models import load

    def slow(name: str, progress) -> None:
        for done in (0.1, 0.101, 0.5):
            progress("embedded.downloading", done)
        progress("embedded.unpacking", 1)

    monkeypatch.setattr(load, "load", slow)
    told: list[Status] = []
    runs._load("embedded", told.append)
    fetching = [Status("status.fetching", {"percent": percent}) for percent in (10, 50)]
    assert told == [Status("status.loading", {}), *fetching, Status("embedded.unpacking", {})]


# ---- listening -----------------------------------------------------------------------------------------------------------------


def test_what_is_told_in_a_hurry_comes_in_few_messages() -> None:
    def hurry(tell: runs.Tell) -> None:
        for i in range(100):
            tell(Status("status.queue", {"place": i}))
            time.sleep(0.001)

    batches = collect(hurry, pause=0.05)
    assert [what.args["place"] for batch in batches for what in batch] == list(range(100))
    assert len(batches) < 20


def test_an_error_is_one_sentence_on_the_page_and_a_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def broken(tell: runs.Tell) -> None:
        raise RuntimeError("secret /path")

    with caplog.at_level(logging.ERROR, "specviz"):
        [[fault]] = collect(broken)
    assert fault.key == "error.unexpected"
    assert "secret" not in str(fault)
    assert "secret /path" in caplog.text


def test_a_fault_comes_as_it_is() -> None:
    def refuse(tell: runs.Tell) -> None:
        raise Fault("error.no_draft", pair="x")

    [[fault]] = collect(refuse)
    assert (fault.key, fault.values) == ("error.no_draft", {"pair": "x"})


def test_stop_is_answered_while_the_model_still_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, loaded = threading.Event(), threading.Event()
    monkeypatch.setattr(runs, "PATIENCE", 0.05)

    def load(tell: runs.Tell) -> None:
        stopped.set()
        loaded.wait(5)

    try:
        assert collect(load, stopped) == [[Done("stopped")]]
    finally:
        loaded.set()


def test_a_visitor_who_leaves_stops_the_run() -> None:
    stopped = threading.Event()

    def work(tell: runs.Tell) -> None:
        tell(Status("status.loading", {}))
        stopped.wait(5)

    async def leave() -> None:
        listening = runs.listen(work, lambda told: told, stopped)
        await anext(listening)
        await listening.aclose()

    asyncio.run(leave())
    assert stopped.is_set()


# ---- messages ------------------------------------------------------------------------------------------------------------------


def test_messages_are_numbered_and_carry_the_views(recorded: Trace) -> None:
    messages = Messages()
    first = messages.message([messages.view(Status("status.loading", {})), messages.view(Status("status.roofs", {}))])
    second = messages.message([messages.view(recorded.header)])
    third = messages.message([messages.view(step) for step in recorded.steps[:3]])
    last = messages.message([messages.view(Done("length"))])
    assert [message["seq"] for message in (first, second, third, last)] == [0, 1, 2, 3]
    assert len({message["run"] for message in (first, second, third, last)}) == 1
    assert first["status"] == {"key": "status.roofs", "args": {}}
    assert second["header"] == header_view(recorded.header)
    assert third["steps"] == [step_view(step, recorded.header) for step in recorded.steps[:3]]
    assert last["done"] == {"ended": "length"}
    assert Messages().message([])["run"] != first["run"]


def test_a_status_is_over_when_what_it_announced_has_come(recorded: Trace) -> None:
    messages = Messages()
    messages.view(recorded.header)
    status = messages.view(Status("status.decoding", {}))
    for what in (recorded.steps[0], Done("stopped"), Fault("error.unexpected")):
        assert "status" not in messages.message([status, messages.view(what)])


def stream(prompt: str, line: Line, stops: Stops, session: str) -> list[dict]:
    values = [dict(GOOD, prompt=prompt, length=64, ngram="4-2")[name] for name in handlers.PARAMETERS]

    async def whole() -> list[dict]:
        return [message async for message in handlers.stream(*values, line=line, stops=stops, session=session)]

    return asyncio.run(whole())


def test_two_visitors_at_once_each_see_their_own_run(decoded: list[int], recorded: Trace) -> None:
    line, stops = Line(), Stops()
    seen: dict[str, list[dict]] = {}

    def visit(name: str) -> None:
        seen[name] = stream(name, line, stops, name)

    threads = [threading.Thread(target=visit, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for name, messages in seen.items():
        assert {message["run"] for message in messages} == {messages[0]["run"]}
        assert [message["header"]["header"]["prompt"] for message in messages if "header" in message] == [name]
        assert sum(len(message.get("steps", [])) for message in messages) == len(recorded.steps)
    assert seen["left"][0]["run"] != seen["right"][0]["run"]
    assert stops._flags == {}
    assert line._tickets == []


def test_a_bad_request_is_one_message(decoded: list[int]) -> None:
    [message] = stream("", Line(), Stops(), "a")
    assert message["error"] == {"key": "error.prompt_empty", "args": {}}


def test_the_endpoint_returns_the_whole_trace(decoded: list[int], recorded: Trace) -> None:
    trace = asyncio.run(handlers.trace(dict(GOOD), Line(), Stops(), "a"))
    assert trace.steps == recorded.steps
    assert Trace.from_json(trace.to_json()) == trace


def test_the_endpoint_refuses_in_one_sentence(decoded: list[int]) -> None:
    with pytest.raises(Fault, match="at most 512 tokens"):
        asyncio.run(handlers.trace(GOOD | {"max_new_tokens": 4000}, Line(), Stops(), "a"))
