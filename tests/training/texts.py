"""Corpora made by hand."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.training.corpus import Corpus


def texts_of(
    *conversations: Sequence[int], learned: Sequence[Sequence[bool]] | None = None, numbers: Sequence[int] | None = None
) -> Corpus:
    """These conversations, all of whose tokens are learned from unless it is told otherwise."""
    marks = learned or [[True] * len(text) for text in conversations]
    sizes = torch.tensor([0] + [len(text) for text in conversations])
    tokens = torch.tensor([token for text in conversations for token in text], dtype=torch.int32)
    return Corpus(
        tokens=tokens,
        hidden=torch.randn(len(tokens), 8, generator=torch.Generator().manual_seed(0)),
        learned=torch.tensor([mark for text in marks for mark in text], dtype=torch.bool),
        starts=sizes.cumsum(0)[:-1],
        numbers=torch.tensor(list(numbers or range(len(conversations)))),
    )


def periodic(period: int, length: int = 60, conversations: int = 64, vocabulary: int = 8) -> tuple[Corpus, Tensor]:
    """Texts that repeat 0 … period−1, with hidden states under which an identity LM head is nearly sure of the next token."""
    texts = [[(start + i) % period for i in range(length)] for start in range(conversations)]
    tokens = torch.tensor([token for text in texts for token in text], dtype=torch.int32)
    following = torch.tensor([(token + 1) % period for text in texts for token in text])
    corpus = Corpus(
        tokens=tokens,
        hidden=12 * torch.nn.functional.one_hot(following, vocabulary).float(),
        learned=torch.ones(len(tokens), dtype=torch.bool),
        starts=torch.arange(conversations) * length,
        numbers=torch.arange(conversations),
    )
    return corpus, torch.eye(vocabulary)
