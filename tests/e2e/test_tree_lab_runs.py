"""The lab's tree as text, on recorded runs and in the player; its sources, languages and sizes."""

import json
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from specviz.config import DecodeConfig, choices_text
from specviz.engine.tree import sparse_shape
from specviz.models import own
from specviz.models.embedded import sha256
from specviz.trace import ModelInfo
from specviz.ui.tabs import lab
from tests.builders import make_trace
from tests.e2e.conftest import Visit
from tests.e2e.lab import ACCURACIES, Lab, enter
from tests.ui.own_heads import write_heads

pytestmark = pytest.mark.browser

OUTSIDE = """(width) => [...document.querySelectorAll("#tab-trees :is(.sv-card, button, input, select)")].filter((element) => {
  const box = element.getBoundingClientRect();
  return box.width && (box.right > width + 1 || box.left < -1);
}).map((element) => element.outerHTML.slice(0, 80))"""


@pytest.fixture
def open_lab(visit: Visit) -> Lab:
    """The lab, at 1440 × 900, ready."""
    return enter(visit())


# ---- text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[0],[0,0],[0,0,0],[0,0,0,0],[0,0,0,0,0]]", "5 deep, and there are accuracies for 4 levels"),
        ("[[0],[1,0]]", "[1, 0] has no parent"),
        ("[[0],[0]]", "names the candidate [0] twice"),
        ("hello", "no tree in the choices format"),
        ("[[0],[0,0", "A tree is written like"),
        (choices_text([(i,) for i in range(300)]), "1 to 256 candidates"),
    ],
)
def test_a_text_that_is_no_tree_is_refused_and_nothing_is_lost(open_lab: Lab, text: str, sentence: str) -> None:
    before = open_lab.state()["choices"]
    open_lab.page.fill("#lab-choices", text)
    open_lab.page.get_by_role("button", name="Read this text").click()
    open_lab.told(sentence, "#lab-exchange .sv-lab-said")
    assert open_lab.state()["choices"] == before
    assert open_lab.page.input_value("#lab-choices") == text
    open_lab.page.get_by_role("button", name="Back to the tree").click()
    expect(open_lab.page.locator("#lab-choices")).to_have_value(before)


def test_a_tree_goes_out_and_comes_in_as_text_and_as_a_file(open_lab: Lab, tmp_path: Path) -> None:
    page = open_lab.page
    open_lab.grow(20)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    file = tmp_path / "tree.json"
    shutil.copy(download.value.path(), file)
    assert tuple(map(tuple, json.loads(file.read_text()))) == sparse_shape(ACCURACIES, 20)
    open_lab.grow(3)
    page.set_input_files("#lab-exchange input[type=file]", file)
    assert open_lab.until("s.count === 20 && s.size === null")["choices"] == choices_text(sparse_shape(ACCURACIES, 20))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    open_lab.told("Copied: 20 candidates", "#lab-exchange .sv-lab-said")
    assert page.evaluate("navigator.clipboard.readText()") == choices_text(sparse_shape(ACCURACIES, 20))
    page.fill("#lab-choices", "vicuna = [(0,), (0, 0), (1,), (1, 2)]")
    page.get_by_role("button", name="Read this text").click()
    assert open_lab.until("s.count === 4")["choices"] == "[[0],[1],[0,0],[1,2]]"


# ---- trials


def test_the_recorded_run_is_judged_without_the_model(open_lab: Lab) -> None:
    page, judge = open_lab.page, "#lab-trial .sv-lab-button >> nth=0"
    open_lab.grow(4)
    page.click(judge)
    judged = open_lab.until("s.judged")["judged"]
    expected = lab.judge({"tree": choices_text(sparse_shape(ACCURACIES, 4))})
    assert judged == expected
    assert f"{judged['mean']:.3g} tokens a step" in open_lab.text("#lab-trial .sv-lab-verdict")
    assert "Each step starts where the recorded one did" in open_lab.text("#lab-trial")
    page.mouse.click(*open_lab.place([0]))
    open_lab.told(f"Accepted in {judged['accepted'].get('[0]', 0)} of {len(judged['judged'])} recorded steps", "#lab-told")
    page.fill("#lab-choices", "[[0],[0,0],[0,0,0],[0,0,0,0],[9],[9,9]]")
    page.get_by_role("button", name="Read this text").click()
    open_lab.until("s.count === 6 && !s.judged")
    page.click(judge)
    open_lab.told("The run never proposed", "#lab-trial .sv-lab-verdict")
    assert "Run it on the model instead" in open_lab.text("#lab-trial")


