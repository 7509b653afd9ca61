"""n-gram (prompt) lookup (Saxena 2023): where the last n tokens stood in the text before, what followed them there is proposed again.

No model runs, and the search costs O(k) a step: an index of all n-grams grows with the text. q is the share of the places looked at in
which a token comes next; one place makes it one-hot. Candidates are chosen, not drawn, so each is tested as if its q were 1.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.config import Choices, DecodeConfig
from specviz.engine.proposers.base import Committed, Proposal
from specviz.engine.tree import TokenTree, root_only
from specviz.trace import Match, Pass

MOST_PLACES = 32  # that are merged into one tree


class NGram:
    """Copies what followed the longest match, up to the first end-of-sequence token: from one place as a chain of `k` tokens, or, where
    the run asks for a tree, from all places of that length, merged. The rank of a candidate is its place among its siblings, the one
    that was met first being the best; a tree that names its candidates (`choices`) takes those ranks and no others.
    """

    def __init__(self, config: DecodeConfig, eos_ids: Sequence[int], vocab_size: int, device: torch.device):
        self.lengths = range(config.ngram_max, config.ngram_min - 1, -1)
        self.recent = config.ngram_match == "recent"
        self.choices = config.choices
        self.widths, self.most = (_widths(config), MOST_PLACES) if config.tree else ((1,) * config.k, 1)
        self.eos_ids, self.vocab_size, self.device = eos_ids, vocab_size, device
        self.places: dict[tuple[int, ...], list[int]] = defaultdict(list)  # by n-gram: where the token right behind it stands, ascending
        self.indexed = 0

    def begin(self, ids: list[int]) -> tuple[Pass, ...]:
        """Index the prompt."""
        self._index(ids)
        return ()

    def propose(self, committed: Committed, depth: int) -> Proposal:
        """See `Proposer`. Empty where the last tokens stand nowhere before."""
        ids = committed.ids
        self._index(ids)
        widths = self.widths[:depth] if depth > 0 else ()
        if not widths:
            return Proposal(root_only(ids[-1]))
        length, places = self._look_up(ids)
        if not places:
            return Proposal(root_only(ids[-1]), matches=())
        trie = _Trie(ids[-1], widths, self.choices, self.eos_ids)
        ends = [trie.add(ids[place : place + len(widths)]) for place in places]
        matches = tuple(Match(start=place - length, length=length, node=end) for place, end in zip(places, ends, strict=True))
        return Proposal(trie.tree(self.vocab_size, self.device), matches=matches)

    def keep(self, path: tuple[int, ...]) -> None:
        """The text itself is the state."""

    def _index(self, ids: list[int]) -> None:
        """Add the n-grams that have a token behind them by now. The text's last tokens have none yet, so they never match themselves."""
        for place in range(self.indexed, len(ids)):
            for n in self.lengths:
                if n <= place:
                    self.places[tuple(ids[place - n : place])].append(place)
        self.indexed = len(ids)

    def _look_up(self, ids: list[int]) -> tuple[int, list[int]]:
        """The length of the longest match, and the places right behind it, the one that counts most first; (0, []) without a match."""
        for n in self.lengths:
            if places := self.places.get(tuple(ids[-n:])):
                return n, places[: -self.most - 1 : -1] if self.recent else places[: self.most]
        return 0, []


def _widths(config: DecodeConfig) -> tuple[int, ...]:
    """The most children a node may have at each depth of the run's tree."""
    if not config.choices:
        return config.widths or ()
    return tuple(1 + max(path[depth] for path in config.choices if len(path) > depth) for depth in range(len(config.choices[-1])))


class _Trie:
    """Continuations merged by their starts, first come, first in: at most widths[d] children a node at depth d, and none but `choices`."""

    def __init__(self, root: int, widths: Sequence[int], choices: Choices | None, eos_ids: Sequence[int]):
        self.widths, self.choices, self.eos_ids = widths, choices, eos_ids
        self.tokens, self.parents = [root], [-1]
        self.children: list[dict[int, int]] = [{}]  # of every node, by token
        self.counts: list[Counter[int]] = [Counter()]  # of every node: how many continuations have which token next

    def add(self, continuation: Sequence[int]) -> int:
        """Merge a continuation into the tree, as far as there is room; returns the node that it reaches."""
        node = 0
        path: tuple[int, ...] = ()
        for token, width in zip(continuation, self.widths, strict=False):
            self.counts[node][token] += 1
            path = (*path, list(self.counts[node]).index(token))
            if path[-1] >= width or (self.choices is not None and path not in self.choices):
                break
            node = self._child(node, token)
            if token in self.eos_ids:
                break
        return node

    def _child(self, node: int, token: int) -> int:
        if token not in self.children[node]:
            self.children[node][token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(node)
            self.children.append({})
            self.counts.append(Counter())
        return self.children[node][token]

    def tree(self, vocab_size: int, device: torch.device) -> "CopiedTree":
        """The tree so far."""
        return CopiedTree(tuple(self.tokens), tuple(self.parents), counts=self.counts, vocab_size=vocab_size, device=device)


@dataclass(frozen=True, kw_only=True)
class CopiedTree(TokenTree):
    """A tree whose q is made only when a record asks for it: decoding itself never reads it, and its rows cost more than the search.

    `counts[v]` says how many of the places that reached node v have which token next.
    """

    counts: Sequence[Counter[int]]
    vocab_size: int
    device: torch.device

    def q_after(self, node: int) -> Float[Tensor, "V"] | None:
        """The share of the places in which each token comes next; None where none of them goes on."""
        return self._rows.get(node)

    @cached_property
    def _rows(self) -> dict[int, Float[Tensor, "V"]]:
        inner = [node for node, counts in enumerate(self.counts) if counts]
        q = torch.zeros(len(inner), self.vocab_size, device=self.device)
        entries = [
            (row, token, count / self.counts[node].total()) for row, node in enumerate(inner) for token, count in self.counts[node].items()
        ]
        rows, tokens, shares = zip(*entries, strict=True)
        q[list(rows), list(tokens)] = torch.tensor(shares, device=self.device)
        return dict(zip(inner, q, strict=True))
