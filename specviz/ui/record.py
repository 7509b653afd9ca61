"""The recorded runs that the page shows before any model is loaded: real runs of this program, made again by one command."""

from functools import cache
from pathlib import Path

from specviz.config import DecodeConfig
from specviz.i18n import ASSETS
from specviz.trace import Trace
from specviz.ui.text import PRESETS

FOLDER = ASSETS / "traces"
FIRST = "draft-rejection"  # what a first visit shows: the settings with which the page opens
# name: (preset of the prompt, parameters)
RUNS = {
    "draft-rejection": ("python", DecodeConfig(method="draft", rule="rejection", k=5, temperature=0.7, max_new_tokens=64)),
    "medusa-tree": ("story", DecodeConfig(method="medusa", rule="greedy", tree="sparse:64", temperature=0.0, max_new_tokens=64)),
    "medusa-typical": ("story", DecodeConfig(method="medusa", rule="typical", temperature=0.7, max_new_tokens=64)),
}


@cache
def first_visit() -> dict | None:
    """The view of the recorded run that a first visit shows; None where there is none."""
    from specviz.figures.view import run_view

    path = FOLDER / f"{FIRST}.json.gz"
    return run_view(Trace.load(path)) if path.exists() else None


def record(folder: Path = FOLDER, pair: str = "embedded") -> list[Path]:
    """Decode RUNS with the models as they are now and write their traces; returns the files. Raises Fault as a run does."""
    from specviz.analysis.hardware import peaks
    from specviz.engine.run import run
    from specviz.models.load import load

    models = load(pair)
    roofs = peaks(str(models.target.device), str(models.target.dtype).removeprefix("torch."), refresh=True)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (preset, config) in RUNS.items():
        run(
            models, "Hello", DecodeConfig(method="plain", max_new_tokens=4)
        )  # the first passes of a process are slow for reasons of their own
        files.append(folder / f"{name}.json.gz")
        run(models, PRESETS[preset], config, peaks=roofs).save(files[-1])
    return files
