"""The parameters of a run: frozen, checked once, refused in one sentence."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from specviz.i18n import Fault

Method = Literal["plain", "ngram", "draft", "medusa"]
Rule = Literal["greedy", "rejection", "match", "typical"]
NgramMatch = Literal["recent", "earliest"]
METHODS: tuple[str, ...] = get_args(Method)
Choices = tuple[tuple[int, ...], ...]
RULES: tuple[str, ...] = get_args(Rule)
NGRAM_MATCHES: tuple[str, ...] = get_args(NgramMatch)
LOSSLESS: tuple[str, ...] = ("greedy", "rejection", "match")  # rules that leave the target's distribution as it is

LARGEST_TREE = 256  # candidates in one step
DEEPEST_TREE = 32
LONGEST_TREE = 20_000  # characters of a tree in writing
LONGEST_NGRAM = 16  # tokens
LONGEST_RUN = 4096  # tokens
LONGEST_PROMPT = 200_000  # characters


@dataclass(frozen=True)
class DecodeConfig:
    """How to decode. Raises Fault (a ValueError), with one sentence, when a value, or a combination of values, makes no sense.

    `k` is the length of a draft chain, or of what n-gram lookup copies. `tree` replaces the chain: "4x2x1" is a full tree with 4, 2 and 1
    children a node by depth (a sequence of integers means the same; for n-gram lookup, the most that several matches may fill),
    "sparse:24" the tree of 24 candidates that the proposer's measured accuracies ask for, "[[0],[1],[0,0]]" these candidates and no
    others, each a path of ranks (the format of published Medusa trees; a sequence of sequences means the same, and any order is sorted);
    None is the method's default: a chain of `k`, the calibrated tree for Medusa.
    The last `ngram_max` tokens are looked up first, then fewer, down to `ngram_min`; of several matches the most recent or the earliest
    one counts (`ngram_match`).
    """

    method: Method = "draft"
    rule: Rule = "rejection"
    k: int = 5
    tree: str | None = None
    ngram_max: int = 4
    ngram_min: int = 2
    ngram_match: NgramMatch = "recent"
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    epsilon: float = 0.09
    delta: float = 0.3
    max_new_tokens: int = 64
    seed: int = 0
    chat: bool = True

    def __post_init__(self) -> None:
        _one_of("method", self.method, METHODS)
        _one_of("rule", self.rule, RULES)
        _integer("k", self.k, 1 if self.method in ("draft", "ngram") else 0, DEEPEST_TREE)
        _integer("ngram_max", self.ngram_max, 1, LONGEST_NGRAM)
        _integer("ngram_min", self.ngram_min, 1, self.ngram_max)
        _one_of("ngram_match", self.ngram_match, NGRAM_MATCHES)
        _real("temperature", self.temperature, 0, 10)
        _integer("top_k", self.top_k, 0, 2**31 - 1)
        _real("top_p", self.top_p, 0, 1)
        _real("repetition_penalty", self.repetition_penalty, 0, 10)
        _real("epsilon", self.epsilon, 0, 1)
        _real("delta", self.delta, 0, 10)
        _integer("max_new_tokens", self.max_new_tokens, 1, LONGEST_RUN)
        _integer("seed", self.seed, 0, 2**63 - 1)
        for name in ("top_p", "repetition_penalty"):
            if getattr(self, name) == 0:
                raise Fault("error.above_zero", name=name)
        if not isinstance(self.chat, bool):
            raise Fault("error.true_or_false", name="chat", value=_short(self.chat))
        if self.method == "plain" and self.rule == "typical":
            raise Fault("error.typical_plain")
        object.__setattr__(self, "tree", _tree(self.tree, self.method))

    @property
    def greedy(self) -> bool:
        """Whether only the argmax decides: the greedy rule, or any rule at temperature 0."""
        return self.temperature == 0 or self.rule == "greedy"

    @property
    def shown_temperature(self) -> float:
        """The temperature at which p and q are recorded: the run's own, or 1 where it is 0."""
        return self.temperature or 1.0

    @property
    def lossless(self) -> bool:
        """Whether the text is distributed as the target's own. Typical acceptance changes it, except at temperature 0."""
        return self.rule in LOSSLESS or self.temperature == 0

    @property
    def widths(self) -> tuple[int, ...] | None:
        """Children a node by depth, where `tree` is a full tree."""
        return tuple(int(width) for width in self.tree.split("x")) if self.tree and self.tree[0].isdigit() else None

    @property
    def sparse_size(self) -> int | None:
        """The number of candidates, where `tree` is a calibrated one."""
        return int(self.tree.split(":")[1]) if self.tree and ":" in self.tree else None

    @property
    def choices(self) -> Choices | None:
        """The candidates as paths of ranks, sorted by length, then by rank, where `tree` names each of them."""
        return tuple(map(tuple, json.loads(self.tree))) if self.tree and self.tree[0] == "[" else None

    @property
    def calibrated(self) -> bool:
        """Whether the tree is Medusa's calibrated one: of a size that was asked for, or of the one that is fastest here."""
        return self.method == "medusa" and (self.tree is None or self.sparse_size is not None)


