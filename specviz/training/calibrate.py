"""How often the candidate of a rank is right at a depth, measured: accuracies[depth][rank], what a calibrated sparse tree is built from.

A candidate is judged by the target's own greedy answers to held-out prompts: at temperature 0, and under the greedy rule, it is accepted
exactly where it is the target's next argmax. Every token of an answer but the last is taken as a root once.

Medusa heads do not see the candidates above, so each head is counted by itself at all roots (Cai et al. 2024, section 2.3.3). A draft and
n-gram lookup do see them, and a candidate below a wrong one can never be accepted: theirs are shares of the roots at which the first
candidates above were all right. What a draft was fed there is the answer itself, so one pass over the text tells all depths; only the
choice of places differs, for text that was easy to guess so far goes on easier than the rest. The product along a chain of first
candidates is then the very share of roots at which the chain holds; for other paths it takes the depths as independent.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.config import DecodeConfig, choices_text
from specviz.engine.lm import LanguageModel, Pair
from specviz.engine.proposers.base import Committed
from specviz.engine.proposers.ngram import NGram
from specviz.i18n import Fault
from specviz.models.checkpoints import DRAFT_FILE, medusa_file
from specviz.models.embedded import sha256
from specviz.models.files import write_text
from specviz.training.batched import decoder
from specviz.training.corpus import Corpus
from specviz.training.data import split

RANKS, DEPTHS = 10, 8
PROMPTS, ANSWER = 48, 128  # the most prompts, and the most tokens of each answer
LONGEST_PROMPT = 256  # tokens; longer ones are left out
COMB = choices_text([(0,) * depth + (rank,) for depth in range(DEPTHS) for rank in range(RANKS)])  # a chain with all its siblings
MISSED = -1  # the rank of a token that is no candidate
Best = Callable[[Tensor, int], Tensor]  # (hidden [n, d], ranks) → every head's most probable token ids [heads, n, ranks]
Accuracies = list[list[float]]
Progress = Callable[[float], None]


def medusa(
    pair: Pair, corpus: Corpus, folder: Path, progress: Progress = lambda done: None, prompts: int = PROMPTS, length: int = ANSWER
) -> Accuracies:
    """Measure the heads of `pair`, which are those in `folder`, and write `accuracies` into the JSON file beside them.

    At most `prompts` answers of at most `length` tokens are taken.
    """
    heads, path = pair.medusa, medusa_file(folder)
    if heads is None:
        raise Fault("error.no_medusa", pair=pair.name)
    check_same(path, heads.info.sha256)
    answers = held_out_answers(pair, corpus, progress, prompts, length)

    def best(hidden: Tensor, ranks: int) -> Tensor:
        return candidates(heads.logits(hidden), ranks)

    spans = [(answers.conversation(i).start + answers.answer(i) - 1, answers.conversation(i).stop) for i in range(len(answers))]
    accuracies = rank_accuracies(best, heads.count, answers.tokens, answers.hidden, spans)
    return _write(path.with_suffix(".json"), accuracies, _calibration(answers, length))


def draft(pair: Pair, corpus: Corpus, folder: Path, progress: Progress = lambda done: None) -> Accuracies:
    """Measure the draft of `pair`, which is the one in `folder`, and write `accuracies` into its draft.json."""
    if pair.draft is None:
        raise Fault("error.no_draft", pair=pair.name)
    check_same(folder / DRAFT_FILE, pair.draft.info.sha256)
    answers = held_out_answers(pair, corpus, progress)
    walks = [walk for text, answer in texts(answers) for walk in draft_walks(pair.draft, text, answer)]
    accuracies, cases = conditional_accuracies(walks)
    return _write(folder / "draft.json", accuracies, {**_calibration(answers), "cases": cases})


def ngram(pair: Pair, corpus: Corpus, folder: Path, progress: Progress = lambda done: None) -> Accuracies:
    """Measure n-gram lookup at its default lengths, and write `accuracies` into ngram.json in `folder`. No match is a miss."""
    config = DecodeConfig(method="ngram")
    answers = held_out_answers(pair, corpus, progress)
    walks = [walk for text, answer in texts(answers) for walk in ngram_walks(pair, config, text, answer)]
    accuracies, cases = conditional_accuracies(walks)
    lengths = {"ngram_max": config.ngram_max, "ngram_min": config.ngram_min, "ngram_match": config.ngram_match}
    return _write(folder / "ngram.json", accuracies, {**_calibration(answers), "cases": cases, **lengths})


def rank_accuracies(
    best: Best, heads: int, tokens: Int[Tensor, "n"], hidden: Float[Tensor, "n d"], spans: Sequence[tuple[int, int]], ranks: int = RANKS
) -> Accuracies:
    """accuracies[head][rank]: the share of positions t of the spans where candidate `rank` of head k is token t+k+1 of the same span.

    `spans` are (start, stop) rows of one text each; k counts from 1, so that the LM head would be k = 0.
    """
    hits, count = torch.zeros(heads, ranks), torch.zeros(heads, 1)
    for start, stop in spans:
        if stop - start < 3:  # no root with a token two behind it
            continue
        guesses = best(hidden[start:stop], ranks).cpu()
        for k in range(1, heads + 1):
            roots = max(0, stop - start - k - 1)
            hits[k - 1] += (guesses[k - 1, :roots] == tokens[start + k + 1 : start + k + 1 + roots, None]).sum(0)
            count[k - 1] += roots
    return [[round(share, 5) for share in row] for row in (hits / count.clamp(min=1)).tolist()]


def conditional_accuracies(walks: Sequence[Sequence[int]], ranks: int = RANKS) -> tuple[Accuracies, list[int]]:
    """accuracies[depth][rank] and the number of cases by depth; both end with the deepest one that was reached.

    A walk holds the rank of the true token at depth 0, 1, … below one root (MISSED where it is no candidate), for as long as the first
    candidates were right.
    """
    depths = max(map(len, walks), default=0)
    cases = [sum(len(walk) > depth for walk in walks) for depth in range(depths)]
    hits = [[0] * ranks for _ in range(depths)]
    for walk in walks:
        for depth, rank in enumerate(walk):
            if rank != MISSED:
                hits[depth][rank] += 1
    return [[round(hit / count, 5) for hit in row] for row, count in zip(hits, cases, strict=True)], cases


@torch.inference_mode()
def draft_walks(model: LanguageModel, text: Sequence[int], answer: int) -> Iterator[list[int]]:
    """A walk from every root of one text, whose answer begins at offset `answer`, along the most probable tokens of a draft."""
    usable = min(len(text), model.max_context)
    if usable <= answer:
        return
    cache, tokens = model.new_cache(), torch.tensor(text[:usable])
    if answer > 1:
        model.prefill(cache, tokens[: answer - 1])
    rows = usable - answer
    mask = torch.ones(rows, rows, dtype=torch.bool).tril()
    logits = model.forward(cache, tokens[answer - 1 : -1], torch.arange(answer - 1, usable - 1), mask).logits
    right = candidates(logits, RANKS).cpu() == tokens[answer:, None]
    ranks = [row.index(True) if any(row) else MISSED for row in right.tolist()]
    for root in range(rows):
        ahead = ranks[root : root + DEPTHS]
        yield ahead[: next((depth + 1 for depth, rank in enumerate(ahead) if rank != 0), DEPTHS)]


def ngram_walks(pair: Pair, config: DecodeConfig, text: Sequence[int], answer: int) -> Iterator[list[int]]:
    """A walk from every root of one text along what lookup would copy: candidates in the order of their places, as in its tree."""
    proposer, unused = NGram(replace(config, tree=COMB), pair.eos_ids, pair.target.vocab_size, pair.target.device), torch.Generator()
    for root in range(answer - 1, len(text) - 1):
        tree = proposer.propose(Committed(list(text[: root + 1]), None, config, unused), DEPTHS).tree
        node, ranks = 0, []
        for token in text[root + 1 : root + 1 + DEPTHS]:
            offered = tree.children[node]
            ranks.append(next((rank for rank, child in enumerate(offered) if tree.tokens[child] == token), MISSED))
            if ranks[-1] != 0:
                break
            node = offered[0]
        yield ranks


def held_out_answers(
    pair: Pair, corpus: Corpus, progress: Progress = lambda done: None, most: int = PROMPTS, length: int = ANSWER
) -> Corpus:
    """The target's greedy answers to the first held-out prompts, each once; raises Fault where none is short enough."""
    longest = min(LONGEST_PROMPT, pair.target.max_context - length)
    prompts = [list(prompt) for prompt in dict.fromkeys(map(tuple, held_out_prompts(corpus))) if len(prompt) <= longest][:most]
    if not prompts:
        raise Fault("training.no_prompts", longest=longest)
    return greedy_answers(pair, prompts, length, progress)


