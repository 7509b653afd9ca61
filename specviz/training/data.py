"""What all trainings share: the split of a corpus, its vocabulary, its batches, and the learning rate."""

import contextlib
import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file
from torch import Tensor

from specviz.i18n import Fault
from specviz.training.corpus import HELD_EVERY, Corpus

Report = Callable[[str], None]


def split(corpus: Corpus) -> tuple[list[int], list[int]]:
    """Conversations to train on, and the held-out ones. What begins as a held-out conversation, word for word, is not trained on either."""
    held = [i for i, number in enumerate(corpus.numbers.tolist()) if number % HELD_EVERY == 0]
    asked = {_asked(corpus, i) for i in held}
    chosen = set(held)
    return [i for i in range(len(corpus)) if i not in chosen and _asked(corpus, i) not in asked], held


def _asked(corpus: Corpus, i: int) -> bytes:
    span = corpus.conversation(i)
    return corpus.tokens[span.start : span.start + corpus.answer(i)].numpy().tobytes()


def frequent_tokens(corpus: Corpus, conversations: list[int], size: int) -> Int[Tensor, "v"]:
    """The `size` most frequent ids among the learned tokens of these conversations, sorted by id: what a proposer scores.

    Raises Fault where there are none.
    """
    spans = [corpus.conversation(i) for i in conversations]
    tokens = torch.cat([corpus.tokens[:0], *(corpus.tokens[span][1:][corpus.learned[span][:-1]] for span in spans)])
    if not len(tokens):
        raise Fault("training.nothing_to_learn")
    ids, counts = tokens.unique(return_counts=True)
    return ids[counts.argsort(descending=True, stable=True)[:size]].sort().values.to(torch.int32)


def scored(corpus: Corpus, conversations: list[int], size: int, start: Path | None = None) -> Int[Tensor, "v"]:
    """The ids that a proposer scores, sorted: the `size` most frequent, or what the one in the file `start`, which it begins with, scores.

    Tokens that end an answer are always among them: a proposer that cannot say them is wrong at every end.
    """
    known = None if start is None or not start.is_file() else load_file(start).get("token_map")
    chosen = frequent_tokens(corpus, conversations, size) if known is None else known
    behind = corpus.learned.roll(1) & ~corpus.learned
    behind[corpus.starts] = False  # what stands behind the end of a conversation is another one
    return torch.cat([chosen, corpus.tokens[behind].to(chosen)]).unique()


@dataclass(frozen=True)
class Batch:
    """Conversations padded behind: their `ids`; the flat `places` in them whose prediction is learned, the corpus `rows` of those places,
    and the stretch of text (`owner`) that each belongs to: two places of one owner are as far apart in the text as in the list.

    `number` is that of the step in its run: what is drawn at random in a loss is drawn from it, so that a resumed run draws the same.
    """

    ids: Int[Tensor, "b l"]
    places: Int[Tensor, "n"]
    rows: Int[Tensor, "n"]
    owner: Int[Tensor, "n"]
    number: int = 0


def batch_of(corpus: Corpus, conversations: Sequence[int]) -> Batch:
    """The batch of these conversations; `places` is empty where nothing in them is learned."""
    spans = [corpus.conversation(i) for i in conversations]
    width = max(span.stop - span.start for span in spans)
    ids = torch.zeros(len(spans), width, dtype=torch.long)
    rows, places = [], []
    for b, span in enumerate(spans):
        ids[b, : span.stop - span.start] = corpus.tokens[span]
        learned = corpus.learned[span].nonzero()[:, 0]
        rows.append(span.start + learned)
        places.append(b * width + learned)
    flat = torch.cat(rows)
    text = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(part) for part in rows]))
    goes_on = (torch.diff(flat) == 1) & (torch.diff(text) == 0)
    return Batch(ids, torch.cat(places), flat, torch.cat([flat[:1] * 0, (~goes_on).long().cumsum(0)]))


