"""The wiring: every event has the inputs and outputs that its function takes, and only one of them is public."""

import inspect
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest

from specviz.i18n import LANGUAGES, Fault, catalogue
from specviz.ui import build, handlers
from specviz.ui.player import ELSEWHERE, options
from specviz.ui.text import PRESETS
from specviz.ui.theme import css

ROOT = Path(__file__).resolve().parents[2]
IDS = {
    "pair", "method", "rule", "prompt", "preset", "k", "tree-control", "ngram", "ngram_match", "temperature", "top_p", "epsilon", "delta",
    "seed", "length", "run", "stop", "language", "theme", "help", "more", "player",
}  # fmt: skip


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    return build.build()


def test_the_controls_have_the_ids_that_others_rely_on(page: gr.Blocks) -> None:
    ids = [block.elem_id for block in page.blocks.values() if block.elem_id]
    assert set(ids) >= IDS
    assert len(ids) == len(set(ids)), "two blocks with one id"


def test_the_prompt_is_the_example_that_is_chosen(page: gr.Blocks) -> None:
    values = {block.elem_id: block.value for block in page.blocks.values() if block.elem_id in ("prompt", "preset")}
    assert values["prompt"] == PRESETS[values["preset"]]


def test_only_trace_is_public(page: gr.Blocks) -> None:
    public = [fn.api_name for fn in page.fns.values() if fn.api_visibility != "private"]
    assert public == ["trace"]
    assert list(page.get_api_info()["named_endpoints"]) == ["/trace"]


def test_every_function_takes_what_its_event_sends(page: gr.Blocks) -> None:
    sizes = {"relabel": len(handlers.RELABELLED), "adapt": len(handlers.ADAPTED), "choose_preset": 2, "stream": 1, "stop": 0, "trace": 1}
    sizes |= {"pairs": 1, "use": 1 + len(handlers.ADAPTED)}
    seen = set()
    for event in page.fns.values():
        if event.fn is None:
            assert event.js, "an event that does nothing"
            continue
        seen.add(event.name)
        given = [SimpleNamespace()] * len(event.inputs)
        wants_request = any(kind is gr.Request for kind in inspect.get_annotations(event.fn, eval_str=True).values())
        inspect.signature(event.fn).bind(*([None] if wants_request else []), *given)
        assert len(event.outputs) == sizes[event.name], event.name
    assert seen == set(sizes)


def test_the_run_reads_the_controls_in_the_order_of_its_parameters(page: gr.Blocks) -> None:
    [run] = [event for event in page.fns.values() if event.name == "stream"]
    assert tuple(block.elem_id.removesuffix("-control") for block in run.inputs) == handlers.PARAMETERS


def test_what_uses_the_model_shares_one_queue_and_the_rest_does_not_wait(page: gr.Blocks) -> None:
    for event in page.fns.values():
        uses_model = event.name in ("stream", "trace")
        assert (event.concurrency_id == "model") == uses_model
        assert event.queue == uses_model, event.name


def test_no_event_shows_progress_over_the_page(page: gr.Blocks) -> None:
    assert {event.show_progress for event in page.fns.values()} == {"hidden"}


def test_the_next_free_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert build.free_port("127.0.0.1", port) > port


def test_no_free_port_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PORTS", 0)
    with pytest.raises(Fault, match="are all taken"):
        build.free_port("127.0.0.1", 7860)


def test_nothing_of_the_page_names_another_machine() -> None:
    text = css() + build._head() + "".join(value for lang in LANGUAGES for value in catalogue(lang).values())
    assert "http" not in text.replace("http://127.0.0.1", "")


def test_the_player_can_say_whatever_a_run_may_tell() -> None:
    told = re.compile(r"""(?:Fault|Status|progress)\(\s*"([a-z_]+\.[a-z_]+)\"""")
    sources = [*(ROOT / "specviz").rglob("*.py")]
    keys = {key for path in sources for key in told.findall(path.read_text(encoding="utf-8")) if key.split(".")[0] not in ELSEWHERE}
    assert len(keys) > 30
    for lang, texts in options()["locales"].items():
        assert keys - set(texts) == set(), lang
