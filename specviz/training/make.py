"""From a corpus folder to a trained part in a folder, with its log, its curves and what its card says of it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from specviz.i18n import Fault
from specviz.models.embedded import sha256
from specviz.models.files import writing
from specviz.training import curves, data, loop
from specviz.training import draft as drafts
from specviz.training import medusa as heads
from specviz.training import medusa2 as joint
from specviz.training.corpus import Corpus
from specviz.training.parts import settings_of

Stopped = Callable[[], bool]
WARM = "heads"  # the folder, inside that of a Medusa-2 run, in which its heads are warmed up
WARM_SHARE = 1 / 3  # of the minutes of a run by the clock


def never() -> bool:
    """For runs that nobody stops."""
    return False


def draft(
    target: torch.nn.Module, corpus: Path, out: Path, recipe: drafts.Recipe, start: Path | None = None, stopped: Stopped = never
) -> Iterator[loop.Entry]:
    """Train a draft; `start` is the folder of one to begin with. Raises Fault for layers that the target does not have."""
    depth = target.config.num_hidden_layers
    if not recipe.layers or not all(0 <= layer < depth for layer in recipe.layers):
        raise Fault("training.layers_missing", layers=", ".join(map(str, recipe.layers)), last=depth - 1)
    texts = _read(corpus, target)
    yield from _run(drafts.Draft(target, texts, recipe, start), texts, recipe, corpus, out, start, stopped)


def medusa1(
    target: torch.nn.Module, corpus: Path, out: Path, recipe: heads.Recipe, start: Path | None = None, stopped: Stopped = never
) -> Iterator[loop.Entry]:
    """Train heads on a frozen backbone; `start` is the folder of heads whose residual blocks to begin with."""
    recipe, texts = _judged(recipe, corpus), _read(corpus, target)
    task = heads.Medusa1(target.get_output_embeddings().weight.detach(), texts, recipe)
    if start is not None:
        task.blocks.start_from(start, task.token_map)
    yield from _run(task, texts, recipe, corpus, out, start, stopped)


def medusa2(
    target: torch.nn.Module,
    corpus: Path,
    out: Path,
    recipe: joint.Recipe,
    start: Path | None = None,
    warm: float = 1.0,
    stopped: Stopped = never,
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
            yield from medusa1(target, corpus, start, warming, stopped=stopped)
            if stopped():
                return
    task = joint.Medusa2(target, texts, recipe)
    try:
        if start is not None:
            task.blocks.start_from(start, task.token_map)
        yield from _run(task, texts, recipe, corpus, out, start, stopped)
    finally:
        task.release()


def soften(target: torch.nn.Module, corpus: Path, folder: Path, most: float, tried: Callable[[float, float], None]) -> None:
    """Lower the scale of the Medusa-2 adapter in `folder` until it keeps the held-out KL under `most` (see `medusa2.soften`)."""
    task, facts = joint.load(target, _read(corpus, target), folder)
    trained = task.alpha
    try:
        facts["held_out"] = joint.soften(task, most, tried)
        facts["softened"] = {"alpha": task.alpha, "from": trained, "most": most}
        task.save(folder, facts)
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


def _run(
    task: loop.Task, texts: Corpus, recipe: loop.Schedule, corpus: Path, out: Path, start: Path | None, stopped: Stopped
) -> Iterator[loop.Entry]:
    made_of = settings_of(corpus)
    facts = data.facts_of(texts)
    facts["corpus"] |= {name: made_of[name] for name in ("source", "seed", "target", "data") if name in made_of}
    facts["device"] = next(iter(task.parameters().values())).device.type
    if start is not None:
        facts["start"] = _known(start / drafts.FILE if isinstance(recipe, drafts.Recipe) else start / heads.FILE)
    yield from loop.fit(task, texts, recipe, out, facts, stopped)
    with writing(out):
        curves.draw(out)


def _known(weights: Path) -> dict[str, Any]:
    """What a run began with: the hash of its weights, and the corpus that they were trained on, where it is told beside them."""
    card = weights.with_suffix(".json")
    told = json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
    return {"sha256": sha256(weights), "corpus": told.get("corpus", {})}
