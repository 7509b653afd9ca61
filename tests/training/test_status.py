"""The status of a run of quick training: how it ends, who works on it, and what is refused."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from specviz.i18n import Fault
from specviz.training import status
from specviz.training.status import Pulse, alive, minutes, read, sitting

HOLD = """
import sys, time
from pathlib import Path
from specviz.training.status import sitting
with sitting(Path(sys.argv[1]), "tiny", 5.0) as run:
    print(run.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(("typed", "number"), [("5", 5.0), (" 2.5 ", 2.5), (1, 1.0), (1440, 1440.0)])
def test_a_budget_is_a_number_of_minutes(typed, number):
    assert minutes(typed) == number


@pytest.mark.parametrize("typed", ["", "five", None, "0", 0.99, -3, 1441, "nan", "inf", math.nan, True, [5], "5;rm"])
def test_anything_else_is_one_sentence(typed):
    with pytest.raises(Fault, match="from 1 to 1440"):
        minutes(typed)


def test_a_sitting_is_alive_while_it_lasts_and_tells_how_it_ended(tmp_path):
    folder = tmp_path / "run"
    assert read(folder) is None and not alive(folder)
    with sitting(folder, "tiny", 5.0) as run:
        assert alive(folder)
        assert read(folder).phase == "loading" and read(folder).pid == run.pid
        run.phase = "done"
    assert not alive(folder)
    assert read(folder).phase == "done"


@pytest.mark.parametrize(
    ("error", "phase", "key"),
    [
        (KeyboardInterrupt(), "stopped", None),
        (Fault("training.no_template"), "failed", "training.no_template"),
        (RuntimeError("boom"), "failed", "training.unexpected"),
    ],
)
def test_what_ends_it_otherwise_is_told_and_can_be_taken_up(tmp_path, error, phase, key):
    def work() -> None:
        with sitting(tmp_path, "tiny", 5.0) as run:
            run.at, run.seconds = "training", 12.0
            raise error

    with pytest.raises(type(error)):
        work()
    told = read(tmp_path)
    assert (told.phase, told.at, told.seconds) == (phase, "training", 12.0)
    assert (told.fault or {}).get("key") == key
    assert not alive(tmp_path)
    with sitting(tmp_path, "tiny", 5.0) as run:
        assert (run.at, run.seconds, run.fault) == ("training", 12.0, None)


def test_a_request_to_stop_from_before_does_not_count_again(tmp_path):
    (tmp_path / status.STOP).touch()
    with sitting(tmp_path, "tiny", 5.0):
        assert not (tmp_path / status.STOP).exists()


def test_runs_that_are_over_or_of_something_else_are_refused(tmp_path):
    with sitting(tmp_path, "tiny", 5.0):
        pass
    for other in (("tiny", 6.0), ("large", 5.0)):
        with pytest.raises(Fault) as refused, sitting(tmp_path, *other):
            pass
        assert refused.value.key == "training.other_run"
    with sitting(tmp_path, "tiny", 5.0) as run:
        run.phase = "done"
    with pytest.raises(Fault) as refused, sitting(tmp_path, "tiny", 5.0):
        pass
    assert refused.value.key == "training.over"
    assert read(tmp_path).phase == "done", "a refusal has written into the run"


def test_two_at_once_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "PATIENCE", 0.05)
    with sitting(tmp_path, "tiny", 5.0), pytest.raises(Fault) as refused, sitting(tmp_path, "tiny", 5.0):
        pass
    assert refused.value.key == "training.busy"
    with FileLock(tmp_path / status.LOCK, timeout=0):
        pass  # it was let go of


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Fault) as refused, sitting(tmp_path / "file" / "run", "tiny", 5.0):
        pass
    assert refused.value.key == "training.unwritable"


def test_a_damaged_status_is_none(tmp_path):
    for text in ("", "{", "[]", '{"pair": "tiny"}', '{"other": 1}'):
        (tmp_path / status.FILE).write_text(text)
        assert read(tmp_path) is None


def test_a_run_whose_process_was_killed_is_not_alive(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path(status.__file__).parents[2]
    ) as holder:
        assert int(holder.stdout.readline()) == holder.pid
        assert alive(tmp_path)
        holder.send_signal(signal.SIGKILL)
    assert not alive(tmp_path)
    assert read(tmp_path).phase == "loading", "it could not say anything any more"


def test_a_pulse_is_due_at_once_and_then_seldom():
    pulse = Pulse(30.0)
    assert pulse.due()
    assert not pulse.due()
    pulse.last -= 31
    assert pulse.due()
