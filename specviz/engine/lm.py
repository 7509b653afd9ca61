"""What the decode loop knows of a model, and nothing more.

`forward` is the one operation: a few tokens, arranged as a tree, on top of a cache. A chain is a tree with one path, a prefill is a
chain, plain decoding is a tree of one node. `keep` afterwards leaves in the cache only the rows of the path that was accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from specviz.engine.costs import ModelShape
from specviz.trace import ModelInfo


@dataclass(frozen=True)
class Output:
    """Result of a pass: one row a token. `hidden` is the last hidden state after the final norm, which the LM head reads."""

    logits: Float[Tensor, "n V"]
    hidden: Float[Tensor, "n d"]


@runtime_checkable
class Cache(Protocol):
    """Keys and values of one conversation. Never shared between runs."""

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        ...

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Leave the first `start` tokens and, behind them, tokens start + rows[0], start + rows[1], …; drop all others."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """A causal language model that can score a tree of tokens. Weights only: all state of a run lives in its `Cache`.

    `cache` below is always one that this model's `new_cache` made.
    """

    info: ModelInfo
    shape: ModelShape
    engine: str  # "fast", "hf": what runs the pass, shown on the page
    vocab_size: int  # V
    max_context: int
    device: torch.device
    dtype: torch.dtype

    def new_cache(self) -> Cache:
        """An empty cache."""
        ...

    def forward(self, cache: Any, tokens: Int[Tensor, "n"], positions: Int[Tensor, "n"], mask: Bool[Tensor, "n w"]) -> Output:
        """Score `tokens` on top of `cache`, and append their keys and values to it.

        The columns of `mask` are the last w ≥ n tokens, the new ones included: token i attends to column j where mask[i, j], and to
        every cached token before those columns.
        """
        ...

    def prefill(self, cache: Any, tokens: Int[Tensor, "n"]) -> Float[Tensor, "d"]:
        """Append a chain of `tokens` to the cache; returns the hidden state of the last one (no logits are computed)."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """The part of a transformers tokenizer that the engine uses."""

    chat_template: str | None

    def apply_chat_template(self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        """The conversation in the model's own template."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Text to token ids."""
        ...

    def decode(self, token_ids: list[int]) -> str:
        """Token ids to text."""
        ...


@runtime_checkable
class Heads(Protocol):
    """Medusa heads: from the hidden state of token t, logits of tokens t+2, t+3, … (the LM head itself predicts t+1)."""

    @property
    def info(self) -> ModelInfo:
        """Name, hash and size."""
        ...

    @property
    def count(self) -> int:
        """How many heads there are."""
        ...

    @property
    def accuracies(self) -> tuple[tuple[float, ...], ...] | None:
        """Measured: accuracies[head][rank] is how often the head's rank-th candidate was right; None where nobody measured them."""
        ...

    def logits(self, hidden: Float[Tensor, "d"]) -> Float[Tensor, "k V"]:
        """One row a head over the target's vocabulary; -inf where a head does not score a token."""
        ...

    def flops(self) -> float:
        """Floating-point operations of one call."""
        ...

    def bytes(self) -> float:
        """Bytes that one call must read and write."""
        ...

    def weight_bytes(self) -> float:
        """Those of them that are weights."""
        ...


@dataclass(frozen=True)
class Pair:
    """A target, what can propose for it, and their tokenizer: the thing that `specviz.load` returns.

    `draft_accuracies[depth][rank]`: measured, how often the draft's candidate of a rank is right behind a path that is right.
    """

    name: str
    target: LanguageModel
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    device_name: str  # the processor in words
    draft: LanguageModel | None = None
    medusa: Heads | None = None
    draft_accuracies: tuple[tuple[float, ...], ...] | None = None
