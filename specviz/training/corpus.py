"""A self-distilled corpus: the model writes its own user turns, then answers them, and its hidden states are kept.

No data set is needed: the chat prefix up to "user" is a prompt for user turns (drawn at temperature 1, for breadth), and each turn
is then answered (at 0.7, as a user would run it). The text is the target's own, so a proposer trained on it learns the distribution
that it will be judged by. The last hidden state h_t of every token is stored beside the text: softmax(E·h_t) is the target's whole
distribution over token t+1, so training never has to run the target again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from specviz.training.batched import LockstepDecoder, sample_top_k

USER_TOKENS, ANSWER_TOKENS = 72, 216  # the longest turn of either side
USER_TEMPERATURE, ANSWER_TEMPERATURE, TOP_K = 1.0, 0.7, 40
SHORTEST_USER_TURN = 3  # anything shorter is a slip of the sampler, not a question
# Left alone, a small model mostly greets and apologises to itself. Every second conversation is therefore nudged by its first words.
OPENERS = (
    "Write a Python function that", "Write a short story about", "Explain", "What is", "Rewrite the following text:", "How do I",
    "Summarize this paragraph:", "Why", "Write a poem about", "List", "Translate into French:", "Who was", "What are the benefits of",
    "Here is some code:", "Give me a recipe for", "Describe", "Correct the grammar:", "In which year", "Write an email to", "How does",
    "Solve:", "What is the difference between", "请", "Tell me about", "Where is", "Write a class in Python", "Continue the story:",
    "Repeat the following sentence:", "Compare", "What is the capital of", "Write a JavaScript function", "Define",
)  # fmt: skip


@dataclass(frozen=True)
class Corpus:
    """`tokens` [n], the target's last hidden state `hidden` [n, d] after each, and where every conversation starts, `starts` [m].

    `answers` [m] is the offset, inside its conversation, of the first token the assistant wrote.
    """

    tokens: Tensor
    hidden: Tensor
    starts: Tensor
    answers: Tensor

    def save(self, path: Path) -> None:
        """Write the corpus as one safetensors file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(vars(self), path)

    @classmethod
    def load(cls, path: Path) -> "Corpus":
        """Read what `save` wrote."""
        return cls(**load_file(path))

    def conversation(self, i: int) -> slice:
        """The rows of conversation `i`."""
        end = int(self.starts[i + 1]) if i + 1 < len(self.starts) else len(self.tokens)
        return slice(int(self.starts[i]), end)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass
class _Row:
    """One conversation being written."""

    ids: list[int]
    forced: list[int]  # tokens of an opener or of the template, fed but not sampled
    answer_at: int = 0  # position of the first answer token; 0 while the user speaks


@torch.inference_mode()
def write_corpus(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    tokens: int,
    rows: int = 192,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Corpus:
    """Let `model` write about `tokens` tokens of conversation with itself, `rows` conversations at a time.

    Stops with the first pass after which enough is finished; `progress` is told the number of finished tokens.
    """
    marker = "@"  # stands for the user's turn, to cut the template in two
    template = tokenizer.apply_chat_template([{"role": "user", "content": marker}], tokenize=False, add_generation_prompt=True)
    opening, after = template.split(marker)
    prefix = tokenizer.encode(opening, add_special_tokens=False)
    turn_over = tokenizer.encode(after, add_special_tokens=False)  # <|im_end|> \n <|im_start|> assistant \n
    end = turn_over[0]
    length = len(prefix) + USER_TOKENS + len(turn_over) + ANSWER_TOKENS

    decoder = LockstepDecoder(model, rows, length)
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.empty(rows, length, model.config.hidden_size, dtype=decoder.embedding.dtype)
    for at, token in enumerate(prefix[:-1]):  # the prefix stays in the cache for good; a row that starts anew re-feeds its last token
        hidden[:, at] = decoder.step(torch.full((rows,), token), torch.full((rows,), at))

    openers: list[list[int]] = [tokenizer.encode(opener, add_special_tokens=False) for opener in OPENERS]
    no_words: list[int] = []
    starts = cycle(start for opener in openers for start in (no_words, opener))
    writing = [_Row(list(prefix), list(next(starts))) for _ in range(rows)]
    done_tokens, done_hidden, answers, count = [], [], [], 0
    while count < tokens:
        positions = torch.tensor([len(row.ids) - 1 for row in writing])
        states = decoder.step(torch.tensor([row.ids[-1] for row in writing]), positions)
        hidden[decoder.rows, positions] = states
        temperature = torch.tensor([ANSWER_TEMPERATURE if row.answer_at else USER_TEMPERATURE for row in writing])
        drawn = sample_top_k(decoder.logits(states), TOP_K, temperature, generator).tolist()
        for b, row in enumerate(writing):
            if not _advance(row, drawn[b], len(prefix), end, turn_over, length):
                continue
            if row.answer_at:  # else the user's turn was too short to keep
                done_tokens.append(torch.tensor(row.ids, dtype=torch.int32))
                done_hidden.append(hidden[b, : len(row.ids)].clone())
                answers.append(row.answer_at)
                count += len(row.ids)
            writing[b] = _Row(list(prefix), list(next(starts)))
        progress(count)
    sizes = torch.tensor([0] + [len(t) for t in done_tokens[:-1]])
    return Corpus(torch.cat(done_tokens), torch.cat(done_hidden), sizes.cumsum(0), torch.tensor(answers))


def _advance(row: _Row, drawn: int, prefix: int, end: int, turn_over: list[int], length: int) -> bool:
    """Append the row's next token; True when the conversation is over (the closing <|im_end|> is never fed, so it is not stored)."""
    if row.forced:
        row.ids.append(row.forced.pop(0))
        return False
    if row.answer_at:
        if drawn == end or len(row.ids) == length:
            return True
        row.ids.append(drawn)
        return False
    spoken = len(row.ids) - prefix
    if drawn == end and spoken < SHORTEST_USER_TURN:
        return True
    if drawn == end or spoken == USER_TOKENS:
        row.ids.append(end)
        row.forced = turn_over[1:]
        row.answer_at = len(row.ids) + len(row.forced)
        return False
    row.ids.append(drawn)
    return False
