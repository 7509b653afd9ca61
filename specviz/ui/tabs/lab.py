"""What the tree lab asks the server for: the greedy tree of a source, the places of nodes, and a recorded run judged on another tree.

Everything that comes in is from a browser and may be anything; nothing is kept between two questions. Each answer is plain JSON, or
{"error": {"key", "args"}} with the sentence that says what was wrong.

Accuracies belong to one proposer. Sources and runs carry an `identity`, and only where two are equal may what a source should yield be set
against what a run measured.
"""

import re
from collections import Counter
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specviz.analysis import trees
from specviz.analysis.cost import cost_model
from specviz.config import LARGEST_TREE, DecodeConfig
from specviz.figures.tree_lab import draw_curve, draw_explosion, node_rows
from specviz.i18n import Fault
from specviz.models import own
from specviz.models.catalog import ENTRIES, NAMES, SHIPPED, find
from specviz.models.embedded import sha256
from specviz.trace import Header, Trace
from specviz.ui import record
from specviz.ui.tabs.component import Answer, answered

SOURCES = ("medusa", "draft", "ngram")
PAIR = "embedded"  # what the shipped draft, heads and n-gram accuracies are for
LOOKUP = ("ngram_max", "ngram_min", "ngram_match")  # what n-gram lookup depends on
HORIZONS = (64, LARGEST_TREE)  # sizes up to which a tree grows
RECORDED = "medusa-tree"  # the recorded run that trees are judged on

Share = Annotated[float, Field(ge=0, le=1)]