def refuse_unjudgeable(corpus: Corpus, held: Sequence[int], ahead: int = 0) -> None:
    """Raise Fault where no held-out answer has a learned place and another one `ahead` behind it: there would be nothing to judge by."""
    owner = batch_of(corpus, held).owner if held else torch.empty(0)
    if len(owner) <= ahead or not (owner[ahead:] == owner[: len(owner) - ahead]).any():
        raise Fault("training.nothing_held_out")


def batches(corpus: Corpus, conversations: list[int], tokens: int, generator: torch.Generator) -> Iterator[list[int]]:
    """One epoch in batches of conversations of similar length, each at most `tokens` long after padding, in random order."""
    sizes = {i: corpus.conversation(i).stop - corpus.conversation(i).start for i in conversations}
    order = [conversations[i] for i in torch.randperm(len(conversations), generator=generator).tolist()]
    pool = 512  # sorted by length inside a pool: little padding, and yet other neighbours in every epoch
    found: list[list[int]] = []
    for at in range(0, len(order), pool):
        batch: list[int] = []
        for i in sorted(order[at : at + pool], key=sizes.__getitem__):
            if batch and (len(batch) + 1) * sizes[i] > tokens:
                found.append(batch)
                batch = []
            batch.append(i)
        found.append(batch)
    yield from (found[i] for i in torch.randperm(len(found), generator=generator).tolist())


def learning_rate(done: float, warmup: float) -> float:
    """Share of the peak after the share `done` of a run: up in a line over `warmup`, then down half a cosine (Loshchilov, Hutter 2017)."""
    if done < warmup:
        return done / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warmup) / (1 - warmup))))


def target_entries(hidden: Float[Tensor, "n d"], head: Float[Tensor, "V d"], token_map: Int[Tensor, "v"]) -> tuple[Tensor, Tensor]:
    """p(token | h) of the tokens of `token_map` [n, v] under the softmax over the whole vocabulary, and the argmax of each row [n]."""
    rows, best = [], []
    for part in hidden.split(256):  # 256 rows of 49,152 logits are 50 MB
        logits = (part @ head.T).float()
        best.append(logits.argmax(-1))
        rows.append((logits[:, token_map.long()] - logits.logsumexp(-1, keepdim=True)).exp())
    return torch.cat(rows), torch.cat(best)


def fitting(tensor: Tensor, like: Tensor, name: str, path: Path) -> Tensor:
    """`tensor`, read from `path`, which must have the shape of `like`; raises Fault otherwise."""
    if tensor.shape != like.shape:
        shape, wanted = ("×".join(map(str, t.shape)) for t in (tensor, like))
        raise Fault("error.checkpoint_shape", path=path.name, key=name, shape=shape, wanted=wanted)
    return tensor


def keep_freed_memory() -> None:
    """Ask glibc to keep the memory of freed tensors: handing it back and faulting it in again is a good part of a step's time."""
    _ask_libc("mallopt", -4, 0)  # M_MMAP_MAX: no block by mmap
    _ask_libc("mallopt", -1, 2**31 - 1)  # M_TRIM_THRESHOLD


def hand_back_freed_memory() -> None:
    """Hand back what was kept, now and then: batches of all shapes leave holes between blocks that add up to gigabytes in an hour."""
    _ask_libc("malloc_trim", 0)


def _ask_libc(name: str, *values: int) -> None:
    """Call a function of glibc; another libc does without."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            getattr(ctypes.CDLL("libc.so.6"), name)(*values)


def facts_of(corpus: Corpus) -> dict[str, Any]:
    """What a card says of the data and the machine."""
    texts = {"tokens": len(corpus.tokens), "conversations": len(corpus), "held_out": len(split(corpus)[1])}
    texts["learned"] = int(corpus.learned.sum())
    return {"corpus": texts, "threads": torch.get_num_threads(), "torch": torch.__version__}


class Clock:
    """Seconds since it was made, as 12:34."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def __str__(self) -> str:
        return f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"
