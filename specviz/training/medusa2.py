"""Medusa-2 (Cai et al. 2024, section 2.2.2): heads and backbone are trained together, the backbone through LoRA (Hu et al. 2021).

The heads are warmed up first, with the backbone frozen (that is Medusa-1). Then the loss is

    L = L_LM + λ₀ · Σ_k λ_k · CE_k        λ₀ = 0.2, λ_k = 0.8^k, the heads' learning rate 4 times the backbone's

and L_LM keeps the backbone what it is. On a self-distilled corpus it is KL(teacher‖student), the teacher being the same model with the
adapter switched off, whose states the corpus holds; on a corpus of other people's text it is the cross-entropy of that text. The text of a
self-distilled corpus would be the wrong label: it is one draw of the teacher's distribution, and some of it is drawn at other
temperatures, so the student would drift from the teacher.

KL runs over the whole vocabulary, which is most of a step's cost, so it is taken at a random share of the places.
"""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.files import write_tensors, write_text
from specviz.training import data, medusa
from specviz.training.corpus import Corpus

LMS = ("kl", "ce")
LAMBDA = 0.2  # λ₀
HEADS_FASTER = 4.0  # the heads' learning rate against the backbone's
SOFTER = 0.98  # α is chosen for this share of the KL that is allowed
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Recipe(medusa.Recipe):
    """As Medusa-1, and the adapter: its rank, its scale, how many of the last layers have one; `lm` (of LMS) is the form of L_LM.

    `share` of the places enter L_LM. `peak` is the backbone's learning rate.
    """

    rank: int = 16
    alpha: int = 16
    depth: int = 12
    lm: str | None = None  # None: by the kind of corpus
    share: float = 0.25
    peak: float = 3e-4


def kl(teacher: Float[Tensor, "n V"], student: Float[Tensor, "n V"]) -> Float[Tensor, "n"]:
    """KL(teacher‖student) = Σ_x p(x)·(log p(x) − log s(x)) of each row, from logits, in nats."""
    log_p, log_s = teacher.float().log_softmax(-1), student.float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_s)).sum(-1)


