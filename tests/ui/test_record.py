"""The recorded runs: real, made with the parts that are shipped, and what the page opens with."""

from pathlib import Path

import pytest

from specviz.analysis import hardware
from specviz.config import DecodeConfig
from specviz.engine.timings import sized
from specviz.i18n import ASSETS
from specviz.models.embedded import sha256
from specviz.trace import Trace
from specviz.ui import record
from specviz.ui.controls import DEFAULT
from specviz.ui.text import PRESETS
from tests.builders import PEAKS

SHIPPED = ASSETS / "models" / "smollm2-135m"
PARTS = {"draft": SHIPPED / "draft.safetensors", "medusa": SHIPPED / "medusa.safetensors"}


@pytest.fixture(scope="module", params=sorted(record.RUNS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def recorded(name: str) -> Trace:
    return Trace.load(record.FOLDER / f"{name}.json.gz")


def test_there_is_a_file_for_each_run_and_no_other() -> None:
    assert {path.name for path in record.FOLDER.iterdir()} == {f"{name}.json.gz" for name in record.RUNS}


def test_a_recorded_run_is_whole(name: str, recorded: Trace) -> None:
    preset, config = record.RUNS[name]
    assert recorded.header.timings
    assert (recorded.header.prompt, recorded.header.config) == (PRESETS[preset], sized(config, recorded.header.timings))
    assert recorded.ended in ("eos", "length")
    assert recorded.header.baseline
    assert recorded.header.peaks
    assert (record.FOLDER / f"{name}.json.gz").stat().st_size < 500_000


def test_a_recorded_run_was_made_with_the_parts_that_are_shipped(recorded: Trace) -> None:
    """Fails after a training: run `make traces` then."""
    assert recorded.header.proposer
    assert recorded.header.proposer.sha256 == sha256(PARTS[recorded.header.config.method])


def test_the_page_opens_with_the_settings_of_the_run_on_show() -> None:
    preset, config = record.RUNS[record.FIRST]
    assert preset == DEFAULT.preset
    assert (config.method, config.rule, config.tree or "", config.temperature) == (
        DEFAULT.method, DEFAULT.rule, DEFAULT.tree, DEFAULT.temperature,
    )  # fmt: skip
    assert (config.k, config.max_new_tokens, config.seed, config.top_p) == (5, 64, 0, 1)
    assert record.first_visit()["recorded"] is True


def test_record_writes_what_it_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specviz.models import load as loading
    from tests.models.tiny import write_pair

    pair = loading.load_local(*write_pair(tmp_path / "models"), device="cpu", dtype="float32")
    monkeypatch.setattr(loading, "load", lambda name: pair)
    monkeypatch.setattr(hardware, "peaks", lambda device, dtype, refresh: PEAKS)
    monkeypatch.setattr(record, "RUNS", {"one": ("fact", DecodeConfig(max_new_tokens=6, temperature=1.0))})
    [path] = record.record(tmp_path / "traces")
    assert Trace.load(path).header.prompt == PRESETS["fact"]
    assert len(Trace.load(path).token_ids) == 6
