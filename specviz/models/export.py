"""Medusa heads written in the formats of other programs, so that heads trained here run there.

    v1     medusa_lm_head.safetensors and .pt, config.json    TGI reads the first, the Medusa repository the second
    v2     medusa_lm_head.safetensors, config.json            TGI; heads of one residual block
    vllm   model.safetensors, config.json                     vLLM; the only one that can score a part of the vocabulary

The Medusa repository makes its residual blocks as one, repeated: it would load deeper heads without a word and let the last block of each
stand for all of them. So medusa_lm_head.pt is only written where the blocks of a head are the same.

Numbers are written as they are, so that heads read back give the same logits. Measured accuracies go along in a JSON file beside the
weights, which only this program reads.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.checkpoints import Parts
from specviz.models.files import write_tensors, write_text
from specviz.models.tensors import card

Format = Literal["v1", "v2", "vllm"]
FORMATS: tuple[str, ...] = get_args(Format)
SAFETENSORS, PICKLE = "medusa_lm_head.safetensors", "medusa_lm_head.pt"


@dataclass(frozen=True)
class Export:
    """Heads on their way into another format. `lm_head` is the target's, `base` the name under which others know the target.

    `every` lets heads that score a part of the vocabulary with the target's LM head score all of it: other numbers than they were trained
    with, but the formats v1 and v2 know nothing else.
    """

    parts: Parts
    lm_head: Float[Tensor, "V d"]
    base: str
    every: bool = False

    def write(self, form: str, folder: Path) -> list[Path]:
        """Write the heads to `folder`; returns the files. Raises Fault where the format cannot hold them or nothing can be written."""
        if form not in FORMATS:
            raise Fault("error.unknown_choice", name="format", value=form[:40], choices=", ".join(FORMATS))
        if form != "vllm":
            self._refuse(form)
        tensors, config = {"v1": self._v1, "v2": self._v2, "vllm": self._vllm}[form]()
        weights = [folder / ("model.safetensors" if form == "vllm" else SAFETENSORS)] + [folder / PICKLE] * (form == "v1" and self.repeats)
        kept = ("name",) if self.every else ("name", "accuracies")  # they were measured on the part of the vocabulary
        beside = {name: value for name, value in card(self.parts.path).items() if name in kept}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in weights:
                write_tensors(tensors, path)
            files = {"config.json": config} | ({weights[0].with_suffix(".json").name: beside} if beside else {})
            for name, facts in files.items():
                write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", folder / name)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise Fault("cli.unwritable", path=folder, reason=str(error).splitlines()[0][:160]) from error
        return [*weights, *(folder / name for name in files)]

    @property
    def repeats(self) -> bool:
        """Whether each head has one residual block, or several that are the same."""
        return all(_same(layer, layers[0]) for layers in self.parts.blocks for layer in layers)

    def _refuse(self, form: str) -> None:
        """Formats v1 and v2 score the whole vocabulary, v2 with the target's LM head alone behind one block."""
        own, ids = self.parts.lm_heads is not None, self.parts.token_map
        sizes = {"form": form, "size": 0 if ids is None else len(ids), "vocabulary": len(self.lm_head)}
        if ids is not None and own:
            raise Fault("export.no_rows", **sizes)
        if ids is not None and not self.every:
            raise Fault("export.token_map", **sizes)
        if own and form == "v2":
            raise Fault("export.untied")
        if form == "v2" and len(self.parts.blocks[0]) > 1:
            raise Fault("export.blocks", blocks=len(self.parts.blocks[0]))

    def _v1(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        tensors, config = self._v2()
        depth = len(self.parts.blocks[0])
        tensors |= {f"{i}.{depth}.weight": head.clone() for i, head in enumerate(self._heads())}  # one storage each, as a pickle keeps them
        return tensors, {name: value for name, value in config.items() if name != "version"}

    def _v2(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        tensors = self._blocks("{i}.{j}.linear", biased=True)
        rows, width = self.lm_head.shape
        numbers = {"medusa_num_heads": len(self.parts.blocks), "medusa_num_layers": len(self.parts.blocks[0])}
        return tensors, {"version": "2", **numbers, "base_model_name_or_path": self.base, "hidden_size": width, "vocab_size": rows}

    def _vllm(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """vLLM takes every key with "num" and "heads" or "layers" in it for the same two numbers, so there is one of each."""
        parts, biased = self.parts, self.parts.blocks[0][0][1] is not None
        tensors, heads = self._blocks("blocks.{i}.layers.{j}", biased), self._heads()
        one = all(head is heads[0] for head in heads)
        tensors |= {"lm_head.weight": heads[0]} if one else {f"lm_heads.{i}.weight": head.clone() for i, head in enumerate(heads)}
        tensors |= {} if parts.token_map is None or self.every else {"token_map": parts.token_map}
        rows, width = self.lm_head.shape
        config = {"model_type": "medusa", "architectures": ["MedusaModel"], "num_heads": len(parts.blocks)}
        config |= {"num_hidden_layers": len(parts.blocks[0]), "hidden_size": width, "vocab_size": rows}
        return tensors, config | {"truncated_vocab_size": len(heads[0]), "medusa_fc_bias": biased, "original_lm_head": one}

    def _blocks(self, name: str, biased: bool) -> dict[str, Tensor]:
        """The residual blocks; a bias that there is not is 0 where the format has one always."""
        tensors: dict[str, Tensor] = {}
        for i, layers in enumerate(self.parts.blocks):
            for j, (weight, bias) in enumerate(layers):
                tensors[f"{name.format(i=i, j=j)}.weight"] = weight
                if biased:
                    tensors[f"{name.format(i=i, j=j)}.bias"] = weight.new_zeros(len(weight)) if bias is None else bias
        return tensors

    def _heads(self) -> list[Tensor]:
        """The LM head of each head; the target's own is written in the dtype of the blocks where that loses nothing."""
        if self.parts.lm_heads is not None:
            return self.parts.lm_heads
        ids = None if self.every else self.parts.token_map
        head = self.lm_head.detach().cpu() if ids is None else self.lm_head.detach().cpu()[ids]
        narrow = head.to(self.parts.blocks[0][0][0].dtype)
        return [narrow if torch.equal(narrow.to(head.dtype), head) else head] * len(self.parts.blocks)


def _same(one: tuple[Tensor, Tensor | None], other: tuple[Tensor, Tensor | None]) -> bool:
    """Whether two blocks have the same weights; no bias is one of 0."""
    biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in (one, other)]
    return torch.equal(one[0], other[0]) and torch.equal(*biases)