class Medusa2:
    """The task (see `loop.Task`): an adapter on `target` and heads that read its states; `start` is the folder of heads to begin with.

    `target` is wrapped, its weights are frozen.
    """

    def __init__(self, target: torch.nn.Module, corpus: Corpus, recipe: Recipe, start: Path | None = None):
        learned, self.held = data.split(corpus)
        data.refuse_unjudgeable(corpus, self.held, recipe.heads + 1)
        self.corpus, self.recipe, self.target = corpus, recipe, target
        self.full = target.get_output_embeddings().weight.detach()
        self.token_map = data.scored(corpus, learned, recipe.vocabulary, start and start / medusa.FILE)
        self.head = self.full[self.token_map.long().to(self.full.device)].contiguous()
        own = self.head if recipe.untied else None
        self.blocks = medusa.Blocks(recipe.heads, self.full.shape[1], recipe.layers, own, self.full.device)
        if start is not None:
            self.blocks.start_from(start, self.token_map)
        depth = target.config.num_hidden_layers
        chosen = list(range(max(0, depth - recipe.depth), depth))
        config = LoraConfig(
            r=recipe.rank, lora_alpha=recipe.alpha, target_modules=list(PROJECTIONS), layers_to_transform=chosen, lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )  # fmt: skip
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft still calls a property of transformers by its former name
            torch.manual_seed(recipe.seed)  # peft draws A; B is zero, so that the student starts as the teacher
            self.model = get_peft_model(target, config)

    @property
    def alpha(self) -> float:
        """The adapter's scale α: what it adds to a weight is (α/r)·B·A."""
        return self.model.peft_config["default"].lora_alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        """The scale from now on, in the forward pass and in what is saved."""
        self.model.peft_config["default"].lora_alpha = alpha
        for module in self.model.modules():
            if isinstance(module, LoraLayer):
                module.scaling["default"] = alpha / self.recipe.rank

    def release(self) -> None:
        """Take the adapter out of `target` again, which is then what it was."""
        self.model.unload()

    def adapter(self) -> dict[str, Tensor]:
        """The trained tensors of the adapter."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def parameters(self) -> dict[str, Tensor]:
        """See `Task`."""
        return self.adapter() | self.blocks.parameters()

    def groups(self) -> list[tuple[list[Tensor], float]]:
        """See `Task`."""
        return [(list(self.adapter().values()), 1.0), (list(self.blocks.parameters().values()), HEADS_FASTER)]

    def states(self, batch: data.Batch) -> Float[Tensor, "n d"]:
        """The student's last hidden states at the learned places. Padding stands behind a conversation: there causality hides it."""
        core = self.model.get_base_model().model
        return core(input_ids=batch.ids.to(self.full.device), use_cache=False).last_hidden_state.flatten(0, 1)[batch.places]

    def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
        """L_LM and λ₀·λ_k·CE_k."""
        student, teacher = self.states(batch), self.corpus.hidden[batch.rows].to(self.head)
        text = None
        if self.recipe.labels == "text":
            text = medusa.text_labels(self.corpus, batch.rows, self.token_map, len(self.full)).to(self.head.device)
        parts = medusa.losses(self.blocks, student, batch.owner.to(self.head.device), self.head, teacher, text)
        terms = {f"head {k}": (LAMBDA * medusa.DECAY**k, part) for k, part in enumerate(parts, start=1)}
        return {"LM": (1.0, self._lm(batch, student, teacher)), **terms}

    def _lm(self, batch: data.Batch, student: Float[Tensor, "n d"], teacher: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        generator = torch.Generator().manual_seed(self.recipe.seed + 1_000_003 * batch.number)
        chosen = torch.rand(len(student), generator=generator) < self.recipe.share
        chosen[0] = True  # never an empty mean
        if self.recipe.lm == "kl":
            with torch.no_grad():
                wanted = F.linear(teacher[chosen], self.full)
            return kl(wanted, F.linear(student[chosen], self.full)).mean()
        everything = torch.arange(len(self.full))
        labels = medusa.text_labels(self.corpus, batch.rows[chosen], everything, len(self.full)).to(self.full.device)
        return medusa.text_cross_entropy(F.linear(student[chosen], self.full), labels, labels >= 0)

    @torch.inference_mode()
    def held_out(self) -> dict[str, Any]:
        """Rank accuracies on the held-out texts, read from the student, and the student's mean KL from the teacher there."""
        found, states = [], []
        for i in self.held:
            batch = data.batch_of(self.corpus, [i])
            student, teacher = self.states(batch), self.corpus.hidden[batch.rows].to(self.head)
            states.append(student)
            for a, b in zip(teacher.split(256), student.split(256), strict=True):  # 256 rows of 49,152 logits are 50 MB
                found.append(kl(F.linear(a, self.full), F.linear(b, self.full)))
        top = medusa.accuracies(self.corpus, self.held, self.blocks, self.head, self.token_map, torch.cat(states))
        return {"text_accuracies": top, "kl": float(torch.cat(found).mean())}

    def save(self, folder: Path, facts: dict[str, Any]) -> None:
        """adapter_model.safetensors and adapter_config.json (peft's format), medusa.safetensors and medusa.json."""
        config = {**self.model.peft_config["default"].to_dict(), "base_model_name_or_path": None, "inference_mode": True}
        weights = get_peft_model_state_dict(self.model, save_embedding_layers=False)
        write_tensors({name: weight.detach() for name, weight in weights.items()}, folder / WEIGHTS)
        plain = {name: sorted(value) if isinstance(value, set) else value for name, value in config.items()}
        write_text(json.dumps(plain, indent=1, sort_keys=True) + "\n", folder / CONFIG)
        medusa.save(self.blocks, self.token_map, folder, {"recipe": vars(self.recipe), **facts})


def load(target: torch.nn.Module, corpus: Corpus, folder: Path) -> tuple[Medusa2, dict[str, Any]]:
    """What was trained in `folder`, around `target`, as a task, and what is known of it; raises Fault where there is none."""
    if missing := [name for name in (medusa.FILE, "medusa.json", WEIGHTS) if not (folder / name).is_file()]:
        raise Fault("error.checkpoint_missing", path=folder, wanted=missing[0])
    facts = json.loads((folder / "medusa.json").read_text(encoding="utf-8"))
    known = {field.name for field in fields(Recipe)}
    task = Medusa2(target, corpus, Recipe(**{name: value for name, value in facts["recipe"].items() if name in known}), folder)
    set_peft_model_state_dict(task.model, load_file(folder / WEIGHTS))
    task.alpha = facts.get("softened", facts["recipe"])["alpha"]
    return task, facts


def soften(task: Medusa2, most: float, tried: Callable[[float, float], None] = lambda alpha, kl: None) -> dict[str, Any]:
    """Lower the adapter's α until the held-out KL(teacher‖student) is at most `most` nats; returns the held-out figures there.

    KL grows with the square of a small change of the weights (its first derivative is 0 where student and teacher are one), on top of a
    floor: the corpus holds the teacher's states in bf16. The α for which floor + c·α² lies a little under `most` is tried next. A
    measurement takes minutes, so the floor is taken for 0 until a try has missed. `tried` is told every α with its KL. Raises Fault
    where the floor is not below `most`.
    """
    floor, missed = 0.0, 0
    while True:
        found = task.held_out()
        tried(task.alpha, found["kl"])
        if found["kl"] <= most:
            return found
        missed += 1
        if missed == 2:
            floor = _floor(task, most, tried)
        task.alpha *= math.sqrt(SOFTER * (most - floor) / (found["kl"] - floor))


def _floor(task: Medusa2, most: float, tried: Callable[[float, float], None]) -> float:
    """The held-out KL with the adapter switched off; raises Fault where that is not below `most`: no α could be enough."""
    alpha, task.alpha = task.alpha, 0.0
    floor = task.held_out()["kl"]
    tried(task.alpha, floor)
    if not floor < most:  # nor is a NaN
        raise Fault("training.kl_floor", most=f"{most:.3g}", floor=f"{floor:.3g}")
    task.alpha = alpha
    return floor
