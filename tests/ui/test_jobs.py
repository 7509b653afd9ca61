"""Training behind the page, with a command that trains nothing: one at a time, stopped, resumed, dead, found again by a new server."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from specviz.i18n import Fault
from specviz.models import own
from specviz.training import status
from specviz.ui import jobs

FAKE = [sys.executable, "-m", "tests.ui.fake_training"]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs; nothing that was started in it survives the test."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path)
    monkeypatch.setattr(jobs, "COMMAND", FAKE)
    monkeypatch.setattr(jobs, "_children", {})
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.setenv("FAKE_TRAINING", "learn")
    yield tmp_path
    for child in jobs._children.values():
        child.kill()
        child.wait()


def until(holds: Callable[[dict], object], name: str, seconds: float = 60.0) -> dict:
    """Wait until something holds of a run; returns it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = next((one for one in jobs.runs() if one["name"] == name), None)
        if found and holds(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {jobs.runs()}")


def test_a_run_goes_on_by_itself_and_stops_when_it_is_told(shelf: Path) -> None:
    name = jobs.start("embedded", "5")
    first = jobs.runs()[0]
    assert (first["name"], first["phase"], first["going"]) == (name, "loading", True), "it is shown before its process has said a word"
    assert until(lambda one: one["phase"] == "training" and one["seconds"], name)["going"]
    assert jobs.current() == name
    assert len(jobs.log(name)) > 0
    jobs.stop(name)
    stopped = until(lambda one: not one["going"], name)
    assert (stopped["phase"], stopped["resumable"], stopped["usable"], stopped["fault"]) == ("stopped", True, False, None)
    assert jobs.current() is None
    assert "the fake command speaks" in (shelf / name / jobs.OUTPUT).read_text()


def test_there_is_one_at_a_time_for_all(shelf: Path) -> None:
    name = jobs.start("embedded", 5)
    for another in (lambda: jobs.start("embedded", 5), lambda: jobs.resume(name)):
        with pytest.raises(Fault) as refused:
            another()
        assert refused.value.key == "train.one_at_a_time"
    assert len(jobs.runs()) == 1
    jobs.stop(name)
    until(lambda one: not one["going"], name)


def test_of_two_that_press_at_once_one_is_refused(shelf: Path) -> None:
    told: list[object] = []

    def press() -> None:
        try:
            told.append(jobs.start("embedded", 5))
        except Fault as fault:
            told.append(fault)

    threads = [Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, str) for one in told) == 1


def test_a_stopped_run_is_taken_up_with_its_budget(shelf: Path) -> None:
    name = jobs.start("embedded", 2.5)
    jobs.stop(until(lambda one: one["seconds"] > 0.2, name)["name"])
    before = until(lambda one: not one["going"], name)
    jobs.resume(name)
    assert not jobs.runs()[0]["stopping"], "the request from before still stands"
    assert until(lambda one: one["phase"] == "training", name)["seconds"] >= before["seconds"]
    assert jobs.runs()[0]["minutes"] == 2.5
    jobs.stop(name)
    until(lambda one: not one["going"], name)


def test_stopped_while_it_loads_it_is_stopped_and_not_broken(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jobs, "COMMAND", [sys.executable, "-c", "import time; time.sleep(60)"])
    name = jobs.start("embedded", 5)
    jobs.stop(name)
    assert until(lambda one: not one["going"], name, 5)["phase"] == "stopped"
    assert not caplog.records