def calibrated(folder: Path) -> Path:
    """A folder in which every source is calibrated."""
    for name in lab.SOURCES:
        facts = {"accuracies": [[0.4, 0.2, 0.1], [0.3, 0.2, 0.1]], "calibration": {"prompts": 2, "answer_tokens": 99}}
        (folder / f"{name}.json").write_text(json.dumps(facts))
    return folder


@pytest.mark.parametrize("source", ["ngram", "draft"])
def test_a_tree_is_handed_to_the_player_and_run(visit: Visit, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "SHIPPED", calibrated(tmp_path))
    visitor = visit()
    visitor.page.fill("#prompt textarea", "tick tock tick tock tick")
    visitor.page.fill("#length input[type=number]", "16")
    visitor.page.press("#length input[type=number]", "Tab")
    visitor.page.click("#show-trees")
    opened = Lab(visitor)
    opened.until("s.ready")
    visitor.page.check(f".sv-lab-sources input[value={source}]", force=True)
    opened.until(f"s.source === '{source}' && s.count === 12")
    assert "99 tokens" in opened.text(".sv-lab-origin")
    opened.grow(5)
    choices = opened.state()["choices"]
    visitor.page.get_by_role("button", name="Run this tree on the model").click()
    visitor.finished()
    assert visitor.page.evaluate("document.documentElement.dataset.tab") == "player"
    config = visitor.page.evaluate("window.specviz.player.store.run.header.config")
    assert (config["method"], config["tree"]) == (source, choices)
    assert visitor.page.is_checked(f"#method input[value={source}]")
    visitor.page.click("#show-trees")
    visitor.page.get_by_role("button", name="run in the player").click()
    opened.grow(2)
    visitor.page.click("#lab-trial .sv-lab-button >> nth=0")
    if source == "draft":
        assert opened.until("s.judged || s.refused")["judged"]["run"]["method"] == "draft"
    else:
        opened.until("s.judged || s.refused")  # random text may give lookup nothing to propose


# ---- whose heads

MINE = "embedded+20261130-101112"
LIST = ".sv-lab-whose select"
FASTEST = "#lab-curve .sv-lab-note"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for heads that are trained here."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path)
    return tmp_path


def shown(heads: str, accuracies: list[list[float]]) -> str:
    """How the lab begins to say what was measured of these heads."""
    return f"Measured: {heads}, first candidates right in {' · '.join(f'{row[0]:.2g}' for row in accuracies)} of cases"


def come_back(opened: Lab) -> None:
    """Leave the lab, and show it again."""
    opened.page.click("#show-player")
    opened.page.click("#show-trees")


def test_heads_that_were_trained_meanwhile_can_be_chosen_until_they_are_gone(shelf: Path, open_lab: Lab) -> None:
    page = open_lab.page
    open_lab.told(shown("shipped heads of SmolLM2-135M-Instruct", ACCURACIES), ".sv-lab-origin")
    expect(page.locator(f"{LIST} option")).to_have_count(2)
    page.select_option(LIST, "embedded-medusa2")
    adapted = lab.grow({"source": "medusa", "pair": "embedded-medusa2"})["accuracies"]
    open_lab.told(shown("shipped heads of SmolLM2-135M-Instruct + Medusa-2", adapted), ".sv-lab-origin")
    page.check(".sv-lab-sources input[value=assumed]", force=True)
    open_lab.told("Assumed, not measured", ".sv-lab-origin")
    assert page.input_value(LIST) == "", "heads are chosen in the list, and others are on show"
    page.select_option(LIST, "embedded")
    open_lab.until(f"s.source === 'medusa' && s.choices === '{choices_text(sparse_shape(ACCURACIES, 64))}'")
    page.evaluate("window.specvizLab.read('[[0],[1],[0,0]]')")
    open_lab.until("s.count === 3")
    write_heads(shelf / MINE, [[0.3, 0.2], [0.1, 0.05]])
    come_back(open_lab)
    expect(page.locator(f"{LIST} option")).to_have_count(3)
    assert open_lab.state()["choices"] == "[[0],[1],[0,0]]", "looking for new heads has taken the tree away"
    page.select_option(LIST, MINE)
    open_lab.told("first candidates right in 0.3 · 0.1 of cases (99 tokens", ".sv-lab-origin")
    assert open_lab.until(f"s.pair === '{MINE}'")["expected"]["value"] == pytest.approx(1 + 0.3 + 0.2 + 0.3 * 0.1)
    shutil.rmtree(shelf / MINE)
    come_back(open_lab)
    open_lab.told("These heads are gone")
    assert open_lab.until("s.pair === 'embedded'")["source"] == "medusa"
    open_lab.told("shipped heads of SmolLM2-135M-Instruct,", ".sv-lab-origin")


