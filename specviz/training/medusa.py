"""Medusa-1 heads (Cai et al. 2024) on stored hidden states: the target stays as it is and never runs.

Head k (1-based) at token t predicts token t+k+1 as softmax(E·(h_t + SiLU(W₁·h_t + b))), E being the target's own LM head. W₁ and b
start at zero, so that at first every head is the LM head (the paper zeroes W₁; a random bias would spoil the equality).

The loss is Σ_k 0.8^k · CE_k with soft labels: CE_k is taken against the target's whole distribution at its place, softmax(E·h_{t+k}),
of which the token that the corpus holds is one draw. The expected gradient is the same and its variance lower. Heads and
labels are restricted to the tokens of `token_map`, the most frequent of the corpus, and renormalised there.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from safetensors.torch import save_file
from torch import Tensor

from specviz.models.medusa import residual
from specviz.training import calibrate, data
from specviz.training.corpus import Corpus

DECAY = 0.8  # λ_k = 0.8^k, as published


@dataclass(frozen=True)
class Recipe:
    """How heads are trained. `batch` counts tokens; `vocabulary` is the number of tokens the heads score."""

    heads: int = 4
    vocabulary: int = 4096
    epochs: int = 1
    batch: int = 1024
    peak: float = 2e-3
    warmup: int = 40
    seed: int = 0


class Blocks:
    """The trained part of all heads: W₁ [k, d, d] and b [k, d], fp32, zero at first."""

    def __init__(self, heads: int, width: int):
        self.weight = torch.zeros(heads, width, width, requires_grad=True)
        self.bias = torch.zeros(heads, width, requires_grad=True)

    def states(self, head: int, hidden: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """What head number `head` (0-based) hands to the LM head."""
        return residual(hidden, self.weight[head].to(hidden.dtype), self.bias[head].to(hidden.dtype))

    def state(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The weights under the names of the second Medusa format (the LM head is the target's)."""
        named = {}
        for i in range(len(self.weight)):
            named[f"{i}.0.linear.weight"] = self.weight[i].detach().to(dtype).contiguous()
            named[f"{i}.0.linear.bias"] = self.bias[i].detach().to(dtype).contiguous()
        return named


def soft_cross_entropy(
    states: Float[Tensor, "n d"], labels: Float[Tensor, "n v"], counted: Bool[Tensor, "n"], head: Float[Tensor, "v d"]
) -> Float[Tensor, ""]:
    """Mean over the counted rows of −Σ_x labels(x) · log softmax(head·state)(x)."""
    rows = -(labels * F.linear(states, head).float().log_softmax(-1)).sum(-1)
    return (rows * counted).sum() / counted.sum().clamp(min=1)


def positions(corpus: Corpus, conversations: list[int], first: int) -> tuple[Tensor, Tensor]:
    """Corpus rows of these conversations from the last token of the fixed prefix on, and the conversation (by number) of each."""
    spans = [corpus.conversation(i) for i in conversations]
    rows = [torch.arange(span.start + first, span.stop) for span in spans]
    return torch.cat(rows), torch.cat([torch.full((len(row),), number) for number, row in enumerate(rows)])


def losses(
    blocks: Blocks,
    hidden: Float[Tensor, "n d"],
    owner: Int[Tensor, "n"],
    head: Float[Tensor, "v d"],
    loss: Callable[..., Tensor] = soft_cross_entropy,
) -> list[Tensor]:
    """CE_k of every head over a batch of concatenated conversations; a pair of rows from two conversations does not count."""
    with torch.no_grad():
        labels = F.linear(hidden, head).float().softmax(-1).to(hidden.dtype)
    found = []
    for k in range(1, len(blocks.weight) + 1):
        states = blocks.states(k - 1, hidden[:-k])  # h_t, to be compared with softmax(E·h_{t+k}), the distribution of token t+k+1
        found.append(loss(states, labels[k:], owner[:-k] == owner[k:], head))
    return found


