"""Trace files: round trip, and one clear sentence for everything that is not one."""

import gzip
import json
import tracemalloc
from pathlib import Path

import jsonschema
import pytest

import specviz
from specviz.i18n import ASSETS
from specviz.trace import FORMAT, LARGEST_FILE, Trace, TraceError, json_schema
from tests.fakes import table_pair


@pytest.fixture(scope="module")
def trace() -> Trace:
    return specviz.run(table_pair(), "abc", k=3, temperature=1.0, max_new_tokens=24, chat=False)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_round_trip(trace: Trace, tmp_path: Path, name: str) -> None:
    trace.save(tmp_path / name)
    assert Trace.load(tmp_path / name) == trace
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_baseline_was_measured_on_at_least_sixteen_tokens(trace: Trace) -> None:
    baseline = trace.header.baseline
    assert len(baseline.seconds) == len(baseline.token_ids) == len(baseline.passes) >= 16
    assert baseline.seconds_per_token > 0


def test_the_published_schema_is_the_code_s(trace: Trace) -> None:
    published = json.loads((ASSETS / "trace.schema.json").read_text())
    assert published == json_schema(), "run: python -m specviz.trace"
    jsonschema.validate(json.loads(trace.to_json()), published)


def _raw(trace: Trace) -> dict:
    return json.loads(trace.to_json())


def _without(raw: dict, *keys: str) -> dict:
    return {key: value for key, value in raw.items() if key not in keys}


HOSTILE = {
    "empty": lambda raw: b"",
    "cut short": lambda raw: json.dumps(raw).encode()[:-100],
    "not json": lambda raw: b"\x89PNG\r\n\x1a\n" + bytes(100),
    "foreign": lambda raw: b'{"cells": [], "nbformat": 4}',
    "a list": lambda raw: b"[1, 2, 3]",
    "newer": lambda raw: json.dumps(raw | {"format": FORMAT + 1}).encode(),
    "a format that is a text": lambda raw: json.dumps(raw | {"format": "x" * 10_000}).encode(),
    "deep list": lambda raw: b"[" * 200_000,
    "deep object": lambda raw: b'{"format": 1, "steps": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "NaN": lambda raw: json.dumps(raw).replace('"entropy": ', '"entropy": NaN, "was": ', 1).encode(),
    "infinite": lambda raw: json.dumps(raw).replace('"entropy": ', '"entropy": 1e999, "was": ', 1).encode(),
    "unknown field": lambda raw: json.dumps(raw | {"evil": 1}).encode(),
    "no header": lambda raw: json.dumps(_without(raw, "header")).encode(),
    "steps that are no list": lambda raw: json.dumps(raw | {"steps": 7}).encode(),
    "a huge number": lambda raw: json.dumps(raw).replace('"token_id": ', '"token_id": 1' + "0" * 400 + ', "x": ', 1).encode(),
    "a parent that comes later": lambda raw: json.dumps(_set(raw, ("steps", 0, "tree", 1, "parent"), 9)).encode(),
    "a missing row": lambda raw: json.dumps(_set(raw, ("steps", 0, "rows"), [])).encode(),
    "a method that does not exist": lambda raw: json.dumps(_set(raw, ("header", "config", "method"), "magic")).encode(),
    "not text": lambda raw: b'{"format": 1, "steps": "\xff\xfe"}',
}


def _set(raw: dict, where: tuple, value: object) -> dict:
    raw = json.loads(json.dumps(raw))
    place = raw
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    return raw


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("zipped", [False, True])
def test_anything_else_is_refused_in_one_sentence(trace: Trace, tmp_path: Path, case: str, zipped: bool) -> None:
    data = HOSTILE[case](_raw(trace))
    path = tmp_path / "bad.json"
    path.write_bytes(gzip.compress(data) if zipped else data)
    with pytest.raises(TraceError) as fault:
        Trace.load(path)
    sentence = str(fault.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 400


def test_a_small_file_that_unpacks_into_gigabytes_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(256):
            file.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(TraceError):
        Trace.load(path)
    assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_FILE
    tracemalloc.stop()


@pytest.mark.parametrize("data", [b"\x1f\x8b", b"\x1f\x8b\x08\x00" + bytes(50), gzip.compress(b"{}" * 1000)[:-9]])
def test_a_damaged_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data)
    with pytest.raises(TraceError):
        Trace.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.json"):
        Trace.load(tmp_path / "nowhere.json")
    with pytest.raises(TraceError):
        Trace.load(tmp_path)
