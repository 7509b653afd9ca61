"""What the tabs behind the player share: their scripts, their component, and how they answer."""

import re
from pathlib import Path

import gradio as gr
import pytest

from specviz.i18n import ASSETS
from specviz.ui.tabs import lab, train, trees
from specviz.ui.tabs.component import Scripts, Tab, answered

PARTS = [path for name in ("tabs", "lab", "train") for path in sorted((ASSETS / name).glob("*.js"))]
both = pytest.mark.parametrize("scripts", [trees.SCRIPTS, train.SCRIPTS], ids=lambda scripts: scripts.name)


@both
def test_every_part_is_in_the_script_once(scripts: Scripts) -> None:
    text = scripts.script()
    assert {*PARTS} - {*scripts.files()} == {path for path in PARTS if path.parent.name not in ("tabs", scripts.name)}
    assert all(text.count(path.read_text(encoding="utf-8")) == 1 for path in scripts.files())
    assert re.search(r"return \{ mount[A-Z]\w+(, \w+)* \};\n\}\)$", text)


@pytest.mark.parametrize("path", PARTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_parts_are_small_and_reach_nobody(path: Path) -> None:
    opens = re.compile(r"(  )?(async |get |static |function )*[A-Za-z]+\(.*\) \{$")
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 300
    assert not re.findall(r"https?://|innerHTML|insertAdjacentHTML|outerHTML|document\.write|\beval\(|new Function", text)
    starts = [i for i, line in enumerate(lines) if opens.match(line) and not re.match(r" *(if|for|while|switch) ", line)]
    assert all(end - start <= 80 for start, end in zip(starts, [*starts[1:], len(lines)], strict=True))


@both
def test_style_sheets_reach_nobody(scripts: Scripts) -> None:
    assert "url(" not in scripts.style() and "@import" not in scripts.style()


@both
def test_the_markup_is_constant_and_nothing_comes_back(scripts: Scripts) -> None:
    with gr.Blocks():
        tab = Tab(scripts, [lab.grow, lab.judge], elem_id="here")
    assert re.fullmatch(rf'<div class="specviz-{scripts.name}-mount" style="[a-z0-9:-]+"></div>', tab.html_template)
    assert f"().mount{scripts.name.title()}({{ element, server }}" in tab.js_on_load
    assert tab.preprocess({"evil": 1}) is None
    assert [fn.__name__ for fn in tab.server_fns] == ["grow", "judge"]
    with pytest.raises(AttributeError):
        tab.resume  # noqa: B018 (a quoted word of a script)


@pytest.mark.parametrize("asked", [None, 7, [], "x"])
def test_what_is_no_object_is_answered_as_an_empty_one(asked: object) -> None:
    assert answered("error.unexpected")(lambda given: {"given": given})(asked) == {"given": {}}
