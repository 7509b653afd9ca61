"""The Train tab in a browser: a true run over a tiny target from start to use, and the rest with a command that trains nothing."""

import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.models import load as loading
from specviz.models import own
from specviz.models.checkpoints import load_medusa
from specviz.models.embedded import sha256
from specviz.models.output import lm_head
from specviz.ui import jobs
from tests.e2e.conftest import PATIENCE, Site, Visit, Visitor

pytestmark = pytest.mark.browser


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for runs, and a command that trains nothing; what was started does not survive the test."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path)
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-m", "tests.ui.fake_training"])
    monkeypatch.setattr(jobs, "_children", {})
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.setenv("FAKE_TRAINING", "learn")
    yield tmp_path
    for child in jobs._children.values():
        child.kill()
        child.wait()


@pytest.fixture
def true_command(shelf: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The true command, over the target behind the page; heads that it trained are used with that target."""
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-m", "tests.e2e.train_tiny", "train", "heads"])
    monkeypatch.setenv("SPECVIZ_TINY", site.pair.target.info.source)
    monkeypatch.setenv("TINY_MINUTE", "40")
    load = loading.load

    def with_heads(name: str = "embedded", *given: object, **named: object) -> object:
        trained = own.find(name)
        if trained is None:
            return load(name, *given, **named)
        return replace(site.pair, name=name, medusa=load_medusa(trained.folder, lm_head(site.pair.target._model)))

    monkeypatch.setattr(loading, "load", with_heads)


def opened(visit: Visit, **window: object) -> Visitor:
    """A visitor on the tab."""
    visitor = visit(**window)
    visitor.page.click("#show-train")
    until(visitor, "t?.state")
    return visitor


def begin(visitor: Visitor, minutes: str = "1") -> str:
    """Start a run; returns its name."""
    visitor.page.fill("#train-minutes", minutes)
    visitor.page.click("#train-begin")
    until(visitor, "t.run?.going && t.run.phase !== 'loading'")
    return visitor.page.evaluate("window.specvizTrain.run.name")


def until(visitor: Visitor, condition: str, seconds: float = PATIENCE) -> None:
    """Wait until a condition on the tab `t` holds, and is drawn."""
    visitor.page.wait_for_function(f"(() => {{ const t = window.specvizTrain; return {condition}; }})()", timeout=1000 * seconds)
    visitor.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def curves(visitor: Visitor, name: str) -> int:
    """How many curves a chart shows."""
    return visitor.page.locator(f"#train-{name} .scatterlayer .trace").count()


def test_heads_are_trained_watched_across_a_reload_and_used_at_once(visit: Visit, shelf: Path, true_command: None) -> None:
    visitor = opened(visit)
    assert visitor.page.locator("#train-run .sv-wait").is_visible(), "nothing says that there is no run yet"
    name = begin(visitor)
    until(visitor, "t.run.phase === 'corpus' && t.run.corpus.tokens > 0")
    assert "tokens" in visitor.page.locator("#train-run dd").nth(2).inner_text()
    assert visitor.page.locator("#train-begin").is_disabled()
    visitor.page.reload()
    visitor.page.wait_for_function("window.specvizTrain?.run")
    assert visitor.page.evaluate("window.specvizTrain.run.name") == name, "a reload has lost the run"
    until(visitor, "t.run.phase !== 'corpus' && t.shown?.tables.losses.rows.length > 0", 150)  # a busy machine takes few steps
    visitor.page.wait_for_function("document.querySelectorAll('#train-losses .scatterlayer .trace').length === 4")
    until(visitor, "t.run.phase === 'done'", 150)
    visitor.page.wait_for_function("document.querySelectorAll('#train-accuracies .scatterlayer .trace').length === 8")
    facts = json.loads((shelf / name / "medusa.json").read_text())
    shown = visitor.page.locator(f'tr[data-run="{name}"] .sv-t-top1').inner_text().removesuffix(" %").split(" · ")
    assert [float(share) for share in shown] == pytest.approx([100 * row[0] for row in facts["held_out"]["text_accuracies"]], abs=0.051)
    visitor.page.click("#train-use")
    visitor.page.wait_for_function("document.querySelector('#pair input').value.startsWith('Heads of')")
    assert visitor.page.locator("#tab-player").is_visible() and visitor.page.is_checked("#method input[value=medusa]")
    visitor.run("abc", length=24)
    visitor.finished()
    header = visitor.page.evaluate("window.specviz.player.store.run.header")
    assert header["config"]["method"] == "medusa"
    assert header["proposer"]["sha256"] == sha256(shelf / name / own.HEADS)
    visitor.page.reload()
    visitor.page.wait_for_function("window.specviz && document.querySelector('#pair input')")
    visitor.page.click("#pair input")
    assert visitor.page.get_by_role("option", name="Heads of").is_visible(), "a new visit does not know the heads"


def test_another_visitor_watches_the_run_is_told_why_start_is_off_and_may_stop_it(visit: Visit, shelf: Path) -> None:
    first, second = opened(visit), opened(visit)
    name = begin(first)
    until(second, f"t.run?.name === '{name}' && t.run.going")
    assert second.page.locator("#train-begin").is_disabled()
    assert "One run at a time" in second.page.locator("#train-start [role=alert]").inner_text()
    second.page.click("#train-stop")
    for visitor in (first, second):
        until(visitor, "t.run.phase === 'stopped'")
        assert visitor.page.locator("#train-begin").is_enabled()
        assert "Stopped" in visitor.page.locator(".sv-train-said").inner_text()
        assert visitor.page.locator("#train-resume").is_visible() and visitor.page.locator("#train-use").is_hidden()
    first.page.click("#train-resume")
    until(second, "t.run.going && t.run.phase === 'training'")
    second.page.click("#train-stop")
    until(first, "!t.run.going")


def test_the_page_decodes_while_a_run_goes_on(visit: Visit, shelf: Path) -> None:
    visitor = opened(visit)
    begin(visitor)
    visitor.page.click("#show-player")
    visitor.run("abc", length=16)
    visitor.finished()
    asked = len([url for url in visitor.requests if "component_server" in url])
    visitor.page.wait_for_timeout(2500)
    assert len([url for url in visitor.requests if "component_server" in url]) == asked, "nobody looks, and the page goes on asking"
    visitor.page.click("#show-train")
    until(visitor, "t.run.going")


def test_the_picture_grows_without_being_made_anew(visit: Visit, shelf: Path) -> None:
    visitor = opened(visit)
    begin(visitor)
    visitor.page.wait_for_function("document.querySelectorAll('#train-losses .scatterlayer .trace').length === 2")
    visitor.page.evaluate("document.querySelector('#train-losses .main-svg').kept = true")
    rows = visitor.page.evaluate("window.specvizTrain.shown.tables.losses.rows.length")
    until(visitor, f"t.shown.tables.losses.rows.length > {rows + 20}")
    assert visitor.page.evaluate("document.querySelector('#train-losses .main-svg').kept") is True
    assert visitor.page.evaluate("document.querySelectorAll('#train-losses .js-plotly-plot').length") == 1
    visitor.page.click("#train-losses .sv-ibtn")
    visitor.page.wait_for_function("document.querySelectorAll('#train-losses tbody tr').length > 20")
    assert visitor.page.locator("#train-losses th").all_inner_texts() == ["time", "tokens", "head 1", "head 2"]


def test_a_process_that_dies_is_one_sentence_and_can_be_taken_up(visit: Visit, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRAINING", "die")
    visitor = opened(visit)
    visitor.page.click("#train-begin")
    until(visitor, "t.run?.phase === 'interrupted'")
    assert "process is gone" in visitor.page.locator(".sv-train-said").inner_text()
    assert not visitor.page.locator(".toast-body").count()
    monkeypatch.setenv("FAKE_TRAINING", "learn")
    visitor.page.click("#train-resume")
    until(visitor, "t.run.going && t.run.phase === 'training'")


def test_a_run_that_failed_says_why(visit: Visit, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRAINING", "fail")
    visitor = opened(visit)
    visitor.page.click("#train-begin")
    until(visitor, "t.run?.phase === 'failed'")
    assert "is too small" in visitor.page.locator(".sv-train-said").inner_text()
    assert visitor.page.locator("#train-resume").is_hidden(), "it would fail again"


@pytest.mark.parametrize("minutes", ["", "0.5", "1441", "-3"])
def test_a_budget_that_is_none_is_one_sentence(visit: Visit, shelf: Path, minutes: str) -> None:
    visitor = opened(visit)
    visitor.page.fill("#train-minutes", minutes)
    visitor.page.press("#train-minutes", "Enter")
    visitor.page.get_by_text("from 1 to 1440").wait_for()
    assert not list(shelf.iterdir())
    visitor.page.click("#language label:has(input[value=zh])")
    visitor.page.get_by_text("1 到 1440").wait_for()


def test_a_run_is_deleted_only_after_it_was_asked(visit: Visit, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRAINING", "finish")
    visitor = opened(visit)
    visitor.page.click("#train-begin")
    until(visitor, "t.run?.phase === 'done'")
    name = visitor.page.evaluate("window.specvizTrain.run.name")
    visitor.page.click("#train-runs [data-act^=ask]")
    assert visitor.page.evaluate("document.activeElement.dataset.act") == f"keep {name}", "the safe answer has not the focus"
    visitor.page.keyboard.press("Enter")
    assert (shelf / name).is_dir()
    visitor.page.click("#train-runs [data-act^=ask]")
    visitor.page.click("#train-runs [data-act^=delete]")
    until(visitor, "!t.state.runs.length")
    assert not list(shelf.iterdir())
    assert visitor.page.locator("#train-run .sv-wait").is_visible()


def test_heads_are_exported_as_a_file(
    visit: Visit, shelf: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.ui.test_train_tab import NAME, finished

    finished(shelf)
    visitor = opened(visit)
    with visitor.page.expect_download() as download:
        visitor.page.select_option("#train-runs .sv-train-export", "here")
    assert download.value.suggested_filename == f"{NAME}-here.zip"
    saved = tmp_path_factory.mktemp("download") / "heads.zip"
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as archive:
        assert "medusa.safetensors" in archive.namelist()


def test_on_a_shared_space_one_sentence_says_that_it_is_off(visit: Visit, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/specviz")
    visitor = opened(visit)
    assert "Training is off on this shared Space" in visitor.page.locator("#train-start [role=alert]").inner_text()
    assert visitor.page.locator("#train-begin").is_disabled()


def test_a_server_that_is_silent_is_said_and_comes_back(visit: Visit, shelf: Path) -> None:
    visitor = opened(visit)
    visitor.page.evaluate(
        "() => { const t = window.specvizTrain; t.kept = t.server; t.server = { state: () => Promise.reject(new Error()) }; t.look(); }"
    )
    visitor.page.get_by_text("The server does not answer").wait_for()
    visitor.page.evaluate("() => { const t = window.specvizTrain; t.server = t.kept; }")
    visitor.page.get_by_text("The server does not answer").wait_for(state="hidden")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_overflows_and_everything_is_in_the_language(visit: Visit, shelf: Path, width: int, height: int, language: str) -> None:
    from tests.ui.test_train_tab import finished

    finished(shelf)
    visitor = opened(visit, query=f"language={language}", width=width, height=height)
    visitor.page.wait_for_function("document.querySelectorAll('#train-accuracies .scatterlayer .trace').length === 4")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visitor.page.evaluate("(() => { const r = document.querySelector('.sv-train'); return r.scrollWidth <= r.clientWidth; })()")
    wide = (
        "[...document.querySelectorAll('#train .sv-card')].filter((card) => card.scrollWidth > card.clientWidth + 1).map((card) => card.id)"
    )
    assert visitor.page.evaluate(wide) == []
    text = visitor.page.locator("#train").inner_text()
    assert "train." not in text and "{" not in text
    assert ("Start training" in text) == (language == "en") and ("开始训练" in text) == (language == "zh")


def test_the_keyboard_reaches_everything(visit: Visit, shelf: Path) -> None:
    from tests.ui.test_train_tab import finished

    finished(shelf)
    visitor = opened(visit)
    visitor.page.focus("#train-pair")
    reached = set()
    for _ in range(24):
        reached.add(
            visitor.page.evaluate(
                "(() => { const a = document.activeElement; return a.id || (a.dataset.act || '').split(' ')[0] || a.className; })()"
            )
        )
        visible = visitor.page.evaluate("document.activeElement.matches(':focus-visible')")
        visitor.page.keyboard.press("Tab")
        assert visible
        if "ask" in reached:
            break
    assert reached >= {"train-pair", "train-minutes", "train-begin", "train-use", "show", "use", "export", "ask", "sv-tag", "sv-ibtn"}
