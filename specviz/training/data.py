"""What both trainings share: the split of a corpus, its vocabulary, its batches, and the schedule of a run."""

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.training.corpus import Corpus

HELD_OUT = 0.02  # of the conversations, the last ones: never trained on
Report = Callable[[str], None]


def split(corpus: Corpus) -> tuple[list[int], list[int]]:
    """Conversations to train on, and the held-out ones (the last 2 %, at least one)."""
    held = max(1, round(len(corpus) * HELD_OUT))
    everything = list(range(len(corpus)))
    return everything[:-held], everything[-held:]


def first_learned(corpus: Corpus) -> int:
    """Offset in each conversation of the first token whose prediction is learned: the last one of the prefix that all begin with.

    That prefix is the chat template up to the user's first word, from which nothing else is to be learned.
    """
    sizes = torch.diff(corpus.starts, append=torch.tensor([len(corpus.tokens)]))
    heads = corpus.tokens[corpus.starts[:, None] + torch.arange(int(sizes.min()))]
    prefix = int((heads == heads[0]).all(dim=0).long().cumprod(0).sum())
    return max(0, prefix - 1)


def frequent_tokens(corpus: Corpus, conversations: list[int], size: int) -> Int[Tensor, "v"]:
    """The `size` most frequent token ids of these conversations, sorted by id: the vocabulary that a proposer scores."""
    tokens = torch.cat([corpus.tokens[corpus.conversation(i)] for i in conversations])
    ids, counts = tokens.unique(return_counts=True)
    return ids[counts.argsort(descending=True, stable=True)[:size]].sort().values.to(torch.int32)


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


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up over `warmup` steps, then half a cosine down to 0 (Loshchilov & Hutter 2017)."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))


def target_entries(hidden: Float[Tensor, "n d"], head: Float[Tensor, "V d"], token_map: Int[Tensor, "v"]) -> tuple[Tensor, Tensor]:
    """p(token | h) of the tokens of `token_map` [n, v] under the softmax over the whole vocabulary, and the argmax of each row [n]."""
    rows, best = [], []
    for part in hidden.split(256):  # 256 rows of 49,152 logits are 50 MB
        logits = (part @ head.T).float()
        best.append(logits.argmax(-1))
        rows.append((logits[:, token_map.long()] - logits.logsumexp(-1, keepdim=True)).exp())
    return torch.cat(rows), torch.cat(best)


def prepare(compiled: bool) -> None:
    """Make training fast on a CPU: freed memory is kept, and where code cannot be compiled (no C++ compiler) it runs as it is."""
    if compiled:
        torch._dynamo.config.suppress_errors = True
    _keep_freed_memory()


def facts_of(corpus: Corpus, recipe: Mapping[str, object], held_out: Mapping[str, object]) -> dict[str, object]:
    """What a card says of a training run."""
    data = {"tokens": len(corpus.tokens), "conversations": len(corpus), "held_out": len(split(corpus)[1])}
    return {
        "recipe": dict(recipe),
        "corpus": data,
        "held_out": dict(held_out),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _keep_freed_memory() -> None:
    """Ask glibc to keep the memory of freed tensors: handing it back and faulting it in again is a good part of a step's time."""
    if sys.platform == "linux":
        try:
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(-4, 0)  # M_MMAP_MAX: no block by mmap
            libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        except (OSError, AttributeError):
            return  # another libc: only slower


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
