"""The tree lab in a real browser: its twins of Python, its growing tree, and the tree under mouse and keyboard."""

import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from specviz.analysis.cost import CostModel
from specviz.analysis.trees import full_counts, full_expected
from specviz.config import choices_text
from specviz.engine.tree import TokenTree, chance, expected_tokens, full_shape, growth, parents_of, sparse_shape
from specviz.ui.tabs import lab, trees
from tests.e2e.conftest import Visit
from tests.e2e.lab import ACCURACIES, Lab, enter

pytestmark = pytest.mark.browser

GHOSTS = """(() => {
  const card = specvizLab.cards[0].picture, box = card.picture.getBoundingClientRect();
  return card.offered.map(({ path, x, y }) => [path, box.left + x, box.top + y]);
})()"""
REDRAW = """() => {
  const made = new Set(), note = (records) => records.forEach(({ addedNodes }) => addedNodes.forEach((node) => made.add(node)));
  const watch = new MutationObserver(note);
  watch.observe(specvizLab.root, { childList: true, subtree: true });
  for (let node = 1; node <= 10; node += 1) {
    specvizLab.node = node;
    specvizLab.cards.forEach((card) => card.refresh());
  }
  note(watch.takeRecords());
  return [...made].filter((node) => node.nodeType === 1).length;
}"""


@pytest.fixture
def twin(browser: Browser) -> Iterator[Page]:
    """An empty page that knows the lab's functions as `made`."""
    page = browser.new_page()
    page.set_content("<!doctype html><html><body></body></html>")
    page.evaluate(f"() => {{ window.made = {trees.SCRIPTS.script()}(); }}")
    yield page
    page.close()


@pytest.fixture
def open_lab(visit: Visit) -> Lab:
    """The lab, at 1440 × 900, ready."""
    return enter(visit())


# ---- the twins


def random_shape(seed: int) -> tuple[tuple[int, ...], ...]:
    chooser = random.Random(seed)
    paths: set[tuple[int, ...]] = set()
    for _ in range(chooser.randint(1, 40)):
        parent = chooser.choice([(), *[path for path in sorted(paths) if len(path) < 4]])
        paths.add((*parent, chooser.randint(0, 9)))
    return tuple(sorted(paths, key=lambda path: (len(path), path)))


@pytest.mark.parametrize("seed", range(6))
def test_the_pages_trees_are_the_engines(twin: Page, seed: int) -> None:
    shape = random_shape(seed)
    shuffled = random.Random(seed).sample(shape, len(shape))
    assert twin.evaluate("(paths) => made.choicesText(paths)", shuffled) == choices_text(shape)
    parents = twin.evaluate("(shape) => made.parentsOf(shape)", shape)
    assert tuple(parents) == parents_of(shape)
    mask = TokenTree(tuple(range(len(parents))), tuple(parents)).mask()
    assert twin.evaluate("(parents) => made.lineages(parents)", parents) == [row.nonzero()[:, 0].tolist() for row in mask]
    chances = twin.evaluate("([shape, known]) => shape.map((path) => made.chanceOf(path, known))", [shape, ACCURACIES])
    assert chances == pytest.approx([chance(path, ACCURACIES) for path in shape])
    found = twin.evaluate("([shape, known]) => made.expectedOf(shape, known)", [shape, ACCURACIES])
    assert found == {"value": pytest.approx(expected_tokens(shape, ACCURACIES)), "unknown": 0}


@pytest.mark.parametrize("widths", [[8, 8, 8, 8], [3], [10, 1, 2], [2, 2, 2, 2, 2]])
def test_the_pages_counts_are_those_of_python(twin: Page, widths: list[int]) -> None:
    assert twin.evaluate("(widths) => made.fullCounts(widths)", widths) == full_counts(widths)
    found = twin.evaluate("([widths, known]) => made.fullExpected(widths, known)", [widths, ACCURACIES])
    assert found == (pytest.approx(full_expected(widths, ACCURACIES)) if len(widths) <= 4 else None)
    if sum(full_counts(widths)) < 100:
        assert twin.evaluate("(widths) => made.choicesText(made.fullShape(widths))", widths) == choices_text(full_shape(widths))


