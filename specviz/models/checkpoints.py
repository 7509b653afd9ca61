"""Trained parts from files: a pruned draft, Medusa heads in the public formats. Strict: every tensor is used and has its shape.

Medusa formats (facts are taken from the tensors, never from a config that may disagree with them):

    v1    {i}.0.linear.weight, {i}.0.linear.bias, …, {i}.{L}.weight     one LM head a head behind L residual blocks
    v2    {i}.0.linear.weight, {i}.0.linear.bias                        the target's LM head, shared
    vLLM  blocks.{i}.layers.{j}.weight, lm_heads.{i}.weight or lm_head.weight (or neither: the target's), token_map

A prefix `medusa_heads.` or `medusa_head.` is allowed, and `token_map` in every format.
"""

import copy
import json
import pickle
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from specviz.i18n import Fault
from specviz.models.embedded import sha256
from specviz.models.medusa import MedusaHeads
from specviz.trace import ModelInfo

DRAFT_FILE = "draft.safetensors"
MEDUSA_FILES = ("medusa.safetensors", "medusa_lm_head.safetensors", "medusa_lm_head.pt", "model.safetensors")
BLOCK = re.compile(r"(?:blocks\.(\d+)\.layers\.(\d+)|(\d+)\.(\d+)\.linear)\.(weight|bias)")
LM_HEAD = re.compile(r"(?:lm_heads\.(\d+)|(\d+)\.(\d+))\.weight|lm_head\.weight")


def pruned(target: nn.Module, layers: tuple[int, ...]) -> nn.Module:
    """A model of the target's class with only `layers`, sharing the target's embeddings, LM head and rotary table.

    Layers and final norm are left without memory (meta tensors): fill them with `load_state_dict(…, assign=True, strict=False)`.
    """
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [target.config.layer_types[i] for i in layers]
    with torch.device("meta"):
        model = type(target)(config)
    model.model.rotary_emb = target.model.rotary_emb
    model.set_input_embeddings(target.get_input_embeddings())
    model.set_output_embeddings(target.get_output_embeddings())
    return model.eval()


def load_draft(folder: Path, target: nn.Module) -> tuple[nn.Module, Tensor]:
    """The pruned draft of `folder` (draft.safetensors, draft.json) for `target`, and the ids of the tokens that it scores.

    The model is in the target's dtype and on its device; its LM head has one row for each of those ids. Raises Fault when file and
    target do not fit each other.
    """
    path = _file(Path(folder), (DRAFT_FILE,))
    tensors, card = _tensors(path), _card(path, required=True)
    layers, depth = tuple(card.get("layers", ())), target.config.num_hidden_layers
    if not layers or not all(isinstance(i, int) and 0 <= i < depth for i in layers):
        raise Fault("error.checkpoint_layers", path=path, layers=", ".join(map(str, layers)), count=depth)
    weight = target.get_output_embeddings().weight
    token_map = _token_map(path, _take(path, tensors, "token_map"), target.config.vocab_size, weight.device)
    model = pruned(target, layers)
    shared = {id(p) for p in target.parameters()}
    own = {name: p for name, p in model.named_parameters() if id(p) not in shared}
    state = {name: _take(path, tensors, name, tuple(p.shape)).to(weight.device, weight.dtype) for name, p in own.items()}
    _nothing_left(path, tensors)
    model.load_state_dict(state, strict=False, assign=True)
    head = nn.Linear(weight.shape[1], len(token_map), bias=False, device="meta")
    head.weight = nn.Parameter(weight.detach()[token_map])
    model.set_output_embeddings(head)
    return model.requires_grad_(False), token_map


def load_medusa(path: Path, target: nn.Module) -> MedusaHeads:
    """Medusa heads of any public format for `target`, in its dtype and on its device; `path` is a file or its folder.

    Raises Fault when the file is none, lacks a tensor, has one too many, or was made for another width or vocabulary.
    """
    path = medusa_file(path)
    tensors, weight = _tensors(path), target.get_output_embeddings().weight.detach()
    blocks, heads, token_map = _medusa_parts(path, tensors, weight)
    ids = None if token_map is None else _token_map(path, token_map, len(weight), weight.device)
    shared = weight if ids is None else weight[ids].contiguous()
    lm_heads = tuple(head if head is not None else shared for head in heads)
    rows = len(shared)
    for i, head in enumerate(lm_heads):
        if len(head) != rows:
            raise Fault(
                "error.checkpoint_shape", path=path.name, key=f"LM head {i}", shape=_shape(head), wanted=f"{rows}×{weight.shape[1]}"
            )
    card, cast = _card(path), _Cast(weight)
    made = tuple(tuple((cast(w), None if b is None else cast(b)) for w, b in layers) for layers in blocks)
    parameters = sum(t.numel() for layers in blocks for pair in layers for t in pair if t is not None)
    own = {id(head): head.numel() for head in heads if head is not None}
    info = ModelInfo(name=card.get("name", path.stem), sha256=sha256(path), parameters=parameters + sum(own.values()), source=path.name)
    accuracies = card.get("accuracies")
    return MedusaHeads(
        info=info,
        blocks=made,
        lm_heads=tuple(map(cast, lm_heads)),
        vocab_size=len(weight),
        token_map=ids,
        accuracies=None if accuracies is None else tuple(tuple(map(float, row)) for row in accuracies),
    )


def medusa_file(path: Path) -> Path:
    """The file of Medusa heads that `path` is, or that the folder `path` holds; raises Fault where there is none."""
    return _file(Path(path), MEDUSA_FILES)


