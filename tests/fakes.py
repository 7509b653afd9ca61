"""A language model small enough to enumerate: the next token's distribution is a table over the last two tokens.

It takes the mask and the positions at their word: the tokens that a row sees must stand at positions 0 … its own, each exactly once.
So a wrong mask or position is an assertion here, not a slightly odd text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specviz.engine.costs import ModelShape
from specviz.engine.lm import Output, Pair
from specviz.trace import ModelInfo

VOCAB = 6
EOS = 5


@dataclass
class TableCache:
    """Tokens and their positions."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.tokens)

    def keep(self, start: int, rows: Sequence[int]) -> None:
        stay = [*range(start), *(start + row for row in rows)]
        self.tokens = [self.tokens[i] for i in stay]
        self.positions = [self.positions[i] for i in stay]


class TableLM:
    """`LanguageModel` over a table of logits [V, V, V]: previous token, last token, next token."""

    engine = "table"
    device, dtype = torch.device("cpu"), torch.float64

    def __init__(self, seed: int, vocab: int = VOCAB, max_context: int = 100_000, sharpness: float = 1.5, eos: bool = False):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(vocab, vocab, vocab, generator=generator, dtype=torch.float64) * sharpness
        if not eos and vocab > EOS:
            self.table[..., EOS] = -torch.inf
        self.vocab_size, self.max_context = vocab, max_context
        self.info = ModelInfo(name=f"table {seed}", sha256="0" * 64, parameters=self.table.numel())
        self.shape = ModelShape(1, 8, 2, 1, 4, 16, vocab, 8)

    def new_cache(self) -> TableCache:
        return TableCache()

    def logits_after(self, context: Sequence[int]) -> Tensor:
        """The row for a context, without any cache or tree."""
        before = context[-2] if len(context) > 1 else 0
        return self.table[before, context[-1]]

    def forward(self, cache: TableCache, tokens: Tensor, positions: Tensor, mask: Tensor) -> Output:
        cache.tokens += tokens.tolist()
        cache.positions += positions.tolist()
        always = cache.length - mask.shape[1]
        logits, hidden = [], []
        for row, position in zip(mask.tolist(), positions.tolist(), strict=True):
            visible = [*range(always), *(always + j for j, seen in enumerate(row) if seen)]
            text = {cache.positions[i]: cache.tokens[i] for i in visible}
            assert sorted(text) == list(range(position + 1)) and len(visible) == position + 1, "a row sees a wrong set of positions"
            context = [text[i] for i in range(position + 1)]
            logits.append(self.logits_after(context))
            hidden.append(self._hidden(context))
        return Output(torch.stack(logits), torch.stack(hidden))

    def prefill(self, cache: TableCache, tokens: Tensor) -> Tensor:
        cache.positions += range(cache.length, cache.length + len(tokens))
        cache.tokens += tokens.tolist()
        return self._hidden(cache.tokens)

    def _hidden(self, context: Sequence[int]) -> Tensor:
        before = context[-2] if len(context) > 1 else 0
        return torch.tensor([before, context[-1]], dtype=torch.float64)


class TableHeads:
    """Medusa heads that look their guesses up by the last token they saw."""

    info = ModelInfo(name="table heads", sha256="1" * 64, parameters=0)

    def __init__(self, seed: int, count: int = 3, vocab: int = VOCAB, calibrated: bool = True):
        self.count = count
        self.table = torch.randn(count, vocab, vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        self.accuracies = tuple((0.5, 0.2, 0.1) for _ in range(count)) if calibrated else None

    def logits(self, hidden: Tensor) -> Tensor:
        return self.table[:, int(hidden[1])]

    def flops(self) -> float:
        return 1.0

    def bytes(self) -> float:
        return 1.0

    def weight_bytes(self) -> float:
        return 1.0


class LetterTokenizer:
    """Token i is the i-th letter."""

    chat_template = None

    def apply_chat_template(self, conversation: list, *, tokenize: bool, add_generation_prompt: bool) -> str:
        raise AssertionError("there is no template")

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [min(max(ord(letter) - ord("a"), 0), VOCAB - 1) for letter in text]

    def decode(self, token_ids: list[int]) -> str:
        return "".join(chr(ord("a") + token) for token in token_ids)


def table_pair(seed: int = 0, draft_seed: int = 1, eos: bool = False, same: bool = False, max_context: int = 100_000) -> Pair:
    """A pair of tables; `same` makes the draft the target itself."""
    target = TableLM(seed, eos=eos, max_context=max_context)
    draft = TableLM(seed if same else draft_seed, eos=eos, sharpness=1.5 if same else 1.0)
    return Pair("toy", target, LetterTokenizer(), (EOS,), "a table", draft=draft, medusa=TableHeads(7))
