"""A corpus: conversations, and beside every token the hidden state of the target that was there.

Self-distilled: no data set is needed. The chat prefix up to "user" is a prompt for user turns (drawn at temperature 1, for breadth), or
the user's turns come from a file; each is then answered, half of them greedily and half by drawing. The text is the target's own, so a
proposer trained on it learns the distribution that it will be judged by. The last hidden state h_t of every token is stored beside the
text: softmax(E·h_t) is the target's whole distribution over token t+1, so training need not run the target again.

A conversation is a function of (seed, its number): an interrupted corpus is taken up where it was left, and a larger one begins with the
smaller. A corpus is a folder of parts, each a corpus itself, written as conversations end.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, count, takewhile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load_file
from torch import Tensor

from specviz.engine.lm import Pair, Tokenizer
from specviz.i18n import Fault
from specviz.models.files import write_tensors
from specviz.training.batched import decoder, sample_top_k
from specviz.training.openers import OPENERS
from specviz.training.parts import claim, contiguous, settings_of, sizes_of

USER_TOKENS, ANSWER_TOKENS = 48, 208  # the longest turn of either side
USER_TEMPERATURE, ANSWER_TEMPERATURES, TOP_K = 1.0, (0.0, 0.7, 0.0, 1.0), 40  # an answer's temperature is one of these
SHORTEST_USER_TURN = 3  # anything shorter is a slip of the sampler, not a question
NUDGED = 0.75  # of the conversations begin with an opener
PART = 256  # conversations in a part


@dataclass(frozen=True)
class Corpus:
    """Conversations one after another: `tokens`, the target's `hidden` state after each, and where every conversation starts.

    `learned` marks the tokens after which the assistant speaks on: what stands there is to be learned. `numbers` are the conversations'
    own, which never change, and by which they are held out.
    """

    tokens: Int[Tensor, "n"]
    hidden: Float[Tensor, "n d"]
    learned: Bool[Tensor, "n"]
    starts: Int[Tensor, "m"]
    numbers: Int[Tensor, "m"]

    def save(self, path: Path) -> None:
        """Write the corpus as one safetensors file, whole or not at all. Raises OSError."""
        write_tensors(vars(self), path)

    @classmethod
    def load(cls, path: Path) -> "Corpus":
        """Read a file that `save` wrote, or a folder: all of its conversations up to the first that is missing.

        Raises Fault where there is none.
        """
        files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
        if not files:
            raise Fault("training.no_corpus", path=path)
        whole = cls.join([cls(**load_file(file)) for file in files])
        wanted = settings_of(path).get("tokens") if path.is_dir() else None
        return whole.first(contiguous(whole.numbers.tolist()), wanted) if path.is_dir() else whole

    @classmethod
    def join(cls, parts: "Sequence[Corpus]") -> "Corpus":
        """All conversations of `parts`, sorted by number."""
        spans = sorted((int(number), p, i) for p, part in enumerate(parts) for i, number in enumerate(part.numbers))
        slices = [(parts[p], parts[p].conversation(i)) for _, p, i in spans]
        sizes = [span.stop - span.start for _, span in slices]
        columns = {name: torch.cat([getattr(part, name)[span] for part, span in slices]) for name in ("tokens", "hidden", "learned")}
        starts = torch.tensor([0, *accumulate(sizes)][:-1])
        return cls(**columns, starts=starts, numbers=torch.tensor([number for number, _, _ in spans]))

    def first(self, count: int, tokens: int | None = None) -> "Corpus":
        """The first `count` conversations, or as many of them as it takes to have `tokens` tokens."""
        ends = [self.conversation(i).stop for i in range(count)]
        if tokens is not None:
            count = next((i + 1 for i, end in enumerate(ends) if end >= tokens), count)
        end = ends[count - 1] if count else 0
        rows = {name: getattr(self, name)[:end] for name in ("tokens", "hidden", "learned")}
        return replace(self, **rows, starts=self.starts[:count], numbers=self.numbers[:count])

    def conversation(self, i: int) -> slice:
        """The rows of conversation `i`."""
        end = int(self.starts[i + 1]) if i + 1 < len(self.starts) else len(self.tokens)
        return slice(int(self.starts[i]), end)

    def answer(self, i: int) -> int:
        """Offset, inside conversation `i`, of the first token that the assistant wrote."""
        return int(self.learned[self.conversation(i)].long().argmax()) + 1

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Settings:
    """What a self-distilled corpus is made of: at least `tokens` tokens, `rows` conversations at a time, user turns from `prompts`."""

    tokens: int = 1_000_000
    rows: int = 192
    seed: int = 0
    prompts: tuple[str, ...] = ()


@dataclass
class _Conversation:
    """One conversation being written: its text so far, what is yet to be fed without being drawn, and its own random numbers."""

    number: int
    ids: list[int]
    forced: list[int]
    temperature: float  # of the answer
    uniforms: np.ndarray
    answer_at: int = 0  # position of the first answer token; 0 while the user speaks
    hidden: Tensor | None = None


@dataclass(frozen=True)
class _Template:
    """The chat template around a user's turn, in tokens."""

    prefix: list[int]
    turn_over: list[int]  # e.g. <|im_end|> \n <|im_start|> assistant \n
    length: int  # of the longest conversation

    @property
    def end(self) -> int:
        """The token that ends a turn."""
        return self.turn_over[0]


