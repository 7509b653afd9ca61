"""The Trees tab: the tree lab as a Gradio component, and what hands its tree to the player.

assets/lab holds its scripts. They share one scope with the parts of the player that they use, as in specviz/ui/player.py, and the same
holds: the markup is constant, and every text enters the page through textContent.
"""

from functools import cache
from typing import Any

import gradio as gr
from gradio.components import Component

from specviz.figures import palette
from specviz.i18n import ASSETS, LANGUAGES, catalogue
from specviz.ui import handlers, player
from specviz.ui.events import CHEAP
from specviz.ui.tabs import lab

FOLDER = ASSETS / "lab"
SHARED = ("words.js", "dom.js", "chart.js", "sketch.js", "tip.js", "cost.js", "gradio.js")  # of assets/player
PARTS = (
    "shapes.js", "card.js", "source.js", "picture.js", "tree.js", "charts.js", "mask.js", "trial.js", "exchange.js", "state.js", "lab.js",
    "mount.js",
)  # fmt: skip
FACE = "TreeLab, mountLab, choicesText, parentsOf, lineages, chanceOf, expectedOf, fullCounts, fullExpected, fullShape, bestNext, ratesOf"
MARKUP = '<div class="specviz-lab-mount" style="min-height:640px"></div>'  # stays empty until the script fills it
SECTIONS = ("lab", "error", "trace")  # of the catalogue
BORROWED = (
    "player.tag_computed", "player.as_table", "player.show_chart", "player.show_table", "player.charts_failed", "player.charts_loading",
    "player.close", "player.name_greedy", "player.name_rejection", "player.name_match", "player.name_typical",
    "control.method_ngram", "control.method_draft", "control.method_medusa",
)  # fmt: skip
DECODE = ("() => window.specvizPage.wantedTree()", "() => { window.specvizPage.startTree(); }")


@cache
def style() -> str:
    """The lab's own style sheet; it needs the player's before it."""
    return (FOLDER / "lab.css").read_text(encoding="utf-8")


@cache
def script() -> str:
    """One expression: a function that returns {TreeLab, mountLab, options, …}, everything but plotly inside."""
    files = [*(player.FOLDER / name for name in SHARED), *(FOLDER / name for name in PARTS)]
    parts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    given = {"OPTIONS": options(), "STYLE": player.style(), "LAB_STYLE": style()}
    constants = "\n".join(f"const {name} = {player.script_json(value)};" for name, value in given.items())
    return f'(function () {{\n"use strict";\n{constants}\n{parts}\nreturn {{ {FACE}, options: OPTIONS }};\n}})'


def options() -> dict[str, Any]:
    """What the lab needs beside plotly: the texts that it says, and the palette."""
    return {"locales": {lang: _texts(lang) for lang in LANGUAGES}, "palette": palette.table()}


def _texts(lang: str) -> dict[str, str]:
    return {key: text for key, text in catalogue(lang).items() if key.partition(".")[0] in SECTIONS or key in BORROWED}


class TreeLab(gr.HTML):
    """The tree lab. It has no value: its page asks the server functions of specviz/ui/tabs/lab.py."""

    def __init__(self, **settings: Any):
        gr.set_static_paths([player.PLOTLY])
        mount = f"{script()}().mountLab({{ element, server }}, {player.script_json(str(player.PLOTLY))});"
        settings |= {"html_template": MARKUP, "js_on_load": mount, "apply_default_css": False}
        super().__init__(None, server_functions=[lab.grow, lab.arrange, lab.judge, lab.pace], **settings)

    def __getattr__(self, name: str) -> Any:
        """gr.HTML takes any quoted word of its script for the name of an event; this script triggers none."""
        raise AttributeError(f"TreeLab has no attribute {name!r}")

    def preprocess(self, payload: object) -> None:
        """Nothing is read back from the page."""
        return None


def build(made: dict[str, Component]) -> None:
    """Build the tab. `made` are the player's controls by id: a tree is run by setting its method and its tree, and pressing Run."""
    TreeLab(elem_id="lab")
    decode = gr.Button(elem_id="decode-tree", elem_classes=["unseen"])  # pressed by the lab
    chosen = [made[name] for name in ("language", *handlers.CHOICES)]
    wanted, start = DECODE
    ready = decode.click(fn=None, js=wanted, outputs=[made["method"], made["tree"]], **CHEAP)
    adapted = ready.then(handlers.adapt, chosen, [made[name] for name in handlers.ADAPTED], preprocess=False, **CHEAP)
    adapted.then(fn=None, js=start, **CHEAP)
