"""A draft made out of its target: a few of the target's layers, kept and retrained to say what the whole stack says.

The student has the target's embeddings and LM head (shared, frozen), a few of its layers and a final norm of its own; only layers and
norm are trained and stored. The loss is KL(p‖q) of each position, where p = softmax(E·h) comes from the stored hidden states of the
corpus, so the target never runs. Acceptance under rejection sampling is Σ min(p, q) = 1 − TV(p, q), which KL bounds (Pinsker); a
distilled draft is that of Zhou et al. 2024 (DistillSpec).

The student scores only the tokens of `token_map` (the most frequent of the corpus); q is 0 elsewhere, which rejection sampling corrects
exactly. Over such a q, KL(p‖q) is smallest where q is p renormalised to those tokens, so that is the teacher here.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import save_file
from torch import Tensor

from specviz.training import data
from specviz.training.corpus import Corpus

WEIGHTS = (
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How a draft is trained. `batch` counts tokens after padding; `vocabulary` is the number of tokens it scores."""

    layers: tuple[int, ...] = (0, 1, 2, 29)
    vocabulary: int = 8192
    epochs: int = 4
    batch: int = 2048
    peak: float = 1e-3
    warmup: int = 100
    seed: int = 0


class Student:
    """The pruned Llama in the plainest form that trains: fp32 weights, a bf16 pass over a batch of conversations."""

    def __init__(self, target: torch.nn.Module, layers: tuple[int, ...], compiled: bool = False):
        config, core = target.config, target.model
        self.source = layers
        self.heads, self.kv_heads, self.head_dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.eps = config.rms_norm_eps
        self.embedding = core.embed_tokens.weight.detach()
        weights = [[core.layers[i].get_parameter(f"{name}.weight") for name in WEIGHTS] for i in layers]
        self.layers = [[w.detach().float().clone().requires_grad_() for w in layer] for layer in weights]
        self.norm = core.norm.weight.detach().float().clone().requires_grad_()
        cos, sin = core.rotary_emb(self.embedding[:1, None], torch.arange(min(2048, config.max_position_embeddings))[None])
        self.cos, self.sin = cos[0], sin[0]
        self.run_layer = torch.compile(self._layer, dynamic=True) if compiled else self._layer

    def parameters(self) -> list[Tensor]:
        """All trained weights, fp32."""
        return [w for layer in self.layers for w in layer] + [self.norm]

    def state(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The weights as a transformers Llama of this depth names them."""
        named = {"model.norm.weight": self.norm}
        for i, layer in enumerate(self.layers):
            named |= {f"model.layers.{i}.{name}.weight": weight for name, weight in zip(WEIGHTS, layer, strict=True)}
        return {name: weight.detach().to(dtype) for name, weight in named.items()}

    def hidden(self, ids: Int[Tensor, "b l"]) -> Float[Tensor, "b l d"]:
        """The last hidden state after the final norm. Padding belongs behind a conversation: there causality hides it."""
        x = F.embedding(ids, self.embedding)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            x = self.run_layer(x, cos, sin, *(w.to(x.dtype) for w in layer))
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


def padded(corpus: Corpus, conversations: list[int], first: int) -> tuple[Int[Tensor, "b l"], Tensor, Tensor]:
    """A batch: token ids padded behind; the flat positions that are learned; and the corpus rows with their teachers.

    The last token of the fixed prefix is learned too, since it predicts the user's first word.
    """
    spans = [corpus.conversation(i) for i in conversations]
    width = max(span.stop - span.start for span in spans)
    ids = torch.zeros(len(spans), width, dtype=torch.long)
    for b, span in enumerate(spans):
        ids[b, : span.stop - span.start] = corpus.tokens[span]
    rows = [torch.arange(span.start + first, span.stop) for span in spans]
    places = [row - span.start + b * width for b, (row, span) in enumerate(zip(rows, spans, strict=True))]
    return ids, torch.cat(places), torch.cat(rows)


@torch.inference_mode()
def overlap(student: Student, corpus: Corpus, conversations: list[int], head: Tensor, token_map: Tensor) -> dict[str, float]:
    """Held-out Σ min(p, q) at temperature 1, the share of positions where both argmaxes agree, and p's mass on the scored tokens."""
    first, small, found = data.first_learned(corpus), head[token_map.long()], []
    for i in conversations:
        ids, places, rows = padded(corpus, [i], first)
        q = F.linear(student.hidden(ids).flatten(0, 1)[places], small).float().softmax(-1)
        p, best = data.target_entries(corpus.hidden[rows], head, token_map)
        agree = token_map[q.argmax(-1)] == best
        found.append(torch.stack([torch.minimum(p, q).sum(-1), agree.float(), p.sum(-1)], dim=1))
    mean = torch.cat(found).mean(0).tolist()
    return dict(zip(("overlap", "agreement", "covered"), mean, strict=True))


def train(
    target: torch.nn.Module, corpus: Corpus, recipe: Recipe, report: data.Report = print, compiled: bool = False, every: int = 100
) -> Iterator[tuple[Student, Tensor, dict[str, float]]]:
    """Train a draft; every `every` steps and at the end yields the student, its token map and its held-out figures."""
    generator = torch.Generator().manual_seed(recipe.seed)
    learned, held = data.split(corpus)
    first, head = data.first_learned(corpus), target.get_output_embeddings().weight.detach()
    token_map = data.frequent_tokens(corpus, learned, recipe.vocabulary)
    small, student, clock = head[token_map.long()].contiguous(), Student(target, recipe.layers, compiled), data.Clock()
    loss_of = torch.compile(kl_loss, dynamic=True) if compiled else kl_loss
    weights = student.parameters()
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    plan = [batch for _ in range(recipe.epochs) for batch in data.batches(corpus, learned, recipe.batch, generator)]
    losses: list[float] = []
    seen = 0
    for step, batch in enumerate(plan):
        ids, places, rows = padded(corpus, batch, first)
        loss = loss_of(student.hidden(ids).flatten(0, 1)[places], corpus.hidden[rows], small)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = data.learning_rate(step, len(plan), recipe.peak, recipe.warmup)
        optimizer.step()
        optimizer.zero_grad()
        seen, losses = seen + len(rows), [*losses[-49:], float(loss.detach())]
        last = step + 1 == len(plan)
        if (step + 1) % 20 == 0 or last:
            report(f"{clock}  step {step + 1}/{len(plan)}  KL {sum(losses) / len(losses):.3f}  {seen / clock.seconds:.0f} tokens/s")
        if (step + 1) % every == 0 or last:
            figures = {"step": step + 1, "seconds": round(clock.seconds), **overlap(student, corpus, held, head, token_map)}
            report("held out: " + "  ".join(f"{key} {value:.4g}" for key, value in figures.items()))
            yield student, token_map, figures


def save(student: Student, token_map: Int[Tensor, "v"], out: Path, facts: dict[str, object], dtype: torch.dtype = torch.bfloat16) -> None:
    """Write draft.safetensors (weights in `dtype`) and draft.json (layers and `facts`) into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / "draft.safetensors.part"
    save_file({**student.state(dtype), "token_map": token_map}, part)
    part.replace(out / "draft.safetensors")
    text = json.dumps({"format": 1, "layers": list(student.source), "vocabulary": len(token_map), **facts}, indent=1)
    (out / "draft.json").write_text(text + "\n", encoding="utf-8")


def make(
    corpus: Path, out: Path, target: torch.nn.Module, recipe: Recipe = Recipe(), report: data.Report = print, compiled: bool = True
) -> None:
    """Train a draft of `target` on the corpus file and write it to the folder `out`, after every hundredth step and at the end."""
    data.prepare(compiled)
    texts = Corpus.load(corpus)
    for student, token_map, figures in train(target, texts, recipe, report, compiled):
        save(student, token_map, out, data.facts_of(texts, asdict(recipe), figures))
