"""The step player alone: on an empty page, without a server, with a run put into it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from specviz.figures.view import run_view
from specviz.trace import Trace
from specviz.ui import player

MARKUP = """<!doctype html><html><head><meta charset="utf-8"><style>
body { margin: 0; } header { height: 48px; } main { display: flex; } aside { width: 272px; flex: none; } #at { flex: 1; min-width: 0; }
@media (max-width: 700px) { aside { display: none; } }
</style></head><body class="light"><header></header><main><aside></aside><div id="at"></div></main></body></html>"""
MAKE = """([language, server]) => {
  made.addStyle(made.style);
  const at = document.getElementById("at");
  const player = new made.SpecvizPlayer(at, { ...made.options, language, plotly: window.Plotly, server: eval(`(${server})`) });
  window.specviz = player.api;
}"""
SETTLED = "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 20)), 150))"


class Stage:
    """A page with nothing on it but a player; `complaints` are the errors of its console."""

    def __init__(self, page: Page):
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))

    def prepare(self, charts: bool = False) -> None:
        """An empty page that knows the player's script, and plotly if `charts` are wanted."""
        self.page.set_content(MARKUP)
        if charts:
            self.page.add_script_tag(path=player.PLOTLY)
        self.page.evaluate(f"() => {{ window.made = {player.script()}(); }}")

    def show(self, trace: Trace | dict | None = None, language: str = "en", charts: bool = False, server: str = "{}") -> None:
        """Make the player, and open a run in it."""
        self.prepare(charts)
        self.page.evaluate(MAKE, [language, server])
        if trace is not None:
            view = run_view(trace) if isinstance(trace, Trace) else trace
            self.page.evaluate("view => specviz.player.open(view)", view)
        self.settle()

    def settle(self) -> None:
        """Wait until everything that was asked for is drawn."""
        self.page.evaluate(SETTLED)

    def do(self, script: str, *given: Any) -> Any:
        """Run a script on the page, wait for the drawing, and return its result."""
        found = self.page.evaluate(script, *given)
        self.settle()
        return found

    def to(self, name: str) -> None:
        """Scroll to a panel, when those above it are as tall as they will be."""
        self.do("specviz.player.drawTheRest()")
        self.do("name => document.getElementById(name).scrollIntoView()", name)

    def state(self) -> dict[str, Any]:
        """What the player shows."""
        return self.page.evaluate("specviz.state()")

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return self.page.locator(selector).first.inner_text()


@contextmanager
def stage(browser: Browser, width: int = 1440, height: int = 900, **context: Any) -> Iterator[Stage]:
    """An empty window; afterwards its console must be clean."""
    opened = browser.new_context(viewport={"width": width, "height": height}, **context)
    made = Stage(opened.new_page())
    yield made
    opened.close()
    assert made.complaints == []
