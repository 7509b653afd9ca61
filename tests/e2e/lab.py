"""A visitor in the tree lab, and the few things that every test of it does."""

import json

from specviz.ui.tabs import lab
from tests.e2e.conftest import Visitor

ACCURACIES = json.loads((lab.SHIPPED / "medusa.json").read_text(encoding="utf-8"))["accuracies"]
PLACE = """(path) => {
  const { picture, drawn } = specvizLab.cards[0].picture, node = specvizLab.indexOf(path), box = picture.getBoundingClientRect();
  return [box.left + drawn.x[node], box.top + drawn.y[node]];
}"""


class Lab:
    """A visitor in the lab."""

    def __init__(self, visitor: Visitor):
        self.visitor, self.page = visitor, visitor.page

    def state(self) -> dict:
        return self.page.evaluate("window.specvizLab.state()")

    def until(self, condition: str) -> dict:
        self.page.wait_for_function(f"(() => {{ const s = window.specvizLab.state(); return {condition}; }})()")
        return self.state()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def told(self, words: str, selector: str = "#lab-tree .sv-lab-said") -> None:
        self.page.locator(selector, has_text=words).first.wait_for()

    def place(self, path: list[int]) -> tuple[float, float]:
        """Where a node is on the page."""
        self.page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        x, y = self.page.evaluate(PLACE, path)
        return x, y

    def grow(self, size: int) -> None:
        self.page.evaluate("(size) => window.specvizLab.toSize(size)", size)
        self.until(f"s.count === {size}")


def enter(visitor: Visitor) -> Lab:
    visitor.page.click("#show-trees")
    opened = Lab(visitor)
    opened.until("s.ready && s.count === 64")
    return opened
