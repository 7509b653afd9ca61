import json
from pathlib import Path

import pytest

from specviz.i18n import ASSETS
from specviz.models.embedded import sha256
from specviz.training.card import write_card

SHIPPED = ASSETS / "models" / "smollm2-135m"
PARTS = [(SHIPPED, "draft"), (SHIPPED, "medusa"), (SHIPPED / "medusa2", "medusa")]


@pytest.mark.parametrize(("folder", "method"), PARTS)
def test_shipped_cards_say_what_their_files_are(folder: Path, method: str, tmp_path: Path):
    card = (folder / f"{method}.md").read_text(encoding="utf-8")
    assert sha256(folder / f"{method}.safetensors") in card
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / f"{method}.md").unlink()
    write_card(tmp_path, method)
    assert (tmp_path / f"{method}.md").read_text(encoding="utf-8") == card


@pytest.mark.parametrize(("folder", "method"), PARTS)
def test_shipped_parts_were_measured_at_both_temperatures(folder: Path, method: str):
    facts = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    runs = facts["acceptance"]["runs"]
    assert {run["temperature"] for run in runs} == {0, 1}
    assert all(0 < run["accepted"] <= run["tested"] and run["steps"] < run["tokens"] <= run["steps"] + run["accepted"] for run in runs)
    assert facts["corpus"]["tokens"] >= 1_000_000


def test_shipped_parts_are_small():
    sizes = [path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()]
    assert max(sizes) <= 45_000_000 and sum(sizes) <= 90_000_000
