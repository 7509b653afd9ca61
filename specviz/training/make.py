"""From a corpus folder to a trained part in a folder, with its log, its curves and its card.

`called` is what the target is called on the card; without it the card names the hash of its weights.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from specviz.i18n import Fault
from specviz.models.catalog import base_of
from specviz.models.embedded import sha256
from specviz.models.files import writing
from specviz.training import curves, data, loop, status
from specviz.training import draft as drafts
from specviz.training import medusa as heads
from specviz.training import medusa2 as joint
from specviz.training.card import write_card
from specviz.training.corpus import Corpus
from specviz.training.parts import settings_of

Stopped = Callable[[], bool]
WARM = "heads"  # the folder, inside that of a Medusa-2 run, in which its heads are warmed up
WARM_SHARE = 1 / 3  # of the minutes of a run by the clock
MEASURED = ("accuracies", "calibration", "acceptance", "held_out_acceptance")  # with the part as it was then


def never() -> bool:
    """For runs that nobody stops."""
    return False


def draft(
    target: torch.nn.Module,
    corpus: Path,
    out: Path,
    recipe: drafts.Recipe,
    start: Path | None = None,
    stopped: Stopped = never,
    called: str | None = None,
) -> Iterator[loop.Entry]:
    """Train a draft; `start` is the folder of one to begin with. Raises Fault for layers that the target does not have."""
    depth = target.config.num_hidden_layers
    if not recipe.layers or not all(0 <= layer < depth for layer in recipe.layers):
        raise Fault("training.layers_missing", layers=", ".join(map(str, recipe.layers)), last=depth - 1)
    texts = _read(corpus, target)
    task = drafts.Draft(target, texts, recipe, start)
    yield from _run(task, texts, recipe, out, _facts(texts, corpus, out, called, start and start / drafts.FILE), stopped)


def medusa1(
    target: torch.nn.Module,
    corpus: Path,
    out: Path,
    recipe: heads.Recipe,
    start: Path | None = None,
    stopped: Stopped = never,
    called: str | None = None,
) -> Iterator[loop.Entry]:
    """Train heads on a frozen backbone; `start` is the folder of heads whose residual blocks to begin with."""
    recipe, texts = _judged(recipe, corpus), _read(corpus, target)
    task = heads.Medusa1(target.get_output_embeddings().weight.detach(), texts, recipe, start)
    yield from _run(task, texts, recipe, out, _facts(texts, corpus, out, called, start and start / heads.FILE), stopped)


def medusa2(
    target: torch.nn.Module,
    corpus: Path,
    out: Path,
    recipe: joint.Recipe,
    start: Path | None = None,
    warm: float = 1.0,
    stopped: Stopped = never,
    called: str | None = None,
) -> Iterator[loop.Entry]:
    """Train heads and backbone together. The heads come from `start`, or are first warmed up for `warm` epochs on the frozen backbone.

    By the clock, the warm-up takes WARM_SHARE of the minutes instead. `target` is as it was when the run is over.
    """
    recipe, texts = _judged(recipe, corpus), _read(corpus, target)
    if start is None and warm > 0:
        start, minutes = out / WARM, recipe.minutes
        if minutes is not None:
            recipe = replace(recipe, minutes=(1 - WARM_SHARE) * minutes)
        if not (out / loop.CHECKPOINT).is_file():
            known = {name: getattr(recipe, name) for name in ("heads", "layers", "vocabulary", "untied", "labels", "batch", "seed")}
            warming = heads.Recipe(epochs=warm, minutes=None if minutes is None else WARM_SHARE * minutes, **known)
            yield from medusa1(target, corpus, start, warming, stopped=stopped, called=called)
            if stopped():
                return
    task = joint.Medusa2(target, texts, recipe, start)
    try:
        yield from _run(task, texts, recipe, out, _facts(texts, corpus, out, called, start and start / heads.FILE), stopped)
    finally:
        task.release()


def soften(target: torch.nn.Module, corpus: Path, folder: Path, most: float, tried: Callable[[float, float], None]) -> None:
    """Lower the scale of the Medusa-2 adapter in `folder` until it keeps the held-out KL under `most` (see `medusa2.soften`).

    What was measured with the former scale is dropped. Where the KL is low enough already, nothing is written.
    """
    task, facts = joint.load(target, _read(corpus, target), folder)
    trained = task.alpha
    try:
        found = joint.soften(task, most, tried)
        if task.alpha == trained:
            return
        kept = {name: value for name, value in facts.items() if name not in MEASURED}
        if "accuracies" in facts:  # trees are built from these
            kept |= {"accuracies": found["text_accuracies"], "calibration": {"on": "held-out texts"}}
        began = facts.get("softened", {}).get("from", trained)
        with writing(folder):
            task.save(folder, kept | {"held_out": found, "softened": {"alpha": task.alpha, "from": began, "most": most}})
            write_card(folder, "medusa")
    finally:
        task.release()


def layers_of(text: str) -> tuple[int, ...]:
    """ "0,1,2,29" as numbers; raises Fault where it is no such list."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise Fault("training.layers_syntax", value=text[:40]) from error