def tree_size(widths: Sequence[int]) -> int:
    """Candidates of a full tree: Σ_d Π_{i≤d} widths_i (the root is not one)."""
    size = 0
    level = 1
    for width in widths:
        level *= width
        size += level
    return size


def choices_text(shape: Sequence[Sequence[int]]) -> str:
    """A tree in the published choices format, as `DecodeConfig.tree` writes it: "[[0],[1],[0,0]]"."""
    return json.dumps(sorted(map(list, shape), key=lambda path: (len(path), path)), separators=(",", ":"))


def _tree(tree: object, method: str) -> str | None:
    if tree is None or tree == "":
        return None
    listed = _listed(tree)
    text = "" if listed else "x".join(map(_short, tree)) if isinstance(tree, (list, tuple)) else str(tree)
    if not listed and not re.fullmatch(r"[0-9]{1,4}(x[0-9]{1,4})*|sparse:[0-9]{1,4}", text):
        raise Fault("error.tree_syntax", value=_short(text))
    if method == "plain":
        raise Fault("error.tree_plain")
    if listed:
        return choices_text(sorted(_checked(listed)))
    if text.startswith("sparse:"):
        if method not in ("medusa", "draft"):
            raise Fault("error.tree_sparse")
        _integer("tree", int(text[7:]), 1, LARGEST_TREE)
        return text
    widths = [int(width) for width in text.split("x")]
    if 0 in widths or len(widths) > DEEPEST_TREE or tree_size(widths) > LARGEST_TREE:
        raise Fault("error.tree_size", value=_short(text), largest=LARGEST_TREE, deepest=DEEPEST_TREE)
    return text


def _listed(tree: object) -> Sequence[object] | None:
    """The paths of a tree that names its candidates; None for other ways to write one. Python's tuples and commas at the end are read."""
    if isinstance(tree, str) and tree.lstrip().startswith(("[", "(")) and len(tree) <= LONGEST_TREE:
        text = re.sub(r"\s", "", tree).replace("(", "[").replace(")", "]").replace(",]", "]")
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Fault("error.tree_syntax", value=_short(text)) from error
    if isinstance(tree, (list, tuple)) and tree and all(isinstance(path, (list, tuple)) for path in tree):
        return tree
    return None


def _checked(listed: Sequence[Any]) -> set[tuple[int, ...]]:
    """The paths, each once and behind its parent; raises Fault where they are no tree."""
    if len(listed) > LARGEST_TREE or not all(1 <= len(path) <= DEEPEST_TREE for path in listed):
        raise Fault("error.tree_size", value=_short(listed), largest=LARGEST_TREE, deepest=DEEPEST_TREE)
    for rank in (rank for path in listed for rank in path):
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < 2**31:
            raise Fault("error.tree_rank", value=_short(rank))
    paths: set[tuple[int, ...]] = set()
    for path in sorted(map(tuple, listed), key=len):
        if path in paths:
            raise Fault("error.tree_twice", value=_short(list(path)))
        if len(path) > 1 and path[:-1] not in paths:
            raise Fault("error.tree_hole", value=_short(list(path)), parent=_short(list(path[:-1])))
        paths.add(path)
    return paths


def _short(value: object) -> str:
    try:
        return str(value)[:40]
    except (ValueError, RecursionError):  # a whole number of more than 4300 digits, or lists in lists in lists: Python writes neither
        return "…"


def _one_of(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise Fault("error.unknown_choice", name=name, value=_short(value), choices=", ".join(choices))


def _integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Fault("error.whole_number", name=name, low=low, high=high, value=_short(value))


def _real(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Fault("error.number", name=name, low=low, high=high, value=_short(value))