def test_what_is_best_next_is_what_the_engine_grows_next(twin: Page) -> None:
    order = growth(ACCURACIES, 40)
    for size in (0, 1, 7, 39):
        best = twin.evaluate("([shape, known]) => made.bestNext(shape, known)", [order[:size], ACCURACIES])
        assert best["chance"] == pytest.approx(chance(order[size], ACCURACIES))


def test_tokens_a_second_are_those_of_the_cost_model(twin: Page) -> None:
    model = CostModel(plain=10.0, verify=((1, 10.0), (4, 12.0), (64, 90.0)), draft=((1, 1.0),), once=True, per_step=0.5)
    expected = [expected_tokens(growth(ACCURACIES, size), ACCURACIES) for size in range(1, 70)]
    model_sent = {**vars(model), "trees": [[1, 2.0]]}
    rates = twin.evaluate("([model, expected]) => made.ratesOf(model, expected)", [model_sent, expected])
    assert len(rates) == 63  # a pass of more than 64 tokens was not measured
    for size in (1, 16, 63):
        one = CostModel(**{**vars(model), "trees": tuple(enumerate(expected, 1))}).predict_tree(size)
        assert rates[size - 1]["rate"] == pytest.approx(one.expected / one.cost)


# ---- counts and growth


def test_all_combinations_are_counted_live_beside_the_sparse_tree(open_lab: Lab) -> None:
    full = open_lab.text("#lab-cartesian .sv-lab-count")
    assert "4,096 paths" in full and "4,680 candidates" in full
    assert f"E[L] {full_expected([8] * 4, ACCURACIES):.3g}" in full
    sparse = expected_tokens(sparse_shape(ACCURACIES, 64), ACCURACIES)
    assert f"64 candidates: E[L] {sparse:.3g}" in open_lab.text("#lab-cartesian .sv-lab-sparse")
    open_lab.page.locator("#lab-cartesian input").nth(1).fill("3")  # s of all heads
    open_lab.told("81 paths, 120 candidates", "#lab-cartesian .sv-lab-count")
    open_lab.page.locator("#lab-cartesian input").nth(2).fill("10")  # s of the first head
    open_lab.told("270 paths, 400 candidates", "#lab-cartesian .sv-lab-count")
    open_lab.page.locator("#lab-cartesian input").nth(0).fill("8")
    open_lab.told("not known", "#lab-cartesian .sv-lab-count")  # only four heads were measured
    assert open_lab.page.evaluate("document.querySelector('#lab-cartesian .sv-chart')._fullLayout.yaxis.type") == "log"
    open_lab.page.click("#lab-cartesian .sv-ibtn")
    expect(open_lab.page.locator("#lab-cartesian .sv-twin tbody tr")).to_have_count(8)


def test_a_full_tree_that_can_be_run_is_taken(open_lab: Lab) -> None:
    open_lab.page.locator("#lab-cartesian input").nth(1).fill("2")
    open_lab.page.get_by_role("button", name="Show this tree").click()
    state = open_lab.until("s.count === 30")
    assert state["choices"] == choices_text(full_shape((2, 2, 2, 2)))


def test_the_tree_grows_candidate_by_candidate_and_nothing_moves(open_lab: Lab) -> None:
    slider = open_lab.page.locator(".sv-lab-grow")
    open_lab.grow(12)
    before = open_lab.place([0, 0])
    slider.press("ArrowRight")
    state = open_lab.until("s.count === 13")
    assert state["choices"] == choices_text(sparse_shape(ACCURACIES, 13))
    assert state["expected"]["value"] == pytest.approx(expected_tokens(sparse_shape(ACCURACIES, 13), ACCURACIES))
    assert open_lab.place([0, 0]) == pytest.approx(before)
    assert "13 candidates · E[L]" in open_lab.text(".sv-lab-size")
    open_lab.grow(0)
    open_lab.page.click("#lab-tree .sv-lab-bar .sv-ibtn")
    open_lab.until("s.playing && s.count >= 3")
    open_lab.page.click("#lab-tree .sv-lab-bar .sv-ibtn")
    count = open_lab.until("!s.playing")["count"]
    open_lab.page.wait_for_timeout(500)
    assert open_lab.state()["count"] == count < 64


