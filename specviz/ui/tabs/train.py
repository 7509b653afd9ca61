"""The Train tab: what it asks the server for, the component, and what hands trained heads to the player.

Everything that comes in is from a browser and may be anything. Runs live in specviz/ui/jobs.py; all visitors see the same ones.
assets/train holds its scripts.
"""

import tempfile
import zipfile
from functools import cache
from pathlib import Path

import gradio as gr
from gradio.components import Component

from specviz.figures.training import draw_accuracies, draw_losses, training_info, training_tables
from specviz.i18n import LANGUAGES, Fault
from specviz.models import own
from specviz.models.catalog import ENTRIES, SHIPPED, base_of
from specviz.training.status import FILE, LOCK, SHARES, STOP
from specviz.ui import handlers, jobs
from specviz.ui.events import CHEAP
from specviz.ui.tabs.component import Answer, Scripts, Tab, answered
from specviz.ui.text import pair_choices

SCRIPTS = Scripts(
    "train",
    parts=("chart.js", "run.js", "runs.js", "train.js"),
    face=("mountTrain",),
    sections=("train", "training", "error", "models", "embedded", "device", "export", "pair"),
)
WANTED = "(pair, ...chosen) => [window.specvizTrain.wanted, ...chosen]"
SHOW = "() => { window.specvizPage.show('player'); }"
LEFT_OUT = (FILE, LOCK, STOP, jobs.OUTPUT, "checkpoint.safetensors")  # of an exported folder; the texts, too


@cache
def packs() -> tempfile.TemporaryDirectory:
    """What is to be downloaded; gone with the server."""
    return tempfile.TemporaryDirectory(prefix="specviz-")


@answered("error.unexpected")
def state(asked: Answer) -> Answer:
    """All runs, and the curves of one: {"off": reason or null, "pairs": [[label, name]…], "runs", "current", "run": the name of the one
    on show, "shipped", "shares", "shown"?: {"stamp", "figures", "tables"}}.

    Asked: {"run": the one to show, null for the one that goes on or is the newest; "have": the stamp of the curves that are there}.
    """
    every, off = jobs.runs(), jobs.refusal()
    names = [one["name"] for one in every]
    current = next((one["name"] for one in every if one["going"]), None)
    wanted = asked.get("run")
    shown = wanted if wanted in names else current or next(iter(names), None)
    answer = {
        "off": off and {"key": off.key, "args": off.values},
        "pairs": [[entry.label, entry.name] for entry in ENTRIES],
        "runs": every,
        "current": current,
        "run": shown,
        "shipped": jobs.measured(SHIPPED / own.HEADS),
        "shares": SHARES,
    }
    facts = next((one for one in every if one["name"] == shown), None)
    return answer if facts is None else answer | _curves(facts, asked.get("have"))


def _curves(facts: Answer, have: object) -> Answer:
    """The curves of a run, where they are not those that are there already."""
    stamp = f"{facts['name']}/{jobs.log_size(facts['name'])}"
    if stamp == have:
        return {}
    info = training_info(jobs.log(facts["name"]), facts["training"].get("minutes"))
    figures = {"losses": draw_losses(info), "accuracies": draw_accuracies(info)}
    return {"shown": {"stamp": stamp, "figures": figures, "tables": training_tables(info)}}


@answered("error.unexpected")
def begin(asked: Answer) -> Answer:
    """Begin a run: {"pair", "minutes"} → {"name"}."""
    return {"name": jobs.start(asked.get("pair"), asked.get("minutes"))}


@answered("error.unexpected")
def act(asked: Answer) -> Answer:
    """Stop, resume or delete a run: {"what", "name"} → {"name"}."""
    deeds = {"stop": jobs.stop, "resume": jobs.resume, "delete": jobs.delete}
    what = str(asked.get("what"))
    if what not in deeds:
        raise Fault("error.unknown_choice", name="what", value=what[:40], choices=", ".join(deeds))
    deeds[what](asked.get("name"))
    return {"name": asked.get("name")}


@answered("error.unexpected")
def pack(asked: Answer) -> Answer:
    """Heads as a zip file to download: {"name", "form"} → {"path", "file"}. The form "here" is the run's folder without its texts."""
    one, form = own.find(asked.get("name")), str(asked.get("form"))
    if one is None:
        raise Fault("train.unknown_run", name=str(asked.get("name"))[:60])
    with tempfile.TemporaryDirectory() as made:
        if form != "here":
            _convert(one, form, Path(made))
        folder = one.folder if form == "here" else Path(made)
        path = Path(packs().name) / f"{one.name}-{form}.zip"
        try:
            _zip(folder, path)
        except OSError as error:
            raise Fault("training.unwritable", path=path, reason=error.strerror or error) from error
    return {"path": str(path), "file": path.name}


def _zip(folder: Path, path: Path) -> None:
    """The files of `folder` in one; those that were packed before are gone."""
    for old in path.parent.glob("*.zip"):
        old.unlink()
    with zipfile.ZipFile(path, "w") as archive:  # not compressed: weights do not get smaller
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.name not in LEFT_OUT:
                archive.write(file, file.name)


def _convert(one: own.Own, form: str, folder: Path) -> None:
    """Write heads in the format of another program. Those that know no token map get heads that score the whole vocabulary."""
    from specviz.models.checkpoints import read_medusa
    from specviz.models.export import Export
    from specviz.models.load import load
    from specviz.models.output import lm_head

    target = lm_head(load(one.pair).target)
    heads = read_medusa(one.folder / own.HEADS, target)
    Export(heads, target.get_output_embeddings().weight, base_of(one.pair), every=form != "vllm").write(form, folder)


def use(name: object, lang: object, *choices: object) -> list[dict]:
    """Choose trained heads in the player, and Medusa with their calibrated tree.

    Inputs: pair (in its place the name of a run), language, method, rule, tree, temperature, preset. Outputs: pair, ADAPTED.
    """
    if own.find(name) is None:
        return [gr.skip()] * (1 + len(handlers.ADAPTED))
    _, rule, _, *rest = choices
    method, *others = handlers.adapt(lang, "medusa", rule, "", *rest)
    pairs = pair_choices(lang if lang in LANGUAGES else "en")
    return [gr.update(choices=pairs, value=name), {**method, "value": "medusa"}, *others]


def build(made: dict[str, Component]) -> None:
    """Build the tab. `made` are the player's controls by id: heads are used by choosing their pair there."""
    gr.set_static_paths([packs().name])
    Tab(SCRIPTS, [state, begin, act, pack], elem_id="train")
    button = gr.Button(elem_id="use-heads", elem_classes=["unseen"])  # pressed by the tab
    given = [made[name] for name in ("pair", "language", *handlers.CHOICES)]
    adapted = [made[name] for name in ("pair", *handlers.ADAPTED)]
    chosen = button.click(use, given, adapted, js=WANTED, preprocess=False, **CHEAP)
    chosen.then(fn=None, js=SHOW, **CHEAP)
