"""Heads as quick training leaves them behind, as far as somebody looks at them who does not load them."""

import json
from pathlib import Path

from specviz.models import own


def write_heads(folder: Path, accuracies: list[list[float]], **calibration: object) -> Path:
    """Weights that are none, and what was measured beside them; without `accuracies` nothing was. Returns the folder."""
    folder.mkdir(exist_ok=True)
    (folder / own.HEADS).write_bytes(folder.name.encode())
    facts = {"calibration": calibration or {"prompts": 2, "answer_tokens": 99}} | ({"accuracies": accuracies} if accuracies else {})
    (folder / own.HEADS).with_suffix(".json").write_text(json.dumps(facts))
    return folder