def test_the_curve_marks_the_tree_on_show_and_the_fastest_size(open_lab: Lab) -> None:
    open_lab.grow(9)
    traces = "document.querySelector('#lab-curve .sv-chart')._fullData.map((trace) => [trace.x, trace.y])"
    open_lab.page.wait_for_function(f"{traces}[2][0][0] === 9")
    curve, best, now = open_lab.page.evaluate(traces)
    assert len(curve[0]) == 65 and curve[1][0] == 1
    assert curve[1][9] == pytest.approx(now[1][0], abs=1e-5)
    fastest = open_lab.until("s.fastest")["fastest"]
    assert best[0] == [fastest["at"]]
    timed = lab.pace({"trace": None})["model"]
    trees_by_size = tuple((n, expected_tokens(growth(ACCURACIES, n), ACCURACIES)) for n in range(1, 64))
    rates = {one.at: one.expected / one.cost for one in CostModel(**{**timed, "trees": trees_by_size, "hits": 1}).by_size()}
    assert fastest["rate"] == pytest.approx(max(rates.values())) == pytest.approx(rates[fastest["at"]])
    assert f"at size {fastest['at']}" in open_lab.text("#lab-curve .sv-lab-note")


def test_a_node_is_as_large_as_its_value_where_there_is_room(open_lab: Lab) -> None:
    sizes = "[...document.querySelectorAll('#lab-tree .sv-lab-node')].map((node) => [+node.getAttribute('cy'), +node.getAttribute('r')])"
    nodes = open_lab.page.evaluate(f"(() => {{ const all = {sizes}; return specvizLab.tree.map((path, i) => [path, ...all[i + 1]]); }})()")
    chains = {len(path): radius for path, _, radius in nodes if not any(path)}
    first = [radius for path, _, radius in nodes if len(path) == 1]
    assert first == sorted(first, reverse=True) and first[0] > 2 * first[-1]
    assert chains[1] > chains[2] > chains[3]
    for depth in (1, 2, 3):
        column = sorted((y, radius) for path, y, radius in nodes if len(path) == depth)
        assert all(b - a >= one + other - 0.2 for (a, one), (b, other) in pairwise(column)), "two nodes overlap"


# ---- editing


def test_clicks_add_and_remove_and_everything_follows(open_lab: Lab) -> None:
    page = open_lab.page
    open_lab.grow(10)
    page.mouse.click(*open_lab.place([0, 0]))
    open_lab.told("[0,0]: depth 2, candidate no. 1 there", "#lab-told")
    ghosts = page.evaluate(GHOSTS)
    siblings = sum(path[:-1] == [0] for path in open_lab.state()["tree"])
    assert [path for path, *_ in ghosts] == [[0, 0, 0], [0, siblings]]
    page.mouse.click(*ghosts[0][1:])
    state = open_lab.until("s.count === 11")
    assert [0, 0, 0] in state["tree"]
    assert page.input_value("#lab-choices") == state["choices"]
    for card in ("tree", "mask"):
        page.click(f"#lab-{card} .sv-head .sv-ibtn")
        expect(page.locator(f"#lab-{card} .sv-twin tbody tr")).to_have_count(12)
    assert not page.locator("#specviz-lab-tip").is_visible(), "the tip says what the button did"
    last = page.locator("#lab-mask .sv-twin tbody tr", has_text="[0,0,0]").inner_text()
    assert "t+3" in last
    page.click("#lab-tree .sv-head .sv-ibtn")
    page.mouse.click(*open_lab.place([0]))
    open_lab.until("s.tree[s.node - 1]?.length === 1")
    page.get_by_role("button", name="Remove with").click()
    open_lab.told("Removed [0] and the")
    assert not any(path[0] == 0 for path in open_lab.state()["tree"])
    page.get_by_role("button", name="Undo").click()
    assert open_lab.until("s.count === 11")["choices"] == state["choices"]


