"""Trained parts from files: a pruned draft, Medusa heads in the public formats. Strict: every tensor is used and has its shape.

Medusa formats (facts are taken from the tensors, never from a config that may disagree with them):

    v1    {i}.0.linear.weight, {i}.0.linear.bias, …, {i}.{L}.weight     one LM head a head behind L residual blocks
    v2    {i}.0.linear.weight, {i}.0.linear.bias                        the target's LM head, shared
    vLLM  blocks.{i}.layers.{j}.weight, lm_heads.{i}.weight or lm_head.weight (or neither: the target's), token_map

A prefix `medusa_heads.` or `medusa_head.` is allowed, and `token_map` in every format. In a checkpoint of a whole model, where heads with
that prefix stand among the base's own tensors, only the heads are read.
"""

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from specviz.i18n import Fault
from specviz.models.medusa import MedusaHeads
from specviz.models.tensors import Checkpoint, accuracies, card, check, find, nothing_left, take
from specviz.trace import ModelInfo

DRAFT_FILE = "draft.safetensors"
MEDUSA_FILES = (
    "medusa.safetensors", "medusa_lm_head.safetensors", "medusa_lm_head.pt", "model.safetensors", "model.safetensors.index.json",
)  # fmt: skip
PREFIX = re.compile(r"medusa_heads?\.")


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
    path = find(Path(folder), (DRAFT_FILE,))
    file, depth = Checkpoint(path), target.config.num_hidden_layers
    tensors, layers = file.read(file.names), card(path, required=True).get("layers", ())
    if not isinstance(layers, list) or not layers or not all(isinstance(i, int) and 0 <= i < depth for i in layers):
        named = ", ".join(map(str, layers)) if isinstance(layers, list | tuple) else str(layers)
        raise Fault("error.checkpoint_layers", path=path, layers=named[:80], count=depth)
    weight = target.get_output_embeddings().weight
    token_map = _token_map(path, take(path, tensors, "token_map"), target.config.vocab_size, weight.device)
    model = pruned(target, tuple(layers))
    shared = {id(p) for p in target.parameters()}
    own = {name: p for name, p in model.named_parameters() if id(p) not in shared}
    state = {name: take(path, tensors, name, tuple(p.shape)).to(weight.device, weight.dtype) for name, p in own.items()}
    nothing_left(path, tensors)
    model.load_state_dict(state, strict=False, assign=True)
    head = nn.Linear(weight.shape[1], len(token_map), bias=False, device="meta")
    head.weight = nn.Parameter(weight.detach()[token_map])
    model.set_output_embeddings(head)
    return model.requires_grad_(False), token_map


Layers = list[tuple[Tensor, Tensor | None]]  # (weight, bias) of the residual blocks of one head


@dataclass(frozen=True)
class Parts:
    """Medusa heads as a file holds them. `lm_heads` is None where they score with the target's own; one tensor may stand in it often."""

    path: Path
    sha256: str
    blocks: list[Layers]
    lm_heads: list[Tensor] | None
    token_map: Tensor | None


def load_medusa(path: Path, target: nn.Module, padded: int | None = None) -> MedusaHeads:
    """Medusa heads of any public format for `target`, in its dtype and on its device; `path` is a file or its folder.

    `padded` is the number of rows that the target's LM head had before its padding was cut off; that of the heads is cut off as well.
    They are called as the JSON file beside them says, or as their repository, or by folder and file. Raises Fault when the file is none,
    lacks a tensor, has one too many, was made for another width or vocabulary, or holds numbers that are not finite.
    """
    parts = read_medusa(path, target, padded)
    weight = target.get_output_embeddings().weight.detach()
    ids = None if parts.token_map is None else parts.token_map.to(weight.device)
    shared = weight if ids is None else weight[ids].contiguous()
    cast = _Cast(weight)
    blocks = tuple(tuple((cast(w), None if b is None else cast(b)) for w, b in layers) for layers in parts.blocks)
    own = {id(head): head.numel() for head in parts.lm_heads or ()}
    small = sum(t.numel() for layers in blocks for pair in layers for t in pair if t is not None)
    name, place = card(parts.path).get("name"), parts.path.absolute()  # "medusa" alone would say nothing: all are called so
    info = ModelInfo(
        name=name if isinstance(name, str) and name else published_name(place.parent, f"{place.parent.name}/{place.stem}"),
        sha256=parts.sha256,
        parameters=small + sum(own.values()),
        source=parts.path.name,
    )
    return MedusaHeads(
        info=info,
        blocks=blocks,
        lm_heads=tuple(_each_once([cast(head) for head in parts.lm_heads or ()], shared) or [shared] * len(blocks)),
        vocab_size=len(weight),
        token_map=ids,
        accuracies=accuracies(parts.path, len(blocks)),
    )


