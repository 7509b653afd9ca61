"""Heads that were trained here: their names, where they lie, and the pairs that they make."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from specviz.i18n import Fault
from specviz.models import load as loading
from specviz.models import own
from specviz.models.load import load, load_local
from specviz.models.output import lm_head
from specviz.training import medusa
from tests.models.tiny import write_pair


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Where runs are kept, for this test."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path / "training")
    return tmp_path / "training"


def trained(folder: Path, width: int = 32, seed: int = 0) -> None:
    """Heads as training leaves them."""
    blocks = medusa.Blocks(2, width)
    blocks.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    medusa.save(blocks, torch.arange(50, dtype=torch.int32), folder, {"accuracies": [[0.5, 0.1], [0.2, 0.1]]})


STRANGE = (
    "embedded", "embedded+", "embedded+20261130", "embedded+20261130-1234567", "+20261130-123456", "../x+20261130-123456",
    "a/b+20261130-123456", "embedded+20261130-123456/..", "embedded+20269930-123456", "", None, 5, ["embedded+20261130-123456"],
    "embedded+20261130-123456\n",
)  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_name_of_a_run_is_none(name):
    assert own.named(name) is None and own.find(name) is None


def test_a_name_says_what_it_is_for_and_when_it_began():
    one = own.named("smollm2-1.7b+20261130-123456")
    assert (one.pair, one.started) == ("smollm2-1.7b", datetime(2026, 11, 30, 12, 34, 56, tzinfo=UTC))
    now = own.new("embedded")
    assert own.named(now.name) == now


def test_runs_are_found_the_newest_first_and_heads_only_where_there_are_some(shelf):
    assert own.every() == []
    for name in ("embedded+20261130-000001", "qwen2.5-7b+20261201-000000", "rubbish"):
        (shelf / name).mkdir(parents=True)
    assert [one.name for one in own.every()] == ["qwen2.5-7b+20261201-000000", "embedded+20261130-000001"]
    assert own.find("embedded+20261130-000001") is None
    trained(shelf / "embedded+20261130-000001")
    assert own.find("embedded+20261130-000001").usable


def test_its_pair_is_the_pair_with_these_heads(shelf, tmp_path, monkeypatch):
    base = load_local(*write_pair(tmp_path / "models"), device="cpu", dtype="float32", name="embedded")
    monkeypatch.setattr(loading, "_loaded", {("embedded", "cpu", "torch.float32", None): base})
    name = "embedded+20261130-000001"
    with pytest.raises(Fault, match="no pair called"):
        load(name, "cpu", "float32")
    trained(shelf / name)
    pair = load(name, "cpu", "float32")
    assert pair.name == name and pair.target is base.target and pair.draft is base.draft
    assert pair.medusa.count == 2 and pair.medusa.accuracies == ((0.5, 0.1), (0.2, 0.1))
    assert load(name, "cpu", "float32") is pair, "it is made anew at every run, and measured anew"
    before = (shelf / name / own.HEADS).stat().st_mtime_ns
    trained(shelf / name, seed=1)
    assert (shelf / name / own.HEADS).stat().st_mtime_ns != before
    other = load(name, "cpu", "float32")
    assert other.medusa.info.sha256 != pair.medusa.info.sha256, "the heads were trained further"
    hidden = torch.randn(32)
    scores = other.medusa.logits(hidden)
    assert torch.isinf(scores[:, 50:]).all() and torch.isfinite(scores[:, :50]).all()
    assert lm_head(base.target).get_output_embeddings().weight.shape == (100, 32)
