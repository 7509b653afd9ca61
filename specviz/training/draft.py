"""A draft made out of its target: a few of the target's layers, kept and retrained to say what the whole stack says.

The student has the target's embeddings and LM head (shared, frozen), a few of its layers and a final norm of its own; only layers and
norm are trained and stored. The loss is KL(p‖q) of each position, where p = softmax(E·h) comes from the stored hidden states of the
corpus, so the target never runs. Acceptance under rejection sampling is Σ min(p, q) = 1 − TV(p, q), which KL bounds (Pinsker); a
distilled draft is that of Zhou et al. 2024 (DistillSpec).

The student scores only the tokens of `token_map` (the most frequent of the corpus); q is 0 elsewhere, which rejection sampling corrects
exactly. Over such a q, KL(p‖q) is smallest where q is p renormalised to those tokens, so that is the teacher here.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Tensor

from specviz.i18n import Fault
from specviz.models.files import write_tensors, write_text
from specviz.training import data
from specviz.training.corpus import Corpus
from specviz.training.loop import Schedule

WEIGHTS = (
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip
FILE = "draft.safetensors"
WRITERS = ("self_attn.o_proj", "mlp.down_proj")  # what a layer adds to the stream goes through these


@dataclass(frozen=True)
class Recipe(Schedule):
    """How a draft is trained: which of the target's `layers` it keeps, how many tokens (`vocabulary`) it scores."""

    layers: tuple[int, ...] = (0, 1, 2, 29)
    vocabulary: int = 8192
    peak: float = 1e-3
    decay: float = 0.01


