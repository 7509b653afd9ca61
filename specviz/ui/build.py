"""The page: a table of contents, and the wiring of its events."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when Gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from threading import Thread

import gradio as gr
from gradio.components import Component

from specviz.i18n import ASSETS, Fault, t
from specviz.models.catalog import find
from specviz.ui import handlers
from specviz.ui.controls import column, header
from specviz.ui.endpoint import trace_endpoint
from specviz.ui.events import CHEAP, PRIVATE
from specviz.ui.player import StepPlayer
from specviz.ui.record import first_visit
from specviz.ui.runs import LOG
from specviz.ui.session import LONGEST_LINE, Line, Stops
from specviz.ui.tabs import train, trees
from specviz.ui.text import tab_names, tooltips
from specviz.ui.theme import css, theme

# What builds each tab behind the player, given the player's controls; its address is #name, its label the text control.tab_<name>.
TABS = {"trees": trees.build, "train": train.build}
PORTS = 100  # how many are tried
SWITCH = 5e-4  # seconds that a thread may hold the interpreter while another waits: decoding takes it back after each small operation
LAUNCH = {
    "prevent_thread_lock": True,
    "quiet": True,
    "show_error": False,  # what goes wrong is said by the player, never by a toast
    "footer_links": [],
    "run_history": False,
    "enable_monitoring": False,
    "ssr_mode": False,
    "share": False,
    "pwa": False,
    "mcp_server": False,
    "max_file_size": "1mb",  # nothing is uploaded
    "allowed_paths": [],
    "favicon_path": str(ASSETS / "page" / "favicon.svg"),
    "state_session_capacity": 200,
}


def build(pair: str = "embedded") -> gr.Blocks:
    """The page, with `pair` chosen and a recorded run on show."""
    line, stops = Line(), Stops()
    with gr.Blocks(
        title=t("en", "app.title"), fill_width=True, fill_height=True, analytics_enabled=False, delete_cache=(3600, 3600)
    ) as page:
        made = header(tuple(TABS))
        with gr.Row(elem_id="tab-player"):
            made |= column(pair)
            with gr.Column(elem_id="stage"):
                player = StepPlayer(value=first_visit(), server_functions=[handlers.open_trace], elem_id="player")
        for name, build_tab in TABS.items():
            with gr.Column(elem_id=f"tab-{name}", elem_classes=["tab"]):
                build_tab(made)
        _wire_run(made, player, line, stops)
        _wire_choices(made)
        _wire_looks(page, made)
        gr.api(trace_endpoint(line, stops), api_name="trace", concurrency_id="model", concurrency_limit=LONGEST_LINE)
    return page.queue(max_size=LONGEST_LINE)


def _wire_run(made: dict[str, Component], player: StepPlayer, line: Line, stops: Stops) -> None:
    """Run, Stop, and the judging of recorded steps by another rule, which never leaves the browser."""

    async def stream(request: gr.Request, *values: object) -> AsyncIterator[dict]:
        """Run."""
        async for message in handlers.stream(*values, line=line, stops=stops, session=request.session_hash):
            yield message

    def stop(request: gr.Request) -> None:
        """Stop this visitor's runs."""
        stops.stop(request.session_hash)

    asked = [made["run"].click, made["prompt"].submit]
    buttons = [made["run"], made["stop"]]
    gr.on(asked, fn=None, js="() => window.specvizPage.buttons(true)", outputs=buttons, **CHEAP)
    going = gr.on(
        asked, stream, [made[name] for name in handlers.PARAMETERS], [player],
        preprocess=False, trigger_mode="once", concurrency_id="model", concurrency_limit=LONGEST_LINE, **PRIVATE,
    )  # fmt: skip
    going.then(fn=None, js="() => window.specvizPage.buttons(false)", outputs=buttons, **CHEAP)
    made["stop"].click(stop, **CHEAP)
    judged = [made["rule"], made["epsilon"], made["delta"]]
    again = "(rule, epsilon, delta) => { window.specviz?.rejudge({ rule, epsilon, delta }); }"
    gr.on([control.input for control in judged], fn=None, js=again, inputs=judged, **CHEAP)


