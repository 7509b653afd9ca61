import json
from pathlib import Path

import pytest

from specviz.i18n import ASSETS
from specviz.models.embedded import sha256
from specviz.training.card import write_card

SHIPPED = ASSETS / "models" / "smollm2-135m"


@pytest.mark.parametrize("method", ["draft", "medusa"])
def test_shipped_cards_say_what_their_files_are(method: str, tmp_path: Path):
    card = (SHIPPED / f"{method}.md").read_text(encoding="utf-8")
    assert sha256(SHIPPED / f"{method}.safetensors") in card
    for name in (f"{method}.json", f"{method}.safetensors"):
        (tmp_path / name).symlink_to(SHIPPED / name)
    write_card(tmp_path, method)
    assert (tmp_path / f"{method}.md").read_text(encoding="utf-8") == card


@pytest.mark.parametrize("method", ["draft", "medusa"])
def test_shipped_parts_were_measured_at_both_temperatures(method: str):
    facts = json.loads((SHIPPED / f"{method}.json").read_text(encoding="utf-8"))
    runs = facts["acceptance"]["runs"]
    assert [run["temperature"] for run in runs] == [0, 1]
    assert all(0 < run["accepted"] <= run["tested"] and run["steps"] < run["tokens"] <= run["steps"] + run["accepted"] for run in runs)
    assert facts["corpus"]["tokens"] >= 300_000


def test_shipped_parts_are_small():
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 45_000_000
