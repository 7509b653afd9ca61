"""Calibration: plausible, cached under the right key, and never a crash because of a bad file."""

import json
from pathlib import Path

import pytest
import torch

from specviz.analysis import hardware
from specviz.analysis.hardware import peaks
from specviz.trace import Peaks

FOUND = Peaks(device="x", dtype="float32", flops=2e11, bandwidth=2e10, measured_on="2026-01-31")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Peaks]:
    """Replaces the measuring: each call takes the next of the list, and the last one again and again."""
    results = [FOUND.model_copy(update={"device": hardware.processor("cpu")})]
    calls: list[tuple[str, str]] = []

    def fake(device: str, dtype: str) -> Peaks:
        calls.append((device, dtype))
        found = results[min(len(calls), len(results)) - 1]
        return found.model_copy(update={"dtype": dtype})

    monkeypatch.setattr(hardware, "measure_peaks", fake)
    monkeypatch.setattr(hardware, "calls", calls, raising=False)
    return results


def test_measured_roofs_are_plausible(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hardware, "SECONDS", 0.05)
    monkeypatch.setattr(hardware, "PATIENCE", 1)
    threads = torch.get_num_threads()
    found = hardware.measure_peaks("cpu", "float32")
    assert 1e9 < found.flops < 1e14
    assert 1e9 < found.bandwidth < 2e12
    assert found.device
    assert torch.get_num_threads() == threads


def test_the_second_call_reads_the_file(cache: Path, measured: list[Peaks]):
    first = peaks("cpu", "float32")
    assert peaks("cpu", "float32") == first
    assert hardware.calls == [("cpu", "float32")]
    assert len(list(cache.iterdir())) == 1


def test_each_dtype_and_thread_count_has_its_own_file(cache: Path, measured: list[Peaks], monkeypatch: pytest.MonkeyPatch):
    peaks("cpu", "float32")
    peaks("cpu", "bfloat16")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    peaks("cpu", "float32")
    assert len(hardware.calls) == len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"device": "x"}', json.dumps(FOUND.model_dump()).encode()])
def test_a_damaged_or_foreign_file_is_measured_anew(cache: Path, measured: list[Peaks], damage: bytes):
    first = peaks("cpu", "float32")
    next(cache.iterdir()).write_bytes(damage)
    assert peaks("cpu", "float32") == first
    assert len(hardware.calls) == 2


def test_refresh_keeps_the_higher_of_each(cache: Path, measured: list[Peaks]):
    measured.append(measured[0].model_copy(update={"flops": 3e11, "bandwidth": 1e10, "measured_on": "2026-02-01"}))
    peaks("cpu", "float32")
    again = peaks("cpu", "float32", refresh=True)
    assert (again.flops, again.bandwidth, again.measured_on) == (3e11, 2e10, "2026-02-01")
    assert peaks("cpu", "float32") == again


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[Peaks]):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "file" / "below"))
    assert peaks("cpu", "float32").flops == 2e11


def test_a_hiccup_of_the_clock_makes_no_roof():
    readings = iter([5.0, 0.001, 4.0, 3.0, 3.5])
    assert hardware._fastest(lambda: None, lambda run: next(readings), 0) == 5.0  # three readings at the least: the third best of them


def test_little_free_memory_means_smaller_measurements(monkeypatch: pytest.MonkeyPatch):
    cpu = torch.device("cpu")
    assert len(list(hardware._products(cpu, torch.float32))) == len(hardware.CPU_SIZES)
    assert max(read.amount for read in hardware._reads(cpu)) == hardware.SLICES[-1]
    monkeypatch.setattr(hardware, "_free_memory", lambda device: 2**22)
    assert len(list(hardware._products(cpu, torch.float32))) == 1
    first = next(hardware._reads(cpu))
    assert sum(part.numel() for part in first.run.__self__.slices) * 4 == hardware.SLICES[-1]


def test_slices_take_turns_through_the_whole_buffer():
    turn = hardware._Turn(torch.arange(8.0), 2)
    assert [float(turn.read()) for _ in range(5)] == [5, 9, 13, 1, 5]
