"""The left column and the header: every control under the id that page, tests and style sheet know it by."""

from collections.abc import Sequence

import gradio as gr
from gradio.components import Component

from specviz.config import NGRAM_MATCHES
from specviz.i18n import t
from specviz.ui.text import LANGUAGE_NAMES, NGRAMS, PRESETS, Chosen, controls

DEFAULT = Chosen()


def header(tabs: Sequence[str]) -> dict[str, Component]:
    """Brand, tabs (the player's before `tabs`), language, theme, help."""
    with gr.Row(elem_id="header", equal_height=True):
        gr.HTML("<h1>Spec<i>Viz</i></h1>", elem_id="brand")
        gr.HTML(_tabs(("player", *tabs)), elem_id="tabs")
        more = gr.Button(t("en", "control.more"), elem_id="more", size="sm", variant="secondary")
        choices = [(name, lang) for lang, name in LANGUAGE_NAMES.items()]
        language = gr.Radio(choices, value="en", show_label=False, container=False, elem_id="language", elem_classes=["segments"])
        theme = gr.Button("◐", elem_id="theme", size="sm", variant="secondary")
        guide = gr.Button("?", elem_id="help", size="sm", variant="secondary")
    return {"language": language, "theme": theme, "help": guide, "more": more}


def _tabs(names: Sequence[str]) -> str:
    """The list of tabs; assets/page/page.js says their names, and shows the one that is chosen."""
    button = '<button type="button" role="tab" id="show-{name}" data-tab="{name}" aria-controls="tab-{name}"></button>'
    return f'<div role="tablist">{"".join(button.format(name=name) for name in names)}</div>'


def column(pair: str) -> dict[str, Component]:
    """The controls of a run, top to bottom. `pair` is the name of the one that is chosen."""
    words = controls("en", DEFAULT)
    with gr.Column(elem_id="controls", scale=0, min_width=272):
        with gr.Column(elem_id="settings"):
            made = {**_methods(words, pair), **_prompt(words), **_numbers(words)}
        with gr.Row(elem_id="buttons"):
            made["run"] = gr.Button(**words["run"], variant="primary", elem_id="run")
            made["stop"] = gr.Button(**words["stop"], variant="secondary", elem_id="stop", interactive=False)
    return made


def _methods(words: dict[str, dict], pair: str) -> dict[str, Component]:
    segments = {"elem_classes": ["segments", "explained"], "interactive": True}
    return {
        "pair": gr.Dropdown(value=pair, **words["pair"], elem_id="pair", elem_classes=["hinted"], interactive=True),
        "method": gr.Radio(**words["method"], value=DEFAULT.method, elem_id="method", **segments),
        "rule": gr.Radio(**words["rule"], value=DEFAULT.rule, elem_id="rule", **segments),
    }


def _prompt(words: dict[str, dict]) -> dict[str, Component]:
    prompt = gr.Textbox(
        PRESETS["python"], **words["prompt"], lines=3, max_lines=3, elem_id="prompt", elem_classes=["hinted"], interactive=True
    )
    chips = {"elem_classes": ["chips", "explained"], "interactive": True}
    return {"prompt": prompt, "preset": gr.Radio(**words["preset"], value=DEFAULT.preset, elem_id="preset", **chips)}


def _numbers(words: dict[str, dict]) -> dict[str, Component]:
    made: dict[str, Component] = {}
    with gr.Row(elem_classes=["pair-of"]):
        made["k"] = _slider(words, "k", 1, 16, 1, 5)
        made["tree"] = gr.Dropdown(value=DEFAULT.tree, **words["tree"], allow_custom_value=True, elem_id="tree-control", min_width=80)
    with gr.Row(elem_classes=["pair-of"]):
        made["ngram"] = gr.Dropdown(value=NGRAMS[0], **words["ngram"], elem_id="ngram", min_width=80, interactive=True)
        made["ngram_match"] = gr.Dropdown(
            value=NGRAM_MATCHES[0], **words["ngram_match"], elem_id="ngram_match", min_width=80, interactive=True
        )
    with gr.Row(elem_classes=["pair-of"]):
        made["temperature"] = _slider(words, "temperature", 0, 2, 0.05, DEFAULT.temperature)
        made["top_p"] = _slider(words, "top_p", 0.05, 1, 0.05, 1)
    with gr.Row(elem_classes=["pair-of"]):
        made["epsilon"] = _slider(words, "epsilon", 0, 0.5, 0.01, 0.09)
        made["delta"] = _slider(words, "delta", 0, 1, 0.02, 0.3)
    with gr.Row(elem_classes=["pair-of"]):
        made["length"] = _slider(words, "length", 8, 256, 8, 64)
        made["seed"] = gr.Number(0, **words["seed"], precision=0, minimum=0, elem_id="seed", min_width=80, interactive=True)
    return made


def _slider(words: dict[str, dict], name: str, low: float, high: float, step: float, value: float) -> gr.Slider:
    state = {"interactive": True, **words[name]}
    return gr.Slider(low, high, value=value, step=step, **state, elem_id=name, min_width=80, buttons=[])
