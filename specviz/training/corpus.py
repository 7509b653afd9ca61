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
from specviz.training.template import Template

USER_TOKENS, ANSWER_TOKENS = 48, 208  # the longest turn of either side
USER_TEMPERATURE, ANSWER_TEMPERATURES, TOP_K = 1.0, (0.0, 0.7, 0.0, 1.0), 40  # an answer's temperature is one of these
SHORTEST_USER_TURN = 3  # anything shorter is a slip of the sampler, not a question
NUDGED = 0.75  # of the conversations begin with an opener
PART = 256  # conversations in a part
HELD_EVERY = 32  # of the conversations' numbers, every 32nd is held out: never trained on, whatever the size of the corpus
FORMAT = 2  # 1 did not keep the token that ends an answer


@dataclass(frozen=True)
class Corpus:
    """Conversations one after another: `tokens`, the target's `hidden` state after each, and where every conversation starts.

    `learned` marks the tokens after which the assistant speaks on, or ends: what stands there is to be learned. The token that ends an
    answer is the last of its conversation; no state belongs to it (its row is 0). `numbers` are the conversations' own, which never
    change, and by which they are held out.
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

    @property
    def ends(self) -> Int[Tensor, "m"]:
        """The last row of every conversation."""
        return torch.cat([self.starts[1:], torch.tensor([len(self.tokens)])]) - 1

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
    over: bool = False  # the model itself ended its answer
    hidden: Tensor | None = None


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
    ends the writing early, and the conversations that are not over are lost. Raises Fault when the folder holds another corpus, when the
    model has no chat template or one that changes what the user says, when there is one prompt only, or when a prompt or the whole
    conversation does not fit into the context; OSError when the corpus cannot be written.
    """
    part, parts = share
    writer, finished = _Writer(pair, settings), []
    claim(folder, {"source": "self-distilled", "format": FORMAT, "target": pair.target.info.sha256, **asdict(settings)})
    have = {number: size for number, size in sizes_of(folder).items() if number % parts == part - 1}
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
    template = Template.of(tokenizer)
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
        self.prompts = [pair.tokenizer.encode(prompt, add_special_tokens=False) for prompt in dict.fromkeys(settings.prompts)]
        if len(self.prompts) == 1:
            raise Fault("training.one_prompt")
        self.openers = [pair.tokenizer.encode(opener, add_special_tokens=False) for opener in OPENERS]
        self.template = Template.of(pair.tokenizer)
        self.ends = frozenset(pair.eos_ids)
        self.length = self._longest(pair.target.max_context)
        self.decoder = decoder(pair.target, settings.rows, self.length)
        self.width = pair.target.shape.width

    def run(self, numbers: Iterator[int], more: Callable[[], bool]) -> Iterator[_Conversation]:
        """Conversations in the order in which they end, for as long as `more` says so."""
        rows, template = self.settings.rows, self.template
        hidden = torch.empty(rows, self.length, self.width, dtype=torch.bfloat16)
        for at, token in enumerate(template.prefix[:-1]):  # it stays in the cache for good; a row that starts anew re-feeds its last token
            hidden[:, at] = self.decoder.step(torch.full((rows,), token), torch.full((rows,), at)).hidden.to(hidden)
        writing = [self._begin(next(numbers)) for _ in range(rows)]
        every = torch.arange(rows)
        while more():
            positions = torch.tensor([len(row.ids) - 1 for row in writing])
            output = self.decoder.step(torch.tensor([row.ids[-1] for row in writing]), positions)
            hidden[every, positions] = output.hidden.to(hidden)
            for b, (row, drawn) in enumerate(zip(writing, self._draw(output.logits.cpu(), writing), strict=True)):
                if _advance(row, drawn, template, self.ends):
                    row.hidden = hidden[b, : len(row.ids)].clone()
                    if row.over:
                        row.hidden[-1] = 0
                    yield row
                    writing[b] = self._begin(next(numbers))

    def _begin(self, number: int) -> _Conversation:
        """The conversation `number`, of which nothing is written: everything about it comes from the seed and its number."""
        random = np.random.Generator(np.random.Philox(key=self.settings.seed, counter=[0, 0, 0, number]))
        opener = self.openers[random.integers(len(self.openers))] if random.random() < NUDGED else []
        temperature = ANSWER_TEMPERATURES[random.integers(len(ANSWER_TEMPERATURES))]
        template = self.template
        row = _Conversation(number, list(template.prefix), list(opener), temperature, random.random(self.length, dtype=np.float32))
        if self.prompts:
            row.forced = self._prompt(number) + template.turn_over
            row.answer_at = len(row.ids) + len(row.forced)
        return row

    def _prompt(self, number: int) -> list[int]:
        """Of a conversation. Those that are held out have prompts of their own, else there would be nothing to learn or to judge by."""
        held = max(1, len(self.prompts) // HELD_EVERY)
        turn, place = divmod(number, HELD_EVERY)
        if place == 0:
            return self.prompts[turn % held]
        return self.prompts[held + (turn * (HELD_EVERY - 1) + place - 1) % (len(self.prompts) - held)]

    def _longest(self, context: int) -> int:
        """Tokens of the longest conversation; raises Fault where they do not fit into a context of so many."""
        around = len(self.template.prefix) + len(self.template.turn_over) + ANSWER_TOKENS
        if around + USER_TOKENS > context:
            raise Fault("training.context_small", context=context, needed=around + USER_TOKENS)
        for i, prompt in enumerate(self.prompts, start=1):
            if around + len(prompt) > context:
                raise Fault("training.prompt_long", number=i, tokens=len(prompt), most=context - around)
        return around + max([USER_TOKENS, *map(len, self.prompts)])

    @torch.inference_mode()
    def _draw(self, logits: Float[Tensor, "rows V"], writing: list[_Conversation]) -> list[int]:
        spoken = [len(row.ids) - len(self.template.prefix) for row in writing]
        for b, row in enumerate(writing):
            if not row.answer_at and spoken[b] < SHORTEST_USER_TURN:
                logits[b, list(self.ends)] = -torch.inf
        temperature = torch.tensor([row.temperature if row.answer_at else USER_TEMPERATURE for row in writing])
        uniforms = torch.tensor([row.uniforms[len(row.ids) - 1] for row in writing])
        return sample_top_k(logits, TOP_K, temperature, uniforms).tolist()


def _advance(row: _Conversation, drawn: int, template: Template, ends: frozenset[int]) -> bool:
    """Append the row's next token; True when the conversation is over. Any of `ends` ends a turn."""
    if row.forced:
        row.ids.append(row.forced.pop(0))
    elif row.answer_at:
        if len(row.ids) - row.answer_at == ANSWER_TOKENS:
            return True
        row.ids.append(drawn)
        row.over = drawn in ends
        return row.over
    elif drawn in ends or len(row.ids) - len(template.prefix) == USER_TOKENS:
        first, *row.forced = template.turn_over
        row.ids.append(first)
        row.answer_at = len(row.ids) + len(row.forced)
    else:
        row.ids.append(drawn)
        if row.ids[-len(template.turn_over) :] == template.turn_over:  # in words, where a template has no token for it
            row.answer_at = len(row.ids)
    return False


def _save(finished: list[_Conversation], folder: Path) -> None:
    sizes = [len(row.ids) for row in finished]
    places = [torch.arange(len(row.ids)) for row in finished]
    learned = [(at >= row.answer_at - 1) & (at < len(at) - row.over) for at, row in zip(places, finished, strict=True)]
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
