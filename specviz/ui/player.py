"""The step player as a Gradio component, and as a script for any other page.

assets/player holds its parts: plain scripts that share one scope, put together here without a build step. The markup that Gradio renders
is constant; every text of a run travels as JSON and enters the page through textContent, because gr.HTML evaluates what its templates hold.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import gradio as gr
import orjson

from specviz.figures import palette
from specviz.i18n import ASSETS, LANGUAGES, catalogue

FOLDER = ASSETS / "player"
PLOTLY = FOLDER / "plotly" / "plotly-cartesian.min.js"
PARTS = (
    "words.js", "dom.js", "judge.js", "explain.js", "acceptance.js", "cost.js", "slow.js", "projection.js", "lookup.js", "typical.js",
    "store.js", "chart.js", "sketch.js", "tip.js", "panel.js",
    "panels/text.js", "panels/transport.js", "panels/tree.js", "panels/mask.js", "panels/distribution.js", "panels/verdicts.js",
    "panels/series.js", "panels/cost.js", "panels/why.js", "panels/acceptance.js", "panels/roofs.js",
    "panels/typical.js", "panels/rules.js", "keys.js", "player.js", "gradio.js",
)  # fmt: skip
FACE = (
    "SpecvizPlayer, mountInGradio, addStyle, judge, rejudge, explain, explainExtra, number, compared, "
    "speculation, projectedPoints, speedupPoints, costModel, alphaOf, costPoints, "
    "asRecorded, countStep, addCounts, silenceOf, whyOf, headlineOf, causesOf, notesOf, remediesOf, "
    "emittedKl, RuleBook, typicalPoints, linePoints, rulesPoints"
)
MARKUP = '<div class="specviz-mount" style="min-height:640px"></div>'  # stays empty until the script fills it
ELSEWHERE = ("control", "preset", "cli", "account", "serve", "lab", "train")  # sections of the catalogue that no player says


@cache
def style() -> str:
    """The player's style sheet, behind the palette as custom properties."""
    return palette.css() + (FOLDER / "player.css").read_text(encoding="utf-8")


@cache
def script() -> str:
    """One expression: a function that returns {SpecvizPlayer, mountInGradio, options, …}, everything but plotly inside."""
    parts = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in PARTS)
    given = f"const OPTIONS = {script_json(options())};\nconst STYLE = {script_json(style())};"
    return f'(function () {{\n"use strict";\n{given}\n{parts}\nreturn {{ {FACE}, options: OPTIONS, style: STYLE }};\n}})'


def options() -> dict[str, Any]:
    """What a player needs beside plotly: the catalogues and the palette."""
    return {"locales": {lang: _texts(lang) for lang in LANGUAGES}, "palette": palette.table()}


def _texts(lang: str) -> dict[str, str]:
    return {key: text for key, text in catalogue(lang).items() if key.partition(".")[0] not in ELSEWHERE}


def script_json(value: object) -> str:
    """JSON that may stand in a script element, too: no "</script>" can be read out of it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class StepPlayer(gr.HTML):
    """The step player. Its value is a message {"run", "seq", "header"?, "steps"?, "status"?, "done"?, "error"?} or a whole run_view.

    `server_functions` may hold `open_trace(text) -> run_view | {"error": {key, args}}`, with which window.specviz.load opens a trace
    file, and `resend({"run", "from"}) -> [step_view…]`, asked when a message was lost.
    """

    def __init__(self, value: dict[str, Any] | None = None, *, server_functions: Sequence[Callable] | None = None, **settings: Any):
        gr.set_static_paths([PLOTLY])
        mount = f"{script()}().mountInGradio({{ element, props, server, watch }}, {script_json(str(PLOTLY))});"
        settings |= {"html_template": MARKUP, "js_on_load": mount, "apply_default_css": False}
        super().__init__(value, server_functions=list(server_functions or ()), **settings)

    def __getattr__(self, name: str) -> Any:
        """gr.HTML takes any quoted word of its script for the name of an event; this script triggers none."""
        raise AttributeError(f"StepPlayer has no attribute {name!r}")

    def postprocess(self, value: dict[str, Any] | None) -> str | None:
        """The message as text: Gradio sends nested data as edits of the message before, and its client applies some of them wrongly."""
        return None if value is None else orjson.dumps(value).decode()

    def preprocess(self, payload: object) -> None:
        """Nothing is read back from the page."""
        return None

    def api_info(self) -> dict[str, Any]:
        """A message is any JSON object."""
        return {"type": "object"}
