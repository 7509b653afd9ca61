"""How the page around the player looks: Gradio's plainest theme in the project's palette and the machine's own fonts.

No web font and no hub theme: the page must not ask any other machine for anything.
"""

from collections.abc import Sequence

import gradio as gr

from specviz.figures.palette import COLOURS
from specviz.i18n import ASSETS

SANS = ("Inter", "Segoe UI", "system-ui", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", "sans-serif")
MONO = ("JetBrains Mono", "ui-monospace", "DejaVu Sans Mono", "Noto Sans Mono CJK SC", "monospace")

# Gradio's name of a colour: ours
_COLOURS = {
    "body_background_fill": "paper",
    "body_text_color": "ink",
    "body_text_color_subdued": "soft",
    "block_title_text_color": "soft",
    "block_info_text_color": "soft",
    "input_background_fill": "card",
    "input_border_color": "line",
    "input_border_color_focus": "accent",
    "input_placeholder_color": "soft",
    "border_color_primary": "line",
    "border_color_accent": "accent",
    "background_fill_primary": "card",
    "background_fill_secondary": "paper",
    "slider_color": "accent",
    "checkbox_background_color_selected": "accent",
}


def theme() -> gr.themes.Base:
    """The theme; what it cannot say is in assets/page/page.css."""
    base = gr.themes.Base(font=SANS, font_mono=MONO, text_size="sm", spacing_size="sm", radius_size="md")
    ours = {f"{name}{dark}": COLOURS[colour][i] for name, colour in _COLOURS.items() for i, dark in enumerate(("", "_dark"))}
    flat = {f"block_{part}{dark}": value for part, value in _FLAT.items() for dark in ("", "_dark")}
    return base.set(block_padding="0px", block_title_text_size="12px", block_title_text_weight="400", **ours, **flat)


_FLAT = {"background_fill": "transparent", "border_width": "0px", "shadow": "none"}


def css(tabs: Sequence[str] = ()) -> str:
    """The style sheet of the page, behind the palette as variables: --ink, --soft, … in light and, under .dark, in dark.

    Of the player and `tabs` only the one is shown that page.js names at the root of the document.
    """
    light, dark = ("".join(f"--{name.replace('_', '-')}:{pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1))
    sheet = (ASSETS / "page" / "page.css").read_text(encoding="utf-8")
    shown = "".join(f"html[data-tab={name}] #tab-{name}{{display:flex!important}}" for name in tabs)
    player = f"html:is({','.join(f'[data-tab={name}]' for name in tabs)}) #tab-player{{display:none!important}}" if tabs else ""
    return f":root{{{light}}}\n.dark{{{dark}}}\n{sheet}\n{shown}{player}"