class Profile(BaseModel):
    """Assumed accuracies: see `trees.profile`."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    heads: Annotated[int, Field(ge=1, le=8)] = 4
    first: Share = 0.5
    by_head: Share = 0.7
    by_rank: Share = 0.5


class Asked(BaseModel):
    """Where the accuracies come from; `pair` is the one whose Medusa heads are meant."""

    model_config = ConfigDict(extra="forbid")

    source: Literal["medusa", "draft", "ngram", "assumed"]
    pair: Annotated[str, Field(max_length=80)] = PAIR
    profile: Profile = Profile()


@answered("lab.unexpected")
def grow(asked: Answer) -> Answer:
    """The tree of a source, candidate by candidate in the order in which it grows, with what each size should yield.

    {"source": {"name", "pair", "origin", "identity"?, "prompts"?, "answer_tokens"?}, "known": [calibrated sources], "heads": see `_heads`,
    "accuracies", "order": [path…], "expected": [E[L] with the first n, …], "rows": {horizon: [row of the root, of order[0], …]},
    "figures": {"curve", "explosion"}}
    """
    from specviz.engine.tree import expected_tokens, growth

    wanted = _checked(asked)
    accuracies, facts = _accuracies(wanted)
    order = growth(accuracies, LARGEST_TREE)
    expected = [expected_tokens(order[:size], accuracies) for size in range(1, len(order) + 1)]
    return {
        "source": {"name": wanted.source, "pair": wanted.pair, **facts},
        "known": [name for name in SOURCES if _facts(_cards(name)[PAIR])],
        "heads": _heads(),
        "accuracies": accuracies,
        "order": order,
        "expected": [round(value, 6) for value in expected],
        "rows": {str(horizon): node_rows(_parents(order[:horizon])) for horizon in HORIZONS},
        "figures": {"curve": draw_curve(expected), "explosion": draw_explosion()},
    }


@answered("lab.unexpected")
def arrange(asked: Answer) -> Answer:
    """Read a tree in the published choices format: {"choices": [path…] sorted, "rows": [row of the root, of each]}.

    Asked: {"tree": text, "heads": how deep it may be}.
    """
    shape = _choices(asked)
    heads = asked.get("heads")
    if not isinstance(heads, int) or len(shape[-1]) > heads:
        raise Fault("lab.too_deep", path=trees.text_of(shape[-1]), levels=len(shape[-1]), heads=heads)
    return {"choices": shape, "rows": node_rows(_parents(shape))}


@answered("lab.unexpected")
def judge(asked: Answer) -> Answer:
    """What a tree would have committed at each step of a recorded run, from the start that was recorded and under the recorded rule.

    Asked: {"tree": choices text, "trace": a trace file's text, or null for the run that is shipped}. Answer: {"judged": [tokens a step],
    "own": [those of the run], "mean", "own_mean", "accepted": {path: steps}, "run": what `_about` says of it}
    """
    from specviz.engine.rejudge import rejudged

    shape = _choices(asked)
    trace = _trace(asked)
    header, run = trace.header, trees.recorded(trace.steps, trace.header.config)
    if missing := run.missing(shape):
        raise Fault("lab.not_recorded", path=trees.text_of(missing[0]), count=len(missing), candidates=len(shape))
    judged, accepted, wanted = [], Counter[str](), set(shape)
    for index in range(len(run.steps)):
        step = rejudged(run.restricted(index, shape), header.config, header.eos_ids)
        judged.append(len(step.emitted))
        kept = [path for path in run.paths[index] if not path or path in wanted]
        accepted.update(trees.text_of(kept[token.node]) for token in step.emitted if token.node is not None)
    own = [len(step.emitted) for step in run.steps]
    return {
        "judged": judged,
        "own": own,
        "mean": mean(judged),
        "own_mean": mean(own),
        "accepted": dict(accepted),
        "run": _about(trace),
    }


@answered("lab.unexpected")
def pace(asked: Answer) -> Answer:
    """The measured times of a Medusa run, for the tokens a second of trees: {"model": CostModel | null, "run": what `_about` says of it}.

    Asked: {"trace": a trace file's text, or null for the run that is shipped}.
    """
    trace = _trace(asked)
    model = cost_model(trace.header, trace.steps) if trace.header.config.method == "medusa" else None
    return {"model": None if model is None else asdict(model), "run": _about(trace)}


def _about(trace: Trace) -> Answer:
    """A run in a few words; "candidates" are the most that it proposed in a step, "identity" says whose accuracies tell of it."""
    config = trace.header.config
    return {
        "identity": _identity(trace.header),
        "method": config.method,
        "rule": "greedy" if config.greedy else config.rule,
        "temperature": config.temperature,
        "device": trace.header.device_name,
        "steps": len(trace.steps),
        "candidates": max((len(step.tree) - 1 for step in trace.steps), default=0),
    }


def _checked(asked: Answer) -> Asked:
    try:
        return Asked.model_validate(asked)
    except ValidationError as error:
        raise Fault("lab.unexpected") from error


def _accuracies(wanted: Asked) -> tuple[trees.Accuracies, Answer]:
    """The accuracies of a source, and where they come from; raises Fault where nobody measured them."""
    if wanted.source == "assumed":
        return trees.profile(**wanted.profile.model_dump()), {"origin": "assumed"}
    cards = _cards(wanted.source)
    card = cards.get(wanted.pair if wanted.source == "medusa" else PAIR)
    facts = card and _facts(card)
    if not card or not facts:
        gone = wanted.source == "medusa" and wanted.pair != PAIR
        raise Fault("lab.heads_gone") if gone else Fault("lab.not_calibrated", method=wanted.source)
    how = facts.get("calibration", {})
    told = {name: how[name] for name in ("prompts", "answer_tokens") if name in how}
    return facts["accuracies"], {"origin": "measured", "identity": _source_identity(wanted.source, card, how), **told}


def _heads() -> list[Answer]:
    """Medusa heads with measured accuracies: {"name" of the pair, "pair": its label, "when": training began, null for shipped ones}."""
    labels = {entry.name: entry.label for entry in ENTRIES}
    found = []
    for name in (name for name, card in _cards("medusa").items() if _facts(card)):
        one = own.named(name)
        when = one and f"{one.started.astimezone():%m-%d %H:%M}"  # as in the player's list of pairs
        found.append({"name": name, "pair": labels[one.pair if one else name], "when": when})
    return found


def _cards(source: str) -> dict[str, Path]:
    """The JSON files with a source's accuracies by pair: those that are shipped, then those of heads trained here, the newest first."""
    if source != "medusa":
        return {PAIR: SHIPPED / f"{source}.json"}
    shipped = {entry.name: (entry.adapter or SHIPPED) / "medusa.json" for entry in ENTRIES if not entry.hub}
    trained = {one.name: one.folder / "medusa.json" for one in own.every() if one.usable and one.pair in NAMES}
    return shipped | trained


def _facts(card: Path) -> Answer | None:
    """What such a file tells; None where it has no accuracies, or is damaged."""
    try:
        return _read(card, card.stat().st_mtime_ns)
    except (OSError, Fault):
        return None


@lru_cache(maxsize=64)
def _read(card: Path, changed: int) -> Answer | None:
    from specviz.models import tensors

    return tensors.card(card.with_suffix(".safetensors")) if tensors.accuracies(card.with_suffix(".safetensors")) else None


def _identity(header: Header) -> str:
    """Whose accuracies tell of a run: see `_named`."""
    config, proposer = header.config, header.proposer
    lookup = [getattr(config, name) for name in LOOKUP]
    return _named(config.method, proposer.sha256 if proposer else "", header.target.name, lookup)


def _source_identity(source: str, card: Path, calibration: Answer) -> str:
    """The same of a source, by the weights beside its card; without them no run is meant."""
    weights = card.with_suffix(".safetensors")
    proposer = _hash(weights, weights.stat().st_mtime_ns) if weights.is_file() else None
    return _named(source, proposer, find(PAIR).label, [calibration.get(name) for name in LOOKUP])


def _named(method: str, proposer: str | None, target: str, lookup: list[object]) -> str:
    """The heads (they are made for one target), the draft and its target, or what lookup does and for which target."""
    parts: dict[str, list[object]] = {"medusa": [proposer], "ngram": [target, *lookup]}
    return " ".join(map(str, [method, *parts.get(method, [proposer, target])]))


@lru_cache(maxsize=64)
def _hash(weights: Path, changed: int) -> str:
    return sha256(weights)


def _choices(asked: Answer) -> tuple[trees.Path, ...]:
    """The tree of a question, sorted; raises Fault, in one sentence, where it is no tree in the published format."""
    text = asked.get("tree")
    if not isinstance(text, str):
        raise Fault("lab.not_choices")
    text = re.sub(r"^\s*\w+\s*=\s*", "", text).strip()  # as in the Medusa repository: name = [(0,), (0, 0), …]
    listed = text.startswith(("[", "(")) and re.search(r"\w", text)
    choices = DecodeConfig(method="medusa", tree=text).choices if listed else None
    if not choices:
        raise Fault("lab.not_choices")
    return choices


def _parents(shape: tuple[trees.Path, ...]) -> tuple[int, ...]:
    from specviz.engine.tree import parents_of

    return parents_of(shape)


def _trace(asked: Answer) -> Trace:
    text = asked.get("trace")
    if text is None:
        return _shipped_run(record.FOLDER / f"{RECORDED}.json.gz")
    if not isinstance(text, str):
        raise Fault("error.trace_json")
    return Trace.from_json(text)


@cache
def _shipped_run(path: Path) -> Trace:
    if not path.is_file():
        raise Fault("lab.no_recording")
    return Trace.load(path)