def train(
    head: Float[Tensor, "V d"], corpus: Corpus, recipe: Recipe, report: data.Report = print, compiled: bool = False, every: int = 200
) -> Iterator[tuple[Blocks, Tensor, dict[str, object]]]:
    """Train heads for the LM head `head`; every `every` steps and at the end yields them, their token map and held-out figures."""
    generator = torch.Generator().manual_seed(recipe.seed)
    learned, held = data.split(corpus)
    first, token_map = data.first_learned(corpus), data.frequent_tokens(corpus, learned, recipe.vocabulary)
    small, blocks, clock = head[token_map.long()].contiguous(), Blocks(recipe.heads, head.shape[1]), data.Clock()
    loss_of = torch.compile(soft_cross_entropy, dynamic=True) if compiled else soft_cross_entropy
    optimizer = torch.optim.AdamW([blocks.weight, blocks.bias], betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    plan = [batch for _ in range(recipe.epochs) for batch in data.batches(corpus, learned, recipe.batch, generator)]
    seen = 0
    for step, batch in enumerate(plan):
        rows, owner = positions(corpus, batch, first)
        parts = losses(blocks, corpus.hidden[rows], owner, small, loss_of)
        sum(DECAY**k * part for k, part in enumerate(parts, start=1)).backward()
        for group in optimizer.param_groups:
            group["lr"] = data.learning_rate(step, len(plan), recipe.peak, recipe.warmup)
        optimizer.step()
        optimizer.zero_grad()
        seen, last = seen + len(rows), step + 1 == len(plan)
        if (step + 1) % 20 == 0 or last:
            shown = " ".join(f"{float(part.detach()):.3f}" for part in parts)
            report(f"{clock}  step {step + 1}/{len(plan)}  CE {shown}  {seen / clock.seconds:.0f} tokens/s")
        if (step + 1) % every == 0 or last:
            top = held_out_accuracies(blocks, corpus, held, small, token_map)
            report("held out, top 1 / 2 / 5 of each head: " + "  ".join(f"{sum(r[:1]):.3f}/{sum(r[:2]):.3f}/{sum(r[:5]):.3f}" for r in top))
            yield blocks, token_map, {"step": step + 1, "seconds": round(clock.seconds), "text_accuracies": top}


@torch.inference_mode()
def held_out_accuracies(
    blocks: Blocks, corpus: Corpus, held: list[int], small: Float[Tensor, "v d"], token_map: Int[Tensor, "v"]
) -> list[list[float]]:
    """accuracies[head][rank] against the text of the held-out conversations, as the corpus holds it."""
    first = data.first_learned(corpus)
    spans = [(corpus.conversation(i).start + first, corpus.conversation(i).stop) for i in held]

    def best(head: int, hidden: Tensor, ranks: int) -> Tensor:
        return token_map[F.linear(blocks.states(head, hidden), small).topk(ranks, dim=-1).indices]

    return calibrate.rank_accuracies(best, len(blocks.weight), corpus.tokens, corpus.hidden, spans, min(calibrate.RANKS, len(token_map)))


def save(blocks: Blocks, token_map: Int[Tensor, "v"], out: Path, facts: dict[str, object], dtype: torch.dtype = torch.bfloat16) -> None:
    """Write medusa.safetensors (second Medusa format and a token map) and medusa.json into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / "medusa.safetensors.part"
    save_file({**blocks.state(dtype), "token_map": token_map}, part)
    part.replace(out / "medusa.safetensors")
    heads, width = blocks.bias.shape
    config = {"version": "2", "medusa_num_heads": heads, "medusa_num_layers": 1, "hidden_size": width}
    config |= {"truncated_vocab_size": len(token_map)}
    (out / "medusa.json").write_text(json.dumps({**config, **facts}, indent=1) + "\n", encoding="utf-8")


def make(
    corpus: Path, out: Path, target: torch.nn.Module, recipe: Recipe = Recipe(), report: data.Report = print, compiled: bool = True
) -> None:
    """Train heads for `target` on the corpus file and write them to the folder `out`, every 200 steps and at the end; then calibrate."""
    data.prepare(compiled)
    texts, head = Corpus.load(corpus), target.get_output_embeddings().weight.detach()
    for blocks, token_map, figures in train(head, texts, recipe, report, compiled):
        save(blocks, token_map, out, data.facts_of(texts, asdict(recipe), figures))
    calibrate.make(corpus, out, target, report)
