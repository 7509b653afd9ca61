"""The Trees tab: the tree lab of assets/lab as a component, and what hands its tree to the player."""

import gradio as gr
from gradio.components import Component

from specviz.ui import handlers
from specviz.ui.events import CHEAP
from specviz.ui.tabs import lab
from specviz.ui.tabs.component import Scripts, Tab

SCRIPTS = Scripts(
    "lab",
    parts=(
        "shapes.js", "dial.js", "source.js", "picture.js", "tree.js", "charts.js", "mask.js", "trial.js", "exchange.js", "state.js",
        "lab.js", "mount.js",
    ),
    face=(
        "mountLab", "choicesText", "parentsOf", "lineages", "chanceOf", "expectedOf", "fullCounts", "fullExpected", "fullShape",
        "bestNext", "ratesOf",
    ),
    sections=("lab", "error", "trace"),
    borrowed=(
        "player.close", "player.name_greedy", "player.name_rejection", "player.name_match", "player.name_typical",
        "control.method_ngram", "control.method_draft", "control.method_medusa",
    ),
    shared=("sketch.js", "cost.js"),
)  # fmt: skip
DECODE = ("() => window.specvizPage.wantedTree()", "() => { window.specvizPage.startTree(); }")


def build(made: dict[str, Component]) -> None:
    """Build the tab. `made` are the player's controls by id: a tree is run by setting its method and its tree, and pressing Run."""
    Tab(SCRIPTS, [lab.grow, lab.arrange, lab.judge, lab.pace], elem_id="lab")
    decode = gr.Button(elem_id="decode-tree", elem_classes=["unseen"])  # pressed by the lab
    chosen = [made[name] for name in ("language", *handlers.CHOICES)]
    wanted, start = DECODE
    ready = decode.click(fn=None, js=wanted, outputs=[made["method"], made["tree"]], **CHEAP)
    adapted = ready.then(handlers.adapt, chosen, [made[name] for name in handlers.ADAPTED], preprocess=False, **CHEAP)
    adapted.then(fn=None, js=start, **CHEAP)
