"""What the tabs behind the player share: their scripts as one Gradio component, and answers to what a page asks.

assets/tabs holds the scripts that all of them stand on. With a tab's own they share one scope with the parts of the player that they use,
as in specviz/ui/player.py, and the same holds: the markup is constant, and every text enters the page through textContent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import gradio as gr

from specviz.figures import palette
from specviz.i18n import ASSETS, LANGUAGES, Fault, catalogue
from specviz.ui import player
from specviz.ui.runs import LOG

SHARED = ("words.js", "dom.js", "chart.js", "tip.js", "gradio.js")  # of assets/player
PARTS = ("tab.js", "card.js")  # of assets/tabs
BORROWED = (
    "player.tag_measured", "player.tag_computed", "player.as_table", "player.show_chart", "player.show_table", "player.charts_failed",
    "player.charts_loading",
)  # fmt: skip
Answer = dict[str, Any]


@dataclass(frozen=True)
class Scripts:
    """A tab's own scripts: `parts` of the folder `name` of assets, with the style sheet name.css, and `shared` further parts of the player.

    `face` names what they give away; the first puts the tab into its element. `sections` of the catalogue and the keys `borrowed` from
    others are what the tab says.
    """

    name: str
    parts: tuple[str, ...]
    face: tuple[str, ...]
    sections: tuple[str, ...]
    borrowed: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """All files of the script, in its order."""
        folders = {"player": (*SHARED, *self.shared), "tabs": PARTS, self.name: self.parts}
        return [ASSETS / folder / name for folder, names in folders.items() for name in names]

    def style(self) -> str:
        """The tab's own style sheet; it needs the player's before it."""
        return (ASSETS / self.name / f"{self.name}.css").read_text(encoding="utf-8")

    def script(self) -> str:
        """One expression: a function that returns an object of what `face` names, everything but plotly inside."""
        parts = "\n".join(path.read_text(encoding="utf-8") for path in self.files())
        styles = {"specviz-style": player.style(), f"specviz-{self.name}-style": self.style()}
        given = f"const OPTIONS = {player.script_json(self.options())};\nconst STYLES = {player.script_json(styles)};"
        return f'(function () {{\n"use strict";\n{given}\n{parts}\nreturn {{ {", ".join(self.face)} }};\n}})'

    def options(self) -> dict[str, Any]:
        """What the tab needs beside plotly: the texts that it says, and the palette."""
        return {"locales": {lang: self._texts(lang) for lang in LANGUAGES}, "palette": palette.table()}

    def _texts(self, lang: str) -> dict[str, str]:
        borrowed = {*BORROWED, *self.borrowed}
        return {key: text for key, text in catalogue(lang).items() if key.partition(".")[0] in self.sections or key in borrowed}


class Tab(gr.HTML):
    """A tab of the page. It has no value: its page asks `server_functions`."""

    def __init__(self, scripts: Scripts, server_functions: Sequence[Callable], **settings: Any):
        gr.set_static_paths([player.PLOTLY])
        markup = f'<div class="specviz-{scripts.name}-mount" style="min-height:640px"></div>'  # stays empty until the script fills it
        mount = f"{scripts.script()}().{scripts.face[0]}({{ element, server }}, {player.script_json(str(player.PLOTLY))});"
        settings |= {"html_template": markup, "js_on_load": mount, "apply_default_css": False}
        super().__init__(None, server_functions=list(server_functions), **settings)

    def __getattr__(self, name: str) -> Any:
        """gr.HTML takes any quoted word of its script for the name of an event; this script triggers none."""
        raise AttributeError(f"Tab has no attribute {name!r}")

    def preprocess(self, payload: object) -> None:
        """Nothing is read back from the page."""
        return None


def answered(unexpected: str) -> Callable[[Callable[[Answer], Answer]], Callable[[object], Answer]]:
    """What goes wrong in an answer becomes a sentence for the page, {"error": {"key", "args"}}; `unexpected` is the key for faults of ours.

    What is asked comes from a browser and may be anything: where it is no JSON object, {} is answered.
    """

    def wrapped(answer: Callable[[Answer], Answer]) -> Callable[[object], Answer]:
        @wraps(answer)
        def safe(asked: object) -> Answer:
            try:
                return answer(asked if isinstance(asked, dict) else {})
            except Fault as fault:
                return {"error": {"key": fault.key, "args": fault.values}}
            except Exception:
                LOG.exception("a tab could not answer: %s", answer.__name__)
                return {"error": {"key": unexpected, "args": {}}}

        return safe

    return wrapped
