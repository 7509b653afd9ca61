"""The player's script and component, as Python puts them together."""

import json
import re

import gradio as gr
import pytest

from specviz.i18n import ASSETS
from specviz.ui import player
from specviz.ui.player import StepPlayer

PARTS = [path for path in (ASSETS / "player").rglob("*.js") if "plotly" not in path.parts]


def made() -> StepPlayer:
    with gr.Blocks():
        return StepPlayer(None, server_functions=[_open])


def _open(text: str) -> dict:
    return {}


def test_every_part_is_in_the_script_once():
    assert sorted(player.FOLDER / name for name in player.PARTS) == sorted(PARTS)
    for path in PARTS:
        assert player.script().count(path.read_text(encoding="utf-8")) == 1


def test_parts_are_small_and_reach_nobody():
    for path in PARTS:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 500, path.name
        assert not re.findall(r"https?://(?!www\.w3\.org)", text), path.name
        assert not re.findall(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|\beval\(|new Function", text), path.name
    assert "url(" not in player.style().replace("url(#sv-hatch)", "") and "@import" not in player.style()


def test_functions_are_small():
    """No more than 80 lines from one line that opens a function or a method to the next."""
    opens = re.compile(r"(  )?(async |get |static |function )*[A-Za-z]+\(.*\) \{$")
    for path in PARTS:
        lines = path.read_text(encoding="utf-8").splitlines()
        starts = [i for i, line in enumerate(lines) if opens.match(line) and not re.match(r" *(if|for|while|switch) ", line)]
        assert starts, path.name
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            assert end - start <= 80, f"{path.name}: {lines[start]}"


def test_what_is_given_cannot_end_the_script():
    assert "</script" not in player.script_json({"a": "</script><script>"})
    assert json.loads(player.script_json({"a": "</script>\u2028"})) == {"a": "</script>\u2028"}


def test_the_markup_is_constant():
    """gr.HTML evaluates what stands in its templates, so nothing of a run may."""
    component = made()
    assert "$" not in component.html_template and "{" not in component.html_template
    assert component.css_template == ""
    assert component.html_template == player.MARKUP


def test_messages_go_out_as_they_are_and_nothing_comes_back():
    component = made()
    message = {"run": "a", "seq": 0, "status": {"key": "<script>", "args": {}}}
    assert json.loads(component.postprocess(message)) == message
    assert component.postprocess(None) is None
    assert component.preprocess({"evil": 1}) is None
    assert [fn.__name__ for fn in component.server_fns] == ["_open"]


def test_words_of_the_script_are_no_events():
    with pytest.raises(AttributeError):
        made().commit  # noqa: B018 (a quoted word of the script)


def test_the_charting_library_is_the_vendored_one():
    assert (player.PLOTLY.parent / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert "v4.1.1" in player.PLOTLY.read_text(encoding="utf-8")[:200]
    assert str(player.PLOTLY) in made().js_on_load


def test_options_are_what_the_player_needs():
    options = player.options()
    assert set(options) == {"locales", "palette"}
    for texts in options["locales"].values():
        assert {"player.title_tree", "state.accepted", "verdict.root", "error.prompt_empty"} <= set(texts)
    assert {"accepted", "pending", "hidden"} <= set(options["palette"]["states"])