def test_the_keyboard_does_all_of_it(open_lab: Lab) -> None:
    page = open_lab.page
    open_lab.grow(6)
    page.focus(".sv-lab-picture")
    page.keyboard.press("ArrowRight")
    assert open_lab.until("s.node === 1")["tree"][0] == [0]
    page.keyboard.press("ArrowDown")
    open_lab.until("s.tree[s.node - 1].join() === '1'")
    page.keyboard.press("Enter")
    open_lab.until("s.tree[s.node - 1].join() === '1,0'")
    page.keyboard.press("s")
    open_lab.until("s.tree[s.node - 1].join() === '1,1'")
    page.keyboard.press("ArrowLeft")
    open_lab.until("s.tree[s.node - 1].join() === '1'")
    page.keyboard.press("Delete")
    open_lab.told("Removed [1] and the 2 candidates below it")
    page.keyboard.press("z")
    open_lab.told("taken back")
    assert [1, 1] in open_lab.state()["tree"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    open_lab.until("s.node === 0")
    page.keyboard.press("Delete")
    open_lab.told("The root is the last committed token")


def test_keys_faster_than_the_server_are_all_done(open_lab: Lab) -> None:
    open_lab.page.evaluate("window.specvizLab.read('[[0],[1],[2],[3]]')")
    open_lab.page.focus(".sv-lab-picture")
    open_lab.page.keyboard.press("ArrowRight")
    for key in ("Enter", "s", "s", "Enter", "Delete", "s"):
        open_lab.page.keyboard.press(key)
    # [0,0] [0,1] [0,2]; one below the last, and gone again; a sibling of [0,2]
    open_lab.until("s.choices === '[[0],[1],[2],[3],[0,0],[0,1],[0,2],[0,3]]'")


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("3,3,3", "[3,3,3] has no parent in the tree: add [3,3] first."),
        ("[0]", "in the tree already"),
        ("0,x", "whole numbers"),
        ("", "whole numbers"),
    ],
)
def test_a_candidate_that_cannot_stand_is_refused_in_words(open_lab: Lab, typed: str, sentence: str) -> None:
    open_lab.grow(5)
    before = open_lab.state()["choices"]
    open_lab.page.fill("#lab-path", typed)
    open_lab.page.press("#lab-path", "Enter")
    open_lab.told(sentence)
    assert open_lab.state()["choices"] == before


def test_a_candidate_below_the_last_head_is_refused(open_lab: Lab) -> None:
    open_lab.page.fill("#lab-choices", "[[0],[0,0],[0,0,0],[0,0,0,0]]")
    open_lab.page.get_by_role("button", name="Read this text").click()
    open_lab.until("s.count === 4")
    open_lab.page.fill("#lab-path", "0,0,0,0,0")
    open_lab.page.get_by_role("button", name="Add", exact=True).click()
    open_lab.told("5 deep, and there are accuracies for 4 levels")
    assert open_lab.state()["count"] == 4


def test_a_tree_of_256_candidates_stays_usable(open_lab: Lab) -> None:
    page = open_lab.page
    page.get_by_role("button", name="Grow up to 256").click()
    open_lab.until("s.count === 256")
    page.focus(".sv-lab-picture")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    visible = """(() => { const lab = specvizLab, card = lab.cards[0].picture, box = card.host.getBoundingClientRect(),
      y = card.picture.getBoundingClientRect().top + card.drawn.y[lab.node]; return y > box.top && y < box.bottom; })()"""
    page.wait_for_function(visible)  # else the selected node is out of sight
    for _ in range(60):
        page.keyboard.press("ArrowDown")
    page.wait_for_function(visible)
    made = page.evaluate(REDRAW)
    assert made < 100, f"walking past ten nodes made {made} elements anew: with every step the whole picture"
    page.fill("#lab-path", "9,9,9,9")
    page.press("#lab-path", "Enter")
    open_lab.page.wait_for_timeout(300)
    assert open_lab.state()["count"] == 256  # not one more
