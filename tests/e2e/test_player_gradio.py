"""The player inside Gradio: below a prefix, fed by a generator, with its server function."""

import json
import threading
import time
from collections.abc import Iterator

import fastapi
import gradio as gr
import pytest
import uvicorn
from playwright.sync_api import Browser, Page

from specviz.config import DecodeConfig
from specviz.figures.view import header_view, run_view, step_view
from specviz.trace import Trace
from specviz.ui.player import StepPlayer
from tests.builders import make_trace

pytestmark = pytest.mark.browser

PORT = 17890
TRACE = make_trace(6, DecodeConfig(temperature=1.0, tree="3x2", seed=2))


def open_trace(text: str) -> dict:
    return run_view(Trace.from_json(text), "opened")


def stream() -> Iterator[dict]:
    yield {"run": "streamed", "seq": 0, "header": header_view(TRACE.header)}
    for i, step in enumerate(TRACE.steps):
        yield {"run": "streamed", "seq": i + 1, "steps": [step_view(step, TRACE.header)]}
    yield {"run": "streamed", "seq": len(TRACE.steps) + 1, "done": {"ended": "length"}}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A page with a button and a player, mounted below /some/where."""
    with gr.Blocks() as page:
        button = gr.Button("Run", elem_id="run")
        player = StepPlayer(run_view(TRACE, "first"), server_functions=[open_trace])
        button.click(stream, None, player, show_progress="hidden")
    app = gr.mount_gradio_app(fastapi.FastAPI(), page.queue(), path="/some/where", ssr_mode=False)
    server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{PORT}/some/where"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, opened; afterwards nothing has gone to another machine, and no error was written."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("request", lambda request: f":{PORT}/" in request.url or request.url.startswith("data:") or complaints.append(request.url))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(address)
    opened.wait_for_function("window.specviz && specviz.state().charts")
    yield opened
    context.close()
    assert complaints == []


def test_the_first_value_is_on_show_and_the_charts_come_from_below_the_prefix(page: Page, address: str) -> None:
    state = page.evaluate("specviz.state()")
    assert (state["run"], state["steps"], state["recorded"]) == ("first", 6, True)
    assert page.evaluate("document.querySelector('script[src*=plotly]').src").startswith(f"{address}/gradio_api/file=")


def test_a_generator_feeds_it(page: Page) -> None:
    page.click("#run")
    page.wait_for_function("specviz.state().run === 'streamed' && specviz.state().done")
    state = page.evaluate("specviz.state()")
    assert (state["steps"], state["gap"], state["mode"]) == (6, False, "live")
    assert page.locator(".sv-stream").text_content() == TRACE.text


def test_a_trace_file_is_opened_through_the_server(page: Page) -> None:
    assert page.evaluate("trace => specviz.load(trace)", json.loads(TRACE.to_json())) is True
    assert page.evaluate("specviz.state().run") == "opened"


def test_our_charting_library_is_not_replaced(page: Page) -> None:
    page.evaluate("window.Plotly = { react() { throw new Error('another version'); } }")
    page.evaluate("specviz.setLanguage('zh')")
    page.wait_for_timeout(400)
    assert page.locator("#roofline .js-plotly-plot .main-svg").count() > 0