def held_out_prompts(corpus: Corpus) -> list[list[int]]:
    """The token ids of the held-out conversations up to where the answer begins."""
    return [corpus.tokens[corpus.conversation(i)][: corpus.answer(i)].tolist() for i in split(corpus)[1]]


@torch.inference_mode()
def greedy_answers(pair: Pair, prompts: Sequence[list[int]], length: int, progress: Progress = lambda done: None) -> Corpus:
    """The target's greedy answers of at most `length` tokens, EOS included, all prompts in lockstep; hidden states beside every token."""
    rows = [list(prompt) for prompt in prompts]
    ends = [len(prompt) + length for prompt in prompts]
    run = decoder(pair.target, len(rows), max(ends))
    states = []
    for at in range(max(ends)):
        if all(len(row) <= at for row in rows):
            break
        growing = [b for b, row in enumerate(rows) if len(row) == at + 1 < ends[b] and not _over(row, len(prompts[b]), pair.eos_ids)]
        fed = torch.tensor([row[at] if at < len(row) else row[-1] for row in rows])  # an ended row is fed on, and nothing of it is kept
        output = run.step(fed, torch.full((len(rows),), at))
        states.append(output.hidden)
        for b, token in zip(growing, output.logits[growing].argmax(-1).tolist(), strict=True):
            rows[b].append(token)
        progress((at + 1) / max(ends))
    progress(1.0)
    return _corpus(rows, [len(prompt) for prompt in prompts], torch.stack(states, dim=1))