class Student:
    """The pruned Llama in the plainest form that trains: fp32 weights, a pass in the target's dtype over a batch of conversations.

    Raises Fault where the layers of `target` have other weights than a Llama's: it would be another model without them.
    """

    def __init__(self, target: torch.nn.Module, layers: tuple[int, ...]):
        config, core = target.config, target.base_model
        found = {name for name, _ in core.layers[0].named_parameters()} if hasattr(core, "layers") else set()
        if odd := found ^ {f"{name}.weight" for name in WEIGHTS}:
            raise Fault("training.not_a_llama", name=min(odd), kind=config.model_type)
        self.source = layers
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.eps = config.rms_norm_eps
        self.embedding = core.embed_tokens.weight.detach()
        weights = [[core.layers[i].get_parameter(f"{name}.weight") for name in WEIGHTS] for i in layers]
        self.layers = [[w.detach().float().clone().requires_grad_() for w in layer] for layer in weights]
        self.norm = core.norm.weight.detach().float().clone().requires_grad_()
        self.rotary = core.rotary_emb

    def parameters(self) -> dict[str, Tensor]:
        """All trained weights, fp32, as a transformers Llama of this depth names them."""
        named = {"model.norm.weight": self.norm}
        for i, layer in enumerate(self.layers):
            named |= {f"model.layers.{i}.{name}.weight": weight for name, weight in zip(WEIGHTS, layer, strict=True)}
        return named

    def state(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The same, detached, in `dtype`."""
        return {name: weight.detach().to(dtype) for name, weight in self.parameters().items()}

    @torch.no_grad()
    def start_from(self, folder: Path) -> None:
        """Begin with a trained draft of the same target: its layers, and between them the target's own, which at first add nothing.

        Raises Fault where `folder` holds no draft, or one of another width.
        """
        path, card = folder / FILE, folder / "draft.json"
        if missing := [file.name for file in (path, card) if not file.is_file()]:
            raise Fault("error.checkpoint_missing", path=folder, wanted=missing[0])
        tensors, trained = load_file(path), json.loads(card.read_text(encoding="utf-8"))["layers"]
        for i, source in enumerate(self.source):
            for name, weight in zip(WEIGHTS, self.layers[i], strict=True):
                if source in trained:
                    key = f"model.layers.{trained.index(source)}.{name}.weight"
                    weight.copy_(data.fitting(tensors[key], weight, key, path))
                elif name in WRITERS:
                    weight.zero_()
        self.norm.copy_(data.fitting(tensors["model.norm.weight"], self.norm, "model.norm.weight", path))

    def hidden(self, ids: Int[Tensor, "b l"]) -> Float[Tensor, "b l d"]:
        """The last hidden state after the final norm. Padding belongs behind a conversation: there causality hides it."""
        x = F.embedding(ids, self.embedding)
        cos, sin = self.rotary(x, torch.arange(ids.shape[1], device=x.device)[None])
        for layer in self.layers:
            x = self._layer(x, cos, sin, *(w.to(x.dtype) for w in layer))
        return self._rms(x, self.norm.to(x.dtype))

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * weight

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def _layer(self, x: Tensor, cos: Tensor, sin: Tensor, *weights: Tensor) -> Tensor:
        norm1, q, k, v, out, norm2, gate, up, down = weights
        h, group = self._rms(x, norm1), self.heads // self.kv_heads
        queries = _rotate(self._split(F.linear(h, q), self.heads), cos, sin)
        keys = _rotate(self._split(F.linear(h, k), self.kv_heads), cos, sin).repeat_interleave(group, 1)
        values = self._split(F.linear(h, v), self.kv_heads).repeat_interleave(group, 1)
        attended = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + F.linear(attended.transpose(1, 2).reshape(x.shape), out)
        h = self._rms(x, norm2)
        return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def kl_loss(student: Float[Tensor, "n d"], target: Float[Tensor, "n d"], head: Float[Tensor, "v d"]) -> Float[Tensor, ""]:
    """Mean KL(p‖q) in nats over the tokens that `head` scores, p and q both from hidden states (no gradient to p)."""
    log_q = F.linear(student, head).float().log_softmax(-1)
    with torch.no_grad():
        log_p = F.linear(target, head).float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


class Draft:
    """The task (see `loop.Task`): a student of `target` on the corpus; `start` is the folder of a draft to begin with."""

    def __init__(self, target: torch.nn.Module, corpus: Corpus, recipe: Recipe, start: Path | None = None):
        learned, self.held = data.split(corpus)
        data.refuse_unjudgeable(corpus, self.held)
        self.corpus, self.recipe = corpus, recipe
        self.full = target.get_output_embeddings().weight.detach()
        self.token_map = data.scored(corpus, learned, recipe.vocabulary, start and start / FILE)
        self.head = self.full[self.token_map.long().to(self.full.device)].contiguous()
        self.student = Student(target, recipe.layers)
        if start is not None:
            self.student.start_from(start)

    def parameters(self) -> dict[str, Tensor]:
        """See `Task`."""
        return self.student.parameters()

    def groups(self) -> list[tuple[list[Tensor], float]]:
        """See `Task`."""
        return [(list(self.parameters().values()), 1.0)]

    def losses(self, batch: data.Batch) -> dict[str, tuple[float, Tensor]]:
        """KL(p‖q)."""
        return {"KL": (1.0, kl_loss(self._states(batch), self.corpus.hidden[batch.rows].to(self.head), self.head))}

    def _states(self, batch: data.Batch) -> Float[Tensor, "n d"]:
        return self.student.hidden(batch.ids.to(self.full.device)).flatten(0, 1)[batch.places]

    @torch.inference_mode()
    def held_out(self) -> dict[str, Any]:
        """Over the learned places of the held-out conversations: Σ min(p, q), argmax q = argmax p, Σ p over the scored tokens."""
        found = []
        for i in self.held:
            batch = data.batch_of(self.corpus, [i])
            q = F.linear(self._states(batch), self.head).float().softmax(-1)
            p, best = data.target_entries(self.corpus.hidden[batch.rows].to(self.head), self.full, self.token_map)
            agree = self.token_map[q.argmax(-1).cpu()] == best.cpu()
            found.append(torch.stack([torch.minimum(p, q).sum(-1).cpu(), agree.float(), p.sum(-1).cpu()], dim=1))
        mean = torch.cat(found).mean(0).tolist()
        return dict(zip(("overlap", "agreement", "covered"), mean, strict=True))

    def save(self, folder: Path, facts: dict[str, Any], dtype: torch.dtype = torch.bfloat16) -> None:
        """draft.safetensors (weights in `dtype`) and draft.json (layers and `facts`)."""
        write_tensors({**self.student.state(dtype), "token_map": self.token_map}, folder / FILE)
        known = {"format": 1, "layers": list(self.recipe.layers), "vocabulary": len(self.token_map), "recipe": vars(self.recipe)}
        write_text(json.dumps({**known, **facts}, indent=1) + "\n", folder / "draft.json")