class _Cast:
    """Tensors in one dtype and on one device, each moved once, so that shared ones stay shared."""

    def __init__(self, like: Tensor):
        self.like = like
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}  # by id; the original is kept, so that its id stays its own

    def __call__(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self.seen:
            self.seen[id(tensor)] = (tensor, tensor.to(self.like.device, self.like.dtype))
        return self.seen[id(tensor)][1]


_Layers = list[tuple[Tensor, Tensor | None]]


def _medusa_parts(path: Path, tensors: dict[str, Tensor], weight: Tensor) -> tuple[list[_Layers], list[Tensor | None], Tensor | None]:
    """Residual blocks by head, the LM head of each (None: the target's), and the token map."""
    tensors = {re.sub(r"^medusa_heads?\.", "", name): tensor for name, tensor in tensors.items()}
    token_map, width = tensors.pop("token_map", None), weight.shape[1]
    found: dict[tuple[int, int, str], tuple[str, Tensor]] = {}
    lm_heads: dict[int | None, tuple[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if block := BLOCK.fullmatch(name):
            numbers = [int(number) for number in block.groups()[:4] if number is not None]
            found[numbers[0], numbers[1], block[5]] = name, tensor
        elif head := LM_HEAD.fullmatch(name):
            lm_heads[next((int(number) for number in head.groups()[:2] if number is not None), None)] = name, tensor
        else:
            raise Fault("error.checkpoint_key_extra", path=path.name, key=name[:80])
    if not found:
        raise Fault("error.checkpoint_format", path=path.name, example="0.0.linear.weight")
    count, depth = 1 + max(i for i, _, _ in found), 1 + max(j for _, j, _ in found)
    blocks = [[_block(path, found, i, j, width) for j in range(depth)] for i in range(count)]
    return blocks, _lm_heads(path, lm_heads, count, width), token_map


def _block(path: Path, found: dict[tuple[int, int, str], tuple[str, Tensor]], i: int, j: int, width: int) -> tuple[Tensor, Tensor | None]:
    if (i, j, "weight") not in found:
        raise Fault("error.checkpoint_key_missing", path=path.name, key=f"{i}.{j}.linear.weight")
    name, weight = found[i, j, "weight"]
    _check(path, name, weight, (width, width))
    if (i, j, "bias") not in found:
        if name.endswith(".linear.weight") and not name.startswith("blocks."):  # vLLM's blocks may have no bias, the others always do
            raise Fault("error.checkpoint_key_missing", path=path.name, key=f"{i}.{j}.linear.bias")
        return weight, None
    _check(path, *found[i, j, "bias"], (width,))
    return weight, found[i, j, "bias"][1]


def _lm_heads(path: Path, found: dict[int | None, tuple[str, Tensor]], count: int, width: int) -> list[Tensor | None]:
    if not found:
        return [None] * count
    if None in found:  # one LM head for all
        found = {**dict.fromkeys(range(count), found[None]), **{i: head for i, head in found.items() if i is not None}}
    for i in range(count):
        if i not in found:
            raise Fault("error.checkpoint_key_missing", path=path.name, key=f"LM head {i}")
        _check(path, *found[i], (len(found[i][1]), width))
    if extra := [i for i in found if i is not None and i >= count]:
        raise Fault("error.checkpoint_key_extra", path=path.name, key=found[extra[0]][0])
    return [found[i][1] for i in range(count)]


def _file(path: Path, names: tuple[str, ...]) -> Path:
    candidates = [path] if path.is_file() else [path / name for name in names]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise Fault("error.checkpoint_missing", path=path, wanted=names[0])


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        raw = load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        raise Fault("error.checkpoint_unreadable", path=path.name) from error
    if not isinstance(raw, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in raw.items()):
        raise Fault("error.checkpoint_unreadable", path=path.name)
    return dict(raw)


def _card(path: Path, required: bool = False) -> dict:
    card = path.with_suffix(".json")
    try:
        read = json.loads(card.read_text(encoding="utf-8"))
        if isinstance(read, dict):
            return read
    except FileNotFoundError:
        if not required:
            return {}
    except (OSError, ValueError):
        pass
    raise Fault("error.checkpoint_card", path=card.name)


def _take(path: Path, tensors: dict[str, Tensor], key: str, shape: tuple[int, ...] | None = None) -> Tensor:
    if key not in tensors:
        raise Fault("error.checkpoint_key_missing", path=path.name, key=key)
    tensor = tensors.pop(key)
    if shape is not None:
        _check(path, key, tensor, shape)
    return tensor


def _nothing_left(path: Path, tensors: dict[str, Tensor]) -> None:
    if tensors:
        raise Fault("error.checkpoint_key_extra", path=path.name, key=next(iter(tensors))[:80])


def _check(path: Path, key: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise Fault("error.checkpoint_shape", path=path.name, key=key, shape=_shape(tensor), wanted="×".join(map(str, shape)))


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "()"


def _token_map(path: Path, ids: Tensor, vocabulary: int, device: torch.device) -> Tensor:
    whole = ids.dim() == 1 and len(ids) > 0 and not ids.is_floating_point() and ids.dtype != torch.bool
    if not whole or int(ids.min()) < 0 or int(ids.max()) >= vocabulary or len(ids.unique()) < len(ids):
        raise Fault("error.checkpoint_token_map", path=path.name, vocabulary=vocabulary)
    return ids.to(device, torch.long)