def texts(answers: Corpus) -> Iterator[tuple[list[int], int]]:
    """The token ids of every conversation, and the offset at which its answer begins."""
    for i in range(len(answers)):
        yield answers.tokens[answers.conversation(i)].tolist(), answers.answer(i)


def candidates(logits: Float[Tensor, "*n V"], ranks: int) -> Int[Tensor, "*n r"]:
    """The `ranks` most probable token ids of every row; MISSED in place of a token that the row does not score."""
    best = logits.topk(min(ranks, logits.shape[-1]), dim=-1)
    return best.indices.masked_fill(best.values == -torch.inf, MISSED)


def _over(row: list[int], answer: int, eos_ids: Sequence[int]) -> bool:
    return len(row) > answer and row[-1] in eos_ids


def _corpus(rows: list[list[int]], answers: list[int], hidden: Float[Tensor, "m n d"]) -> Corpus:
    sizes = torch.tensor([0, *map(len, rows)])
    return Corpus(
        tokens=torch.tensor([token for row in rows for token in row]),
        hidden=torch.cat([states[: len(row)] for states, row in zip(hidden, rows, strict=True)]),
        learned=torch.cat([torch.arange(len(row)) >= answer - 1 for row, answer in zip(rows, answers, strict=True)]),
        starts=sizes.cumsum(0)[:-1],
        numbers=torch.arange(len(rows)),
    )


def check_same(path: Path, loaded: str) -> None:
    """Raises Fault where the weights in `path` are not those that are loaded: their numbers would stand beside another file."""
    if not path.is_file():
        raise Fault("error.checkpoint_missing", path=path.parent, wanted=path.name)
    if sha256(path) != loaded:
        raise Fault("training.other_weights", path=path)


def _calibration(answers: Corpus, length: int = ANSWER) -> dict[str, object]:
    spoken = sum(len(text) - answer for text, answer in texts(answers))
    return {"prompts": len(answers), "answer_tokens": spoken, "longest": length}


def _write(path: Path, accuracies: Accuracies, calibration: dict[str, object]) -> Accuracies:
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    text = json.dumps({**facts, "accuracies": accuracies, "calibration": calibration}, indent=1)
    write_text(text + "\n", path)
    return accuracies