def refuse_no_corpus(corpus: Path) -> None:
    """Raise Fault where there is no corpus."""
    if not corpus.is_file() and not any(corpus.glob("*.safetensors")):
        raise Fault("training.no_corpus", path=corpus)


def refuse_other_model(corpus: Path, sha256: str) -> None:
    """Raise Fault where another model than that of these weights has read or written the corpus: its states would be the wrong ones."""
    if (theirs := settings_of(corpus).get("target")) is not None and theirs != sha256:
        raise Fault("training.corpus_of_other_model", path=corpus)


def _read(corpus: Path, target: torch.nn.Module) -> Corpus:
    """The corpus; raises Fault where its states are not of this target's width."""
    texts, width = Corpus.load(corpus), target.get_output_embeddings().weight.shape[1]
    if texts.hidden.shape[1] != width:
        raise Fault("training.corpus_of_other_model", path=corpus)
    return texts


def _judged(recipe: Any, corpus: Path) -> Any:
    """The recipe with what it is judged by chosen where it is left open; raises Fault for a choice that there is not.

    On a corpus that the target wrote itself that is the target's own distribution, on another the text.
    """
    own = settings_of(corpus).get("source") == "self-distilled"
    for name, kinds, chosen in (("labels", heads.LABELS, "soft" if own else "text"), ("lm", joint.LMS, "kl" if own else "ce")):
        value = getattr(recipe, name, chosen)
        if value is None:
            recipe = replace(recipe, **{name: chosen})
        elif value not in kinds:
            raise Fault("error.unknown_choice", name=name, value=str(value)[:40], choices=", ".join(kinds))
    return recipe


def _run(task: loop.Task, texts: Corpus, recipe: loop.Schedule, out: Path, facts: dict[str, Any], stopped: Stopped) -> Iterator[loop.Entry]:
    facts["device"] = next(iter(task.parameters().values())).device.type
    yield from loop.fit(task, texts, recipe, out, facts, stopped)
    with writing(out):
        curves.draw(out)
        write_card(out, "draft" if isinstance(recipe, drafts.Recipe) else "medusa")


def _facts(texts: Corpus, corpus: Path, out: Path, called: str | None, start: Path | None) -> dict[str, Any]:
    """What the card of a run is to say of its target, its data, and what it begins with: the weights in the file `start`."""
    facts, made_of, quick = data.facts_of(texts), settings_of(corpus), status.read(out)
    facts["corpus"] |= {name: made_of[name] for name in ("source", "seed", "target", "data") if name in made_of}
    if made_of.get("prompts"):
        facts["corpus"] |= _prompts(texts, made_of["prompts"])
    if quick is not None:  # a run of `train heads`
        facts["quick"] = {"minutes": quick.minutes}
        called = called or Path(base_of(quick.pair)).name
    if called:
        facts["target"] = called
    if start is not None:
        facts["start"] = _known(start)
    return facts


def _prompts(texts: Corpus, given: list[str]) -> dict[str, Any]:
    """How many different prompts were given and how many the conversations ask, and the hash of the lines that were given."""
    spans = [texts.conversation(i) for i in range(len(texts))]
    asked = {texts.tokens[span.start : span.start + texts.answer(i)].numpy().tobytes() for i, span in enumerate(spans)}
    lines = "".join(f"{prompt}\n" for prompt in given)
    sha = hashlib.sha256(lines.encode("utf-8")).hexdigest()
    return {"prompts": len(set(given)), "prompts_used": len(asked), "prompts_sha256": sha}


def _known(weights: Path) -> dict[str, Any]:
    """What a run began with: the hash of its weights, and, where they are told beside them, the corpus and the run that made them."""
    card = weights.with_suffix(".json")
    told = json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
    run = {name: told["run"][name] for name in ("tokens", "seconds")} if "run" in told else {}
    return {"sha256": sha256(weights), "corpus": told.get("corpus", {}), "run": run}