def write(
    pair: Pair,
    settings: Settings,
    folder: Path,
    progress: Callable[[int], None] = lambda done: None,
    share: tuple[int, int] = (1, 1),
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Let the target write conversations into `folder` until those without a gap have `settings.tokens` tokens.

    What `folder` holds already is kept; `progress` is told the tokens that are there. With `share` (i, n) only the i-th of every n
    conversations is written, an n-th of the tokens: n programs, or machines, can write one corpus. `stopped` is asked at every step; it
    ends the writing early, and the conversations that are not over are lost. Raises Fault when the folder holds another corpus, or when
    the model has no chat template; OSError when it cannot be written.
    """
    part, parts = share
    claim(folder, {"source": "self-distilled", "target": pair.target.info.sha256, **asdict(settings)})
    have = {number: size for number, size in sizes_of(folder).items() if number % parts == part - 1}
    writer, finished = _Writer(pair, settings), []
    numbers = (number for number in count(part - 1, parts) if number not in have)
    progress(sum(have.values()))
    try:
        for conversation in writer.run(numbers, lambda: not stopped() and _whole(have, share) * parts < settings.tokens):
            have[conversation.number] = len(conversation.ids)
            finished.append(conversation)
            if len(finished) == PART:
                _save(finished, folder)
                finished = []
            progress(sum(have.values()))
    finally:
        if finished:
            _save(finished, folder)


def question(corpus: Corpus, i: int, tokenizer: Tokenizer) -> str | None:
    """What the user asks in conversation `i`, as text; None where it does not begin with that one turn in the chat template."""
    template = _template(tokenizer, USER_TOKENS)
    ids = corpus.tokens[corpus.conversation(i)][: corpus.answer(i)].tolist()
    start, end = len(template.prefix), len(ids) - len(template.turn_over)
    return tokenizer.decode(ids[start:end]) if ids[:start] == template.prefix and ids[end:] == template.turn_over else None


def share_of(text: str) -> tuple[int, int]:
    """ "2/3" as (2, 3); raises Fault where it is no such share."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise Fault("training.share_syntax", value=text[:40])
    return int(part), int(parts)


class _Writer:
    """Draws conversations in lockstep."""

    def __init__(self, pair: Pair, settings: Settings):
        self.settings, self.tokenizer = settings, pair.tokenizer
        self.prompts = [pair.tokenizer.encode(prompt, add_special_tokens=False) for prompt in settings.prompts]
        self.openers = [pair.tokenizer.encode(opener, add_special_tokens=False) for opener in OPENERS]
        self.template = _template(pair.tokenizer, max([USER_TOKENS, *map(len, self.prompts)]))
        self.decoder = decoder(pair.target, settings.rows, self.template.length)
        self.width = pair.target.shape.width

    def run(self, numbers: Iterator[int], more: Callable[[], bool]) -> Iterator[_Conversation]:
        """Conversations in the order in which they end, for as long as `more` says so."""
        rows, template = self.settings.rows, self.template
        hidden = torch.empty(rows, template.length, self.width, dtype=torch.bfloat16)
        for at, token in enumerate(template.prefix[:-1]):  # it stays in the cache for good; a row that starts anew re-feeds its last token
            hidden[:, at] = self.decoder.step(torch.full((rows,), token), torch.full((rows,), at)).hidden.to(hidden)
        writing = [self._begin(next(numbers)) for _ in range(rows)]
        every = torch.arange(rows)
        while more():
            positions = torch.tensor([len(row.ids) - 1 for row in writing])
            output = self.decoder.step(torch.tensor([row.ids[-1] for row in writing]), positions)
            hidden[every, positions] = output.hidden.to(hidden)
            for b, (row, drawn) in enumerate(zip(writing, self._draw(output.logits.cpu(), writing), strict=True)):
                if _advance(row, drawn, template):
                    row.hidden = hidden[b, : len(row.ids)].clone()
                    yield row
                    writing[b] = self._begin(next(numbers))

    def _begin(self, number: int) -> _Conversation:
        """The conversation `number`, of which nothing is written: everything about it comes from the seed and its number."""
        random = np.random.Generator(np.random.Philox(key=self.settings.seed, counter=[0, 0, 0, number]))
        opener = self.openers[random.integers(len(self.openers))] if random.random() < NUDGED else []
        temperature = ANSWER_TEMPERATURES[random.integers(len(ANSWER_TEMPERATURES))]
        template = self.template
        row = _Conversation(number, list(template.prefix), list(opener), temperature, random.random(template.length, dtype=np.float32))
        if self.prompts:
            row.forced = self.prompts[number % len(self.prompts)] + template.turn_over
            row.answer_at = len(row.ids) + len(row.forced)
        return row

    @torch.inference_mode()
    def _draw(self, logits: Float[Tensor, "rows V"], writing: list[_Conversation]) -> list[int]:
        spoken = [len(row.ids) - len(self.template.prefix) for row in writing]
        for b, row in enumerate(writing):
            if not row.answer_at and spoken[b] < SHORTEST_USER_TURN:
                logits[b, self.template.end] = -torch.inf
        temperature = torch.tensor([row.temperature if row.answer_at else USER_TEMPERATURE for row in writing])
        uniforms = torch.tensor([row.uniforms[len(row.ids) - 1] for row in writing])
        return sample_top_k(logits, TOP_K, temperature, uniforms).tolist()


def _advance(row: _Conversation, drawn: int, template: _Template) -> bool:
    """Append the row's next token; True when the conversation is over (the closing <|im_end|> is never fed, so it is not stored)."""
    if row.forced:
        row.ids.append(row.forced.pop(0))
    elif row.answer_at:
        if drawn == template.end or len(row.ids) - row.answer_at == ANSWER_TOKENS:
            return True
        row.ids.append(drawn)
    elif drawn == template.end or len(row.ids) - len(template.prefix) == USER_TOKENS:
        row.ids.append(template.end)
        row.forced = template.turn_over[1:]
        row.answer_at = len(row.ids) + len(row.forced)
    else:
        row.ids.append(drawn)
    return False


def _template(tokenizer: Tokenizer, user_tokens: int) -> _Template:
    if not tokenizer.chat_template:
        raise Fault("training.no_template")
    marker = "@"  # stands for the user's turn, to cut the template in two
    text = tokenizer.apply_chat_template([{"role": "user", "content": marker}], tokenize=False, add_generation_prompt=True)
    opening, after = text.split(marker)
    prefix, turn_over = (tokenizer.encode(half, add_special_tokens=False) for half in (opening, after))
    return _Template(prefix, turn_over, len(prefix) + user_tokens + len(turn_over) + ANSWER_TOKENS)


def _save(finished: list[_Conversation], folder: Path) -> None:
    sizes = [len(row.ids) for row in finished]
    learned = [torch.arange(len(row.ids)) >= row.answer_at - 1 for row in finished]
    Corpus(
        tokens=torch.cat([torch.tensor(row.ids, dtype=torch.int32) for row in finished]),
        hidden=torch.cat([row.hidden for row in finished if row.hidden is not None]),
        learned=torch.cat(learned),
        starts=torch.tensor([0, *accumulate(sizes)][:-1]),
        numbers=torch.tensor([row.number for row in finished]),
    ).save(folder / f"{finished[0].number:07d}.safetensors")


def _whole(sizes: dict[int, int], share: tuple[int, int]) -> int:
    """Tokens of the conversations of this share before its first that is missing."""
    part, parts = share
    return sum(sizes[number] for number in takewhile(sizes.__contains__, count(part - 1, parts)))