def _each_once(heads: list[Tensor], shared: Tensor) -> list[Tensor]:
    """The same LM heads, equal ones as one tensor: one product then serves all heads that share it, whatever the layout of the file."""
    known, found = [shared], []
    for head in heads:
        same = (one for one in known if one.shape == head.shape and torch.equal(one[0], head[0]) and torch.equal(one, head))
        found.append(next(same, head))
        known += [head] if found[-1] is head else []
    return found


def published_name(folder: Path, otherwise: str) -> str:
    """The repository's name where `folder` is one commit in the hub's cache (models--owner--name/snapshots/commit)."""
    repo = next((part for part in folder.parts if part.startswith("models--")), "")
    return repo.removeprefix("models--").replace("--", "/") or otherwise


def medusa_file(path: Path) -> Path:
    """The file of Medusa heads that `path` is, or that the folder `path` holds; raises Fault where there is none."""
    return find(Path(path), MEDUSA_FILES)


class _Cast:
    """Tensors in one dtype and on one device, each moved once, so that shared ones stay shared."""

    def __init__(self, like: Tensor):
        self.like = like
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}  # by id; the original is kept, so that its id stays its own

    def __call__(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self.seen:
            self.seen[id(tensor)] = (tensor, tensor.to(self.like.device, self.like.dtype))
        return self.seen[id(tensor)][1]


def read_medusa(path: Path, target: nn.Module, padded: int | None = None) -> Parts:
    """The tensors of Medusa heads as `load_medusa` takes them, in the dtype of the file."""
    path = medusa_file(path)
    file, (rows, width) = Checkpoint(path), target.get_output_embeddings().weight.shape
    named = _head_names(file, target)
    layout = _layout(path, named)
    tensors = dict(zip(named, file.read(named.values()).values(), strict=True))
    found = _Found(path, layout, named, tensors)
    token_map = tensors.pop("token_map", None)
    ids = None if token_map is None else _token_map(path, token_map, rows, token_map.device)
    blocks = found.blocks(width)
    lm_heads = found.lm_heads(len(blocks), len(blocks[0]), rows if ids is None else len(ids), width, padded if ids is None else None)
    if tensors:
        raise Fault("error.checkpoint_key_extra", path=path.name, key=named[next(iter(tensors))][:80])
    return Parts(path, file.sha256(named.values()), blocks, lm_heads, ids)


def _head_names(file: Checkpoint, target: nn.Module) -> dict[str, str]:
    """The names of the heads' tensors in the file, by their names without a prefix; in a whole model only they have one."""
    base = {name.partition(".")[0] for name in target.state_dict()}
    prefixed = [name for name in file.names if PREFIX.match(name)]
    others = [name for name in file.names if not PREFIX.match(name)]
    whole = prefixed and any(name.partition(".")[0] in base - {"lm_head"} for name in others)
    if whole and (foreign := [name for name in others if name.partition(".")[0] not in base]):
        raise Fault("error.checkpoint_key_extra", path=file.path.name, key=foreign[0][:80])
    named: dict[str, str] = {}
    for name in prefixed if whole else file.names:
        if named.setdefault(PREFIX.sub("", name, count=1), name) != name:
            raise Fault("error.checkpoint_key_extra", path=file.path.name, key=name[:80])
    return named


@dataclass(frozen=True)
class Layout:
    """How a format names its tensors; {i} is the head, {j} the block, {l} the number of blocks."""

    block: str
    lm_head: str
    one_lm_head: str | None
    biased: bool


PUBLISHED = Layout("{i}.{j}.linear", "{i}.{l}.weight", None, True)
VLLM = Layout("blocks.{i}.layers.{j}", "lm_heads.{i}.weight", "lm_head.weight", False)


def _layout(path: Path, names: Iterable[str]) -> Layout:
    for layout in (VLLM, PUBLISHED):
        pattern = _pattern(layout)
        if any(pattern.fullmatch(name) for name in names):
            return layout
    raise Fault("error.checkpoint_format", path=path.name, example="0.0.linear.weight")


def _pattern(layout: Layout) -> re.Pattern:
    numbers = re.escape(layout.block).replace(r"\{i\}", r"(\d{1,4})").replace(r"\{j\}", r"(\d{1,4})")
    return re.compile(rf"{numbers}\.(weight|bias)")


class _Found:
    """Tensors of a file in a layout; each is taken out of `tensors` once. `named` says what the file calls them."""

    def __init__(self, path: Path, layout: Layout, named: dict[str, str], tensors: dict[str, Tensor]):
        self.path, self.layout, self.named, self.tensors = path, layout, named, tensors

    def blocks(self, width: int) -> list[Layers]:
        """All residual blocks; there are as many as the largest numbers say."""
        places = [match.groups() for name in self.tensors if (match := _pattern(self.layout).fullmatch(name))]
        count, depth = 1 + max(int(i) for i, _, _ in places), 1 + max(int(j) for _, j, _ in places)
        biased = self.layout.biased or any(kind == "bias" for _, _, kind in places)  # vLLM's blocks may have no bias, the others always do
        return [[self._block(self.layout.block.format(i=i, j=j), width, biased) for j in range(depth)] for i in range(count)]

    def _block(self, name: str, width: int, biased: bool) -> tuple[Tensor, Tensor | None]:
        return self._take(f"{name}.weight", (width, width)), self._take(f"{name}.bias", (width,)) if biased else None

    def lm_heads(self, count: int, depth: int, rows: int, width: int, padded: int | None) -> list[Tensor] | None:
        """The LM head of each head; None where the file has none. Rows behind the vocabulary's last are padding and are cut off."""
        names = [self.layout.lm_head.format(i=i, l=depth) for i in range(count)]
        one = self.layout.one_lm_head
        if one in self.tensors:  # for all that have none of their own
            names = [name if name in self.tensors else one for name in names]
        elif not any(name in self.tensors for name in names):
            return None
        heads: dict[str, Tensor] = {}
        for name in dict.fromkeys(names):
            shape = (padded if padded and name in self.tensors and len(self.tensors[name]) == padded else rows, width)
            heads[name] = self._take(name, shape)[:rows]
        return [heads[name] for name in names]

    def _take(self, key: str, shape: tuple[int, ...]) -> Tensor:
        if key not in self.tensors:
            raise Fault("error.checkpoint_key_missing", path=self.path.name, key=key)
        check(self.path, self.named[key], self.tensors[key], shape)
        return self.tensors.pop(key)


def _token_map(path: Path, ids: Tensor, vocabulary: int, device: torch.device) -> Tensor:
    whole = ids.dim() == 1 and len(ids) > 0 and not ids.is_floating_point() and not ids.is_complex() and ids.dtype != torch.bool
    ids = ids.to(device, torch.long) if whole else ids  # of other whole numbers torch cannot tell the smallest
    if not whole or int(ids.min()) < 0 or int(ids.max()) >= vocabulary or len(ids.unique()) < len(ids):
        raise Fault("error.checkpoint_token_map", path=path.name, vocabulary=vocabulary)
    return ids