def test_a_process_that_dies_is_said_logged_and_can_be_resumed(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_TRAINING", "die")
    with caplog.at_level(logging.ERROR):
        name = jobs.start("embedded", 5)
        dead = until(lambda one: not one["going"], name)
    assert (dead["phase"], dead["resumable"]) == ("interrupted", True)
    assert "status 9" in caplog.text and "its last words" in caplog.text
    monkeypatch.setenv("FAKE_TRAINING", "finish")
    jobs.resume(name)
    assert until(lambda one: not one["going"], name)["phase"] == "done"


def test_a_run_that_fails_says_why_and_hopeless_ones_are_not_offered_again(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TRAINING", "fail")
    name = jobs.start("embedded", 1)
    failed = until(lambda one: not one["going"], name)
    assert (failed["phase"], failed["fault"]["key"], failed["resumable"]) == ("failed", "training.budget_small", False)


def test_a_new_server_finds_a_run_that_goes_on_and_can_stop_it(shelf: Path) -> None:
    name = jobs.start("embedded", 5)
    until(lambda one: one["phase"] == "training", name)
    child = jobs._children.pop(name)  # as if this were another server
    assert jobs.current() == name
    with pytest.raises(Fault) as refused:
        jobs.start("embedded", 5)
    assert refused.value.key == "train.one_at_a_time"
    jobs.stop(name)
    assert until(lambda one: not one["going"], name)["phase"] == "stopped"
    child.wait()


def test_a_new_server_finds_a_run_whose_process_is_gone(shelf: Path) -> None:
    name = jobs.start("embedded", 5)
    until(lambda one: one["phase"] == "training", name)
    child = jobs._children.pop(name)
    child.kill()
    child.wait()
    gone = jobs.runs()[0]
    assert (gone["phase"], gone["at"], gone["going"], gone["resumable"]) == ("interrupted", "training", False, True)


def test_runs_are_deleted_but_not_while_they_go_on(shelf: Path) -> None:
    name = jobs.start("embedded", 5)
    until(lambda one: one["phase"] == "training", name)
    with pytest.raises(Fault) as refused:
        jobs.delete(name)
    assert refused.value.key == "train.delete_going"
    jobs.stop(name)
    until(lambda one: not one["going"], name)
    jobs.delete(name)
    assert jobs.runs() == [] and not list(shelf.iterdir())
    with pytest.raises(Fault) as refused:
        jobs.delete(name)
    assert refused.value.key == "train.unknown_run"


@pytest.mark.parametrize("name", ["../x", "", None, "embedded+20261130-000000", 3])
def test_a_run_that_is_none_is_one_sentence(shelf: Path, name: object) -> None:
    for deed in (jobs.stop, jobs.resume, jobs.delete):
        with pytest.raises(Fault, match="no run called"):
            deed(name)


@pytest.mark.parametrize(
    ("pair", "minutes", "key"),
    [("embedded", "many", "training.minutes"), ("embedded", 0.5, "training.minutes"), ("embedded", 2000, "training.minutes"),
     ("no such", 5, "models.unknown"), (None, 5, "models.unknown"), ({"a": 1}, 5, "models.unknown")],
)  # fmt: skip
def test_bad_input_starts_nothing(shelf: Path, pair: object, minutes: object, key: str) -> None:
    with pytest.raises(Fault) as refused:
        jobs.start(pair, minutes)
    assert refused.value.key == key
    assert not list(shelf.iterdir())


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(own, "folder", lambda: tmp_path / "file")
    monkeypatch.delenv("SPACE_ID", raising=False)
    with pytest.raises(Fault) as refused:
        jobs.start("embedded", 5)
    assert refused.value.key == "training.unwritable"


def test_on_a_shared_space_it_is_off_unless_its_owner_says_otherwise(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.refusal() is None
    monkeypatch.setenv("SPACE_ID", "someone/specviz")
    with pytest.raises(Fault) as refused:
        jobs.start("embedded", 5)
    assert refused.value.key == "train.off_on_space" and not list(shelf.iterdir())
    monkeypatch.setenv("SPECVIZ_TRAIN", "1")
    assert jobs.refusal() is None


def test_what_was_measured_is_read_from_the_file_beside_the_heads(tmp_path: Path) -> None:
    weights = tmp_path / own.HEADS
    assert jobs.measured(weights) is None
    rows = [[0.4, 0.1, 0.1, 0.05, 0.05, 0.2], [0.2, 0.1, 0.0, 0.0, 0.0, 0.3]]
    weights.write_bytes(b"")
    weights.with_suffix(".json").write_text(
        json.dumps({"held_out": {"text_accuracies": rows}, "accuracies": [[0.5], [0.3]], "corpus": {"tokens": 9}})
    )
    found = jobs.measured(weights)
    assert found == {"top1": [0.4, 0.2], "top5": [0.7, 0.3], "calibrated": [0.5, 0.3], "calibration": {}, "tokens": 9}
    weights.with_suffix(".json").write_text("{")
    assert jobs.measured(weights) is None


def test_a_line_that_is_still_being_written_is_left_out(shelf: Path) -> None:
    folder = shelf / "embedded+20261130-000000"
    folder.mkdir()
    (folder / jobs.TOLD).write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert jobs.log(folder.name) == [{"step": 1}, {"step": 2}]
    assert jobs.log_size(folder.name) == (folder / jobs.TOLD).stat().st_size
    assert jobs.log("embedded+20261130-000001") == [] and jobs.log_size("embedded+20261130-000001") == 0
    assert status.read(folder) is None and jobs.runs() == [], "a folder without a status is no run"