def _wire_choices(made: dict[str, Component]) -> None:
    """Controls that decide about others, the examples, and the language."""
    choices = [made["language"], *(made[name] for name in handlers.CHOICES)]
    deciding = [made["method"].input, made["rule"].input, made["tree"].input, made["temperature"].release]
    gr.on(deciding, handlers.adapt, choices, [made[name] for name in handlers.ADAPTED], preprocess=False, **CHEAP)
    example = [made["prompt"], made["preset"]]
    made["preset"].input(handlers.choose_preset, [made["language"], made["preset"]], example, preprocess=False, **CHEAP)
    made["prompt"].input(fn=None, js="() => null", outputs=[made["preset"]], **CHEAP)  # it is no example any more
    say = "(language, ...choices) => { window.specvizPage.setLanguage(language); return [language, ...choices]; }"
    words = [made[name] for name in handlers.RELABELLED]
    made["language"].change(handlers.relabel, choices, words, js=say, preprocess=False, **CHEAP)


def _wire_looks(page: gr.Blocks, made: dict[str, Component]) -> None:
    """What only the browser knows: the first language and theme, help, the phone's short form."""
    started = page.load(fn=None, js="() => window.specvizPage.start()", outputs=[made["language"]], **CHEAP)
    started.then(handlers.pairs, [made["language"]], [made["pair"]], preprocess=False, **CHEAP)
    for name, call in (("theme", "toggleTheme"), ("help", "help"), ("more", "more")):
        made[name].click(fn=None, js=f"() => {{ window.specvizPage.{call}(); }}", **CHEAP)


def serve(host: str | None = None, port: int | None = None, pair: str = "embedded", wait: bool = True) -> gr.Blocks:
    """Show the page and print its address; with `wait`, return not before the server was stopped.

    `host` is GRADIO_SERVER_NAME or this machine only, `port` GRADIO_SERVER_PORT or 7860, or the next one that is free. Raises Fault
    when none is.
    """
    host = host or os.environ.get("GRADIO_SERVER_NAME") or ("0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1")
    port = free_port(host, port or int(os.environ.get("GRADIO_SERVER_PORT") or 7860))
    sys.setswitchinterval(SWITCH)
    page = build(pair)
    _, url, _ = page.launch(server_name=host, server_port=port, **LAUNCH, theme=theme(), css=css(tuple(TABS)), head=_head())
    if host == "0.0.0.0":
        print(t("en", "serve.open", host=host))
    print(t("en", "serve.address", url=url), flush=True)
    Thread(target=_warm, args=(pair,), daemon=True).start()
    if wait:
        page.block_thread()
    return page


def free_port(host: str, first: int) -> int:
    """`first`, or the next port of `host` that nobody listens on; raises Fault when there is none among a hundred."""
    for port in range(first, first + PORTS):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as test, suppress(OSError):
            test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            test.bind((host, port))
            return port
    raise Fault("serve.no_port", first=first, last=first + PORTS - 1)


def _head() -> str:
    script = (ASSETS / "page" / "page.js").read_text(encoding="utf-8")
    titles = json.dumps(tooltips(), ensure_ascii=False).replace("<", "\\u003c")
    names = json.dumps(tab_names(("player", *TABS)), ensure_ascii=False)
    return f"<script>const TITLES = {titles};\nconst TABS = {names};\n{script}</script>"


def _warm(pair: str) -> None:
    """Load the models before somebody asks for them, if that needs no download and goes well; Run says what is wrong where it does not."""
    from specviz.models import embedded
    from specviz.models.load import load

    try:
        if find(pair).hub or embedded.cached():
            load(pair)
    except Exception:
        LOG.info("the models could not be loaded ahead", exc_info=True)
