"""A page that is really served, and a browser that really opens it.

The models behind it are tiny and random, and their target waits a little at each pass, so that a run can be watched and stopped. The
embedded model is behind the tests that are marked `model`.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from specviz.engine.lm import Pair

playwright_api = pytest.importorskip("playwright.sync_api")

ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip
PATIENCE = 60  # seconds to wait for anything: how soon it comes is for `make bench` to say, on a machine with nothing else to do
playwright_api.expect.set_options(timeout=1000 * PATIENCE)
LOCAL = re.compile(r"^(data:|blob:|https?://(127\.0\.0\.1|localhost)[:/])")


@dataclass
class Pace:
    """How long a pass of the target takes, and how many there were."""

    seconds: float = 0.0
    passes: int = 0


class SlowModel:
    """A target that waits at each pass and counts them."""

    def __init__(self, model: object, pace: Pace):
        self._model, self._pace = model, pace

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def forward(self, *given: object) -> object:
        self._pace.passes += 1
        time.sleep(self._pace.seconds)
        return self._model.forward(*given)


@dataclass
class Site:
    """The served page: its address, the pair behind it, and the pace of that pair's target."""

    pair: Pair
    pace: Pace
    url: str = ""


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A random target of two layers with a draft and Medusa heads, over a hundred tokens."""
    from specviz.models.load import load_local
    from tests.models.tiny import write_pair

    folder: Path = tmp_path_factory.mktemp("tiny")
    return load_local(*write_pair(folder), device="cpu", dtype="float32", name="embedded")


@pytest.fixture(scope="session")
def site(tiny_pair: Pair) -> Iterator[Site]:
    """The page over the tiny pair (which never ends a text by itself), on a free port of this machine."""
    from specviz.models import load as loading
    from specviz.ui.build import serve

    pace = Pace()
    served = Site(replace(tiny_pair, eos_ids=(), target=SlowModel(tiny_pair.target, pace)), pace)
    load = loading.load

    def ours(name: str = "embedded", device: str | None = None, dtype: str | None = None, **progress: object) -> Pair:
        return load(name, device, dtype) if device else served.pair  # the page names no device; other tests do

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load", ours)
        page = serve(port=17860, wait=False)
        served.url = page.local_url
        yield served
        page.close()


@pytest.fixture(scope="session")
def browser() -> Iterator["playwright_api.Browser"]:
    """Chromium: the one on PATH, else playwright's own."""
    with playwright_api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        except playwright_api.Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


class Visitor:
    """A browser window on the page, with the few things that every test does."""

    def __init__(self, page: "playwright_api.Page"):
        self.page = page
        page.set_default_timeout(1000 * PATIENCE)
        self.requests: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))

    def state(self) -> dict:
        """What the player shows."""
        return self.page.evaluate("window.specviz.state()")

    def until(self, condition: str, seconds: float = PATIENCE) -> dict:
        """Wait until a condition on the state `s` holds; returns the state."""
        self.page.wait_for_function(f"(() => {{ const s = window.specviz.state(); return {condition}; }})()", timeout=1000 * seconds)
        return self.state()

    def run(self, prompt: str, length: int = 16) -> None:
        """Ask for a run."""
        self.page.fill("#prompt textarea", prompt)
        self.page.fill("#length input[type=number]", str(length))
        self.page.press("#length input[type=number]", "Tab")
        self.page.click("#run")

    def finished(self) -> dict:
        """Wait for the end of a run of our own."""
        return self.until("!s.recorded && s.run && s.done && !s.incoming")

    def prompt_on_show(self) -> str:
        """The prompt of the run on show."""
        return self.page.evaluate("window.specviz.player.store.run?.header?.prompt")


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: "playwright_api.Browser", site: Site) -> Iterator[Visit]:
    """Open the page as a new visitor. When the test is over, no visitor's console has an error and no request has left this machine."""
    complaints: list[str] = []
    contexts: list[playwright_api.BrowserContext] = []
    site.pace.seconds = 0.0

    def guard(route: "playwright_api.Route") -> None:
        if LOCAL.match(route.request.url):
            return route.continue_()
        complaints.append(f"a request to {route.request.url}")
        route.abort()

    def complain(message: "playwright_api.ConsoleMessage") -> None:
        if message.type == "error":
            complaints.append(f"console: {message.text}")

    def open_page(query: str = "", width: int = 1440, height: int = 900, locale: str = "en-US") -> Visitor:
        context = browser.new_context(viewport={"width": width, "height": height}, locale=locale)
        contexts.append(context)
        context.route("**/*", guard)
        page = context.new_page()
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        visitor = Visitor(page)
        page.goto(f"{site.url}?{query}")
        page.wait_for_function("window.specviz && document.querySelector('#run')")
        return visitor

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
