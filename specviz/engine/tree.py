"""Trees of candidates. A tree is its tokens and their parents; depth, mask, paths and children are derived, never stored.

Node 0 is the root, the last committed token; parents stand before their children. A chain is a tree with one path.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from specviz.i18n import Fault


@dataclass(frozen=True)
class TokenTree:
    """A proposal: candidates, and the distributions that they come from.

    `q` has one row for each distinct distribution of the proposer (warped); `q_row[v]` is the row that the children of node v come
    from, or -1 where the proposer said nothing. `drawn` tells whether children were drawn from that row, without replacement, or
    chosen (its most probable tokens): a chosen candidate is tested as if its q were 1.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    q: Float[Tensor, "m V"] | None = None
    q_row: tuple[int, ...] = (-1,)
    drawn: bool = False

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of every node from the root."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The children of every node, in rank order."""
        children: list[list[int]] = [[] for _ in self.tokens]
        for node, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(node)
        return tuple(map(tuple, children))

    def q_after(self, node: int) -> Float[Tensor, "V"] | None:
        """The distribution that the children of `node` come from; None where the proposer said nothing."""
        row = self.q_row[node]
        return None if self.q is None or row < 0 else self.q[row]

    def path(self, node: int) -> list[int]:
        """The nodes from the root to `node`, both included."""
        path = [node]
        while (node := self.parents[node]) >= 0:
            path.append(node)
        return path[::-1]

    def text(self, node: int) -> list[int]:
        """The candidates' tokens from below the root down to `node`."""
        return [self.tokens[above] for above in self.path(node)[1:]]

    def mask(self) -> Bool[Tensor, "n n"]:
        """The tree attention mask: node i attends to node j where j is i or an ancestor of i."""
        lineages = [[True] + [False] * (len(self) - 1)]
        for node, parent in enumerate(self.parents[1:], start=1):
            lineages.append(lineages[parent].copy())
            lineages[node][node] = True
        return torch.tensor(lineages)


def root_only(token: int) -> TokenTree:
    """The empty proposal: plain decoding is this tree in every step."""
    return TokenTree((token,), (-1,))


Shape = tuple[tuple[int, ...], ...]  # one tuple of ranks a candidate: (2, 0) is the best child of the third-best child of the root


def full_shape(widths: Sequence[int]) -> Shape:
    """Every path of ranks of a full tree with widths[d] children a node at depth d, sorted by length, then by rank."""
    level: list[tuple[int, ...]] = [()]
    shape: list[tuple[int, ...]] = []
    for width in widths:
        level = [(*path, rank) for path in level for rank in range(width)]
        shape += level
    return tuple(shape)


def growth(accuracies: Sequence[Sequence[float]], size: int) -> Shape:
    """The `size` candidates that are most likely to be right, in the order in which a tree grows by them, given accuracies[head][rank]
    (Medusa, Cai et al. 2024, section 2.3.3).

    Taken greedily, best first, among the next siblings and first children of what is already in the tree. Where accuracies fall with the
    rank, so does a candidate's chance along both, and no better set of any size up to this exists; measured ones may rise by chance where
    two ranks hardly differ.
    """
    frontier: set[tuple[int, ...]] = {(0,)}
    shape: list[tuple[int, ...]] = []
    while frontier and len(shape) < size:
        path = max(frontier, key=lambda candidate: (chance(candidate, accuracies), -len(candidate)))
        frontier.remove(path)
        shape.append(path)
        head, rank = len(path) - 1, path[-1]
        if rank + 1 < len(accuracies[head]):
            frontier.add((*path[:-1], rank + 1))
        if head + 1 < len(accuracies):
            frontier.add((*path, 0))
    return tuple(shape)


def sparse_shape(accuracies: Sequence[Sequence[float]], size: int) -> Shape:
    """The calibrated tree of `size` candidates: the first of `growth`, sorted by length, then by rank."""
    return tuple(sorted(growth(accuracies, size), key=lambda path: (len(path), path)))


def chance(path: tuple[int, ...], accuracies: Sequence[Sequence[float]]) -> float:
    """The chance that a candidate and all above it are right, heads taken as independent: Π accuracies[depth][rank]."""
    return math.prod(accuracies[head][rank] for head, rank in enumerate(path))


def expected_tokens(shape: Shape, accuracies: Sequence[Sequence[float]]) -> float:
    """Tokens a step that a tree should yield: 1 + Σ of its candidates' chances."""
    return 1 + sum(chance(path, accuracies) for path in shape)


def refuse_ranks(shape: Shape, vocab_size: int) -> None:
    """Raise Fault where a shape asks for a candidate behind the last token of the vocabulary."""
    worst = max(rank for path in shape for rank in path)
    if worst >= vocab_size:
        raise Fault("error.tree_wide", rank=worst, size=vocab_size)


def parents_of(shape: Shape) -> tuple[int, ...]:
    """The parent of every node of a shape, the root (node 0, parent -1) included; raises Fault where a parent is missing."""
    index = {(): 0} | {path: i for i, path in enumerate(shape, start=1)}
    if any(path[:-1] not in index for path in shape):
        raise Fault("error.tree_syntax", value=str(shape)[:40])
    return (-1, *(index[path[:-1]] for path in shape))
