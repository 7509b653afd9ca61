"""How often the rank-th candidate of every Medusa head is right, measured: what the calibrated sparse tree is built from.

The heads are judged by the target's own greedy answers to the held-out user turns of the corpus: at temperature 0, and under the greedy
rule, a candidate is accepted exactly where it is the target's next argmax.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.models.checkpoints import load_medusa, medusa_file
from specviz.training.batched import LockstepDecoder
from specviz.training.corpus import Corpus
from specviz.training.data import Report, split

RANKS = 10
ANSWER = 128  # tokens of each greedy answer
Best = Callable[[int, Tensor, int], Tensor]  # (head, hidden [n, d], ranks) → the head's most probable token ids [n, ranks]


def rank_accuracies(
    best: Best, heads: int, tokens: Int[Tensor, "n"], hidden: Float[Tensor, "n d"], spans: Sequence[tuple[int, int]], ranks: int = RANKS
) -> list[list[float]]:
    """accuracies[head][rank]: the share of positions t of the spans where candidate `rank` of head k is token t+k+1 of the same span.

    `spans` are (start, stop) rows of one text each; k counts from 1, so that the LM head would be k = 0.
    """
    found = []
    for k in range(1, heads + 1):
        hits, count = torch.zeros(ranks), 0
        for start, stop in spans:
            at = torch.arange(start, max(start, stop - k - 1))
            if len(at):
                hits += (best(k - 1, hidden[at], ranks) == tokens[at + k + 1][:, None]).sum(0)
                count += len(at)
        found.append([round(hit / max(1, count), 5) for hit in hits.tolist()])
    return found


@torch.inference_mode()
def greedy_answers(target: torch.nn.Module, prompts: Sequence[list[int]], length: int, eos: int) -> Corpus:
    """The target's greedy answers of at most `length` tokens, EOS included, all prompts in lockstep; hidden states beside every token."""
    texts = [list(prompt) for prompt in prompts]
    ends = [len(prompt) + length for prompt in prompts]
    decoder = LockstepDecoder(target, len(texts), max(ends))
    hidden = torch.zeros(len(texts), max(ends), target.config.hidden_size, dtype=decoder.embedding.dtype)
    for at in range(max(ends)):
        fed = torch.tensor([text[at] if at < len(text) else eos for text in texts])  # a finished row is fed on, and nothing is kept
        hidden[:, at] = decoder.step(fed, torch.full((len(texts),), at))
        growing = [b for b, text in enumerate(texts) if len(text) == at + 1 < ends[b] and (at < len(prompts[b]) or text[-1] != eos)]
        for b, token in zip(growing, decoder.logits(hidden[growing, at]).argmax(-1).tolist(), strict=True):
            texts[b].append(token)
    sizes = torch.tensor([0] + [len(text) for text in texts])
    return Corpus(
        tokens=torch.cat([torch.tensor(text, dtype=torch.int32) for text in texts]),
        hidden=torch.cat([row[: len(text)] for row, text in zip(hidden, texts, strict=True)]),
        starts=sizes.cumsum(0)[:-1],
        answers=torch.tensor([len(prompt) for prompt in prompts]),
    )


def held_out_prompts(corpus: Corpus) -> list[list[int]]:
    """The token ids of the held-out conversations up to where the answer begins."""
    starts = [(int(corpus.starts[i]), int(corpus.answers[i])) for i in split(corpus)[1]]
    return [corpus.tokens[start : start + answer].tolist() for start, answer in starts]


def make(corpus: Path, folder: Path, target: torch.nn.Module, report: Report = print) -> None:
    """Measure the heads of `folder` on `target`'s greedy answers and write `accuracies` into the JSON file beside them."""
    heads = load_medusa(folder, target)
    prompts = held_out_prompts(Corpus.load(corpus))
    eos = target.config.eos_token_id
    answers = greedy_answers(target, prompts, ANSWER, eos[0] if isinstance(eos, list) else eos)
    spans = [(answers.conversation(i).start + int(answers.answers[i]) - 1, answers.conversation(i).stop) for i in range(len(answers))]

    def best(head: int, hidden: Tensor, ranks: int) -> Tensor:
        return heads.logits(hidden)[head].topk(ranks, dim=-1).indices

    accuracies = rank_accuracies(best, heads.count, answers.tokens, answers.hidden, spans)
    card = medusa_file(folder).with_suffix(".json")
    facts = json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
    facts |= {
        "accuracies": accuracies,
        "calibration": {"prompts": len(prompts), "answer_tokens": sum(stop - start - 1 for start, stop in spans), "longest": ANSWER},
    }
    card.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for head, row in enumerate(accuracies):
        report(f"head {head}: " + " ".join(f"{value:.3f}" for value in row))