def test_accuracies_meet_the_times_and_counts_of_their_own_heads_only(shelf: Path, open_lab: Lab) -> None:
    page = open_lab.page
    recorded = open_lab.until("s.fastest")["fastest"]
    heads = ModelInfo(name="medusa", sha256=sha256(write_heads(shelf / MINE, ACCURACIES) / own.HEADS), parameters=1)
    trace = make_trace(6, DecodeConfig(method="medusa", tree="2x1"))
    run = json.loads(trace.model_copy(update={"header": trace.header.model_copy(update={"proposer": heads})}).to_json())
    page.evaluate(
        """({ header, steps, ended }) => {
          const run = { id: "run", live: true, done: true, header, ended, steps: steps.map((step) => ({ step })) };
          specvizLab.page.run = () => run; // as if it had been decoded in the player
        }""",
        run,
    )
    come_back(open_lab)
    page.wait_for_function("window.specvizLab.live")
    open_lab.told("when the shipped run was recorded", FASTEST)
    assert open_lab.state()["fastest"] == recorded, "times of other heads were taken"
    judge = "#lab-trial .sv-lab-button >> nth=0"
    open_lab.grow(4)
    page.click(judge)
    open_lab.told(f"Expected by the accuracies: {open_lab.until('s.judged')['expected']['value']:.3g}.", "#lab-trial")
    page.select_option(LIST, MINE)
    open_lab.told("for the run in the player", FASTEST)
    assert open_lab.state()["fastest"] != recorded
    page.evaluate("(() => { const run = { ...specvizLab.page.run(), id: 'next' }; specvizLab.page.run = () => run; })()")
    come_back(open_lab)
    page.wait_for_function("window.specvizLab.live?.id === 'next'")
    open_lab.told("for the run in the player", FASTEST)
    page.click(judge)
    open_lab.told("not those of this run's candidates", "#lab-trial")
    assert "Expected by" not in open_lab.text("#lab-trial")
    page.select_option(LIST, "embedded-medusa2")
    open_lab.told("those of other heads, so no size is marked", FASTEST)
    assert open_lab.state()["fastest"] is None
    page.check(".sv-lab-sources input[value=assumed]", force=True)
    open_lab.told("for the run in the player", FASTEST)
    page.click(judge)
    open_lab.told("Expected by the assumed accuracies", "#lab-trial")


def test_assumed_accuracies_have_sliders_and_say_what_they_are(open_lab: Lab) -> None:
    page = open_lab.page
    page.check(".sv-lab-sources input[value=assumed]", force=True)
    open_lab.told("Assumed, not measured", ".sv-lab-origin")
    before = open_lab.state()["expected"]["value"]
    page.locator(".sv-lab-profile input").nth(1).fill("0.9")
    assert open_lab.until(f"s.expected.value > {before}")["expected"]["value"] > before
    page.locator(".sv-lab-profile input").nth(0).fill("1")
    open_lab.until("s.tree.every((path) => path.length === 1)")


# ---- looks


def test_the_lab_speaks_both_languages_at_run_time(open_lab: Lab) -> None:
    page = open_lab.page
    page.check("#language input[value=zh]")
    page.get_by_text("树实验室").wait_for()
    expect(page.locator("#tab-trees")).not_to_contain_text("Tree lab")
    words = page.inner_text("#tab-trees")
    assert "Tree lab" not in words and "lab." not in words and "{" not in words
    assert page.inner_text("#show-trees") == "树"
    page.check("#language input[value=en]")
    page.get_by_text("Tree lab").wait_for()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768), (390, 844)])
def test_the_lab_fits_its_window(visit: Visit, width: int, height: int) -> None:
    opened = enter(visit(width=width, height=height))
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(OUTSIDE, width) == []
    if width == 1440:
        assert page.evaluate("document.documentElement.scrollHeight") == 900
        grid = "(e => e.scrollHeight <= e.clientHeight)(document.querySelector('.sv-lab'))"
        assert page.evaluate(grid), "the lab scrolls at 1440 × 900"


def test_both_themes_have_their_colours_and_no_id_is_used_twice(open_lab: Lab) -> None:
    page = open_lab.page
    fill = "document.querySelector('.sv-lab-node:nth-of-type(2)').getAttribute('fill')"
    light = page.evaluate(fill)
    page.click("#theme")
    page.wait_for_function(f"{fill} !== '{light}'")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(set(ids)) == sorted(ids)
