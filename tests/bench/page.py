"""The page in headless Chromium with software rendering: opening it, seeking in a large run, and how soon a step is on screen."""

import random
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

from playwright.sync_api import Page, sync_playwright

from specviz.config import DecodeConfig
from specviz.figures.view import run_view
from tests.builders import make_trace
from tests.e2e.conftest import ARGS

STEPS, TREE = 60, "3x4x4"  # 63 candidates and the root
WINDOW = {"width": 1440, "height": 900}

# Resolves with the milliseconds from a change until the frame that shows it was painted.
PAINTED = """value => new Promise((resolve) => {
  const before = performance.now();
  CHANGE;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(performance.now() - before);
    port2.postMessage(0);
  });
})"""
SEEK = PAINTED.replace("CHANGE", "window.specviz.seek(value)")
SLIDE = PAINTED.replace("CHANGE", "window.specviz.player.store.tryBar({ epsilon: value })")  # judges the whole run anew
# Notes, at the end of every frame, when the number of steps on show grew.
WATCH = """() => {
  window.seen = [];
  const look = () => {
    requestAnimationFrame(look);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      const state = window.specviz.state();
      if (state.mode !== "live" || state.step !== state.steps - 1) return;
      const now = (performance.timeOrigin + performance.now()) / 1000;
      while (window.seen.length < state.steps) window.seen.push(now);
    };
    port2.postMessage(0);
  };
  look();
}"""
# When the page could be used: the player is there with its charts, and the Run button.
USABLE = """() => {
  const usable = () => window.specviz?.state().charts && document.querySelector("#run");
  const look = () => (usable() ? (window.usable = performance.now()) : requestAnimationFrame(look));
  look();
}"""


@dataclass
class Served:
    """The page over a tiny random pair, whose target waits `pace` seconds at each pass; `committed` are the clock's readings when the
    engine handed out each step."""

    url: str = ""
    pace: float = 0.0
    committed: list[float] = field(default_factory=list)


class Paced:
    """A model whose passes take as long as those of a larger one."""

    def __init__(self, model: Any, site: Served):
        self._model, self._site = model, site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, *given: Any) -> Any:
        time.sleep(self._site.pace)
        return self._model.forward(*given)


@contextmanager
def served() -> Iterator[Served]:
    """Serve the page; its models are random and tiny, so that what is measured is the page."""
    from specviz.engine import loop
    from specviz.models import load as loading
    from specviz.ui.build import serve
    from tests.models.tiny import write_pair

    with tempfile.TemporaryDirectory() as folder:
        pair = loading.load_local(*write_pair(Path(folder)), device="cpu", dtype="float32", name="embedded")
        site = Served()
        pair = replace(pair, eos_ids=(), target=Paced(pair.target, site))
        decode = loop.decode

        def stamped(given: Any, prompt: str, config: DecodeConfig) -> Iterator[Any]:
            for step in decode(given, prompt, config):
                if config.method != "plain":  # not the baseline
                    site.committed.append(time.time())
                yield step

        with patch.object(loading, "load", lambda *_, **__: pair), patch.object(loop, "decode", stamped):
            page = serve(port=17960, wait=False)
            site.url = page.local_url
            yield site
            page.close()


def measure(repeats: int, seeks: int) -> list[dict[str, Any]]:
    """All figures of the page, in milliseconds, each with the limit that the project set itself."""
    with served() as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)

        def visit() -> Page:
            page = browser.new_context(viewport=WINDOW, locale="en-US").new_page()
            page.add_init_script(f"({USABLE})()")
            page.goto(site.url)
            page.wait_for_function("window.usable")
            return page

        visit().context.close()  # the first visit of a server compiles and caches
        opened = []
        for _ in range(repeats):
            page = visit()
            opened.append(page.evaluate("window.usable"))
            page.context.close()
        page = visit()
        rows = [_figures("page usable after opening", opened, 3000), _figures(f"seek, {STEPS} steps of 64 nodes", _seeks(page, seeks), 80)]
        rows.append(_figures(f"typical acceptance with another ε, {STEPS} steps of 64 nodes", _slides(page, seeks), 80))
        for pace in (0.1, 0.02):
            rows.append(_figures(f"step on screen after commit, a pass of {pace * 1000:.0f} ms", _latencies(visit(), site, pace), 200))
        browser.close()
        return rows


def _seeks(page: Page, count: int) -> list[float]:
    _show(page, DecodeConfig(method="draft", rule="rejection", tree=TREE, temperature=1.0))
    chosen, steps = random.Random(0), [0]
    while len(steps) <= count:
        steps.append(chosen.choice([i for i in range(STEPS) if i != steps[-1]]))
    return _changes(page, SEEK, steps[1:])


def _slides(page: Page, count: int) -> list[float]:
    _show(page, DecodeConfig(method="medusa", rule="typical", tree=TREE, temperature=1.0))
    page.locator("#typical").scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    return _changes(page, SLIDE, [0.01 * (1 + i % 50) for i in range(count)])


def _show(page: Page, config: DecodeConfig) -> None:
    page.evaluate("view => window.specviz.load(view)", run_view(make_trace(STEPS, config)))
    page.wait_for_function(f"window.specviz.state().steps === {STEPS}")
    page.wait_for_timeout(1000)


def _changes(page: Page, script: str, values: Iterable[float]) -> list[float]:
    taken = []
    for value in values:
        taken.append(page.evaluate(script, value))
        page.wait_for_timeout(150)  # what is drawn later (rows out of sight, words for a screen reader) is done
    return taken[5:]  # the first ones compile


def _latencies(page: Page, site: Served, pace: float) -> list[float]:
    site.pace = pace
    site.committed.clear()
    page.evaluate(WATCH)
    page.fill("#prompt textarea", "abc")
    page.click("#run")
    page.wait_for_function("window.specviz.state().mode === 'live' && window.specviz.state().done", timeout=120_000)
    page.wait_for_timeout(300)
    seen = page.evaluate("window.seen")
    return [1000 * (shown - told) for shown, told in zip(seen, site.committed, strict=True)]


def _figures(name: str, taken: list[float], limit: float) -> dict[str, Any]:
    p95 = quantiles(taken, n=20, method="inclusive")[18] if len(taken) > 1 else taken[0]
    return {"what": name, "median_ms": median(taken), "p95_ms": p95, "most_ms": max(taken), "limit_ms": limit, "count": len(taken)}
