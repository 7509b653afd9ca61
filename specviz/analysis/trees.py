"""Trees of candidates by their shape alone: how many there are, what they should yield, and what a recorded run tells of them.

A shape is its candidates, each a path of ranks: (2, 0) is the best child of the third-best child of the root. accuracies[depth][rank] is
how often the candidate of that rank is right where the path above it is.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from specviz.config import DecodeConfig
from specviz.i18n import Fault
from specviz.trace import Step

Path = tuple[int, ...]
Accuracies = Sequence[Sequence[float]]


def full_counts(widths: Sequence[int]) -> list[int]:
    """Candidates by depth of the tree of all combinations of the `widths[d]` best of each head; the last is the number of its paths."""
    return list(accumulate(widths, mul))


def full_expected(widths: Sequence[int], accuracies: Accuracies) -> float | None:
    """Tokens a step that this tree should yield: 1 + Σ_k Π_{d≤k} Σ_{r<widths[d]} accuracies[d][r]; None where one is not known."""
    if any(depth >= len(accuracies) or width > len(accuracies[depth]) for depth, width in enumerate(widths)):
        return None
    passed = [math.fsum(accuracies[depth][:width]) for depth, width in enumerate(widths)]
    return 1 + sum(accumulate(passed, mul))


def depth_counts(shape: Iterable[Path]) -> list[int]:
    """Candidates of a shape by depth."""
    depths = [len(path) for path in shape]
    return [depths.count(depth) for depth in range(1, max(depths, default=0) + 1)]


def profile(heads: int, first: float, by_head: float, by_rank: float, ranks: int = 10) -> list[list[float]]:
    """Assumed accuracies: first · by_head^depth · by_rank^rank; ranks of a head that add up to more than 1 are divided by their sum."""
    rows = [[first * by_head**depth * by_rank**rank for rank in range(ranks)] for depth in range(heads)]
    return [[share / max(1.0, sum(row)) for share in row] for row in rows]


def rank_paths(step: Step, config: DecodeConfig) -> list[Path]:
    """The path of ranks of every node of a recorded step; () is the root.

    A record holds a candidate's place among its siblings. It is the rank, but for a tree that leaves ranks out: then Medusa's candidates
    stand in the order of the tree that was asked for, and those of others cannot be told from the record (Fault).
    """
    paths: list[Path] = [()]
    for node in step.tree[1:]:
        paths.append((*paths[node.parent], node.rank))
    asked = config.choices
    if asked is None or _without_gaps(asked):
        return paths
    if config.method != "medusa":
        raise Fault("lab.ranks_unknown")
    return [(), *asked[: len(step.tree) - 1]]


def _without_gaps(shape: Collection[Path]) -> bool:
    there = set(shape)
    return all(path[-1] == 0 or (*path[:-1], path[-1] - 1) in there for path in shape)


@dataclass(frozen=True)
class Recorded:
    """The steps of a run and the rank paths of their nodes."""

    steps: tuple[Step, ...]
    config: DecodeConfig
    paths: tuple[tuple[Path, ...], ...]

    def missing(self, shape: Collection[Path]) -> list[Path]:
        """Candidates of `shape` that no step proposed, the shallowest first."""
        proposed = {path for paths in self.paths for path in paths}
        return sorted((path for path in shape if path not in proposed), key=lambda path: (len(path), path))

    def restricted(self, index: int, shape: Collection[Path]) -> Step:
        """Step `index` as if it had proposed nothing outside of `shape`; its verdicts are still those of the whole tree.

        Raises Fault where the record does not tell how such a tree is judged: rejection tests siblings in order, and what is left of p
        for the later ones depends on the earlier.
        """
        step, wanted = self.steps[index], set(shape)
        keep = [node for node, path in enumerate(self.paths[index]) if path in wanted or not node]
        if self.config.rule == "rejection" and not self.config.greedy:
            self._refuse_left_out(index, set(keep))
        place = {node: i for i, node in enumerate(keep)}
        tree = tuple(step.tree[node].model_copy(update={"parent": place.get(step.tree[node].parent, -1)}) for node in keep)
        return step.model_copy(update={"tree": tree, "rows": tuple(step.rows[node] for node in keep), "matches": None})

    def _refuse_left_out(self, index: int, keep: set[int]) -> None:
        step = self.steps[index]
        for node in keep:
            siblings = [] if not node else step.children(step.tree[node].parent)
            before = siblings[: siblings.index(node)] if node else []
            if left_out := [other for other in before if other not in keep]:
                raise Fault("lab.order_matters", path=text_of(self.paths[index][left_out[0]]), later=text_of(self.paths[index][node]))


def recorded(steps: Sequence[Step], config: DecodeConfig) -> Recorded:
    """A run, ready for its trees to be looked at; raises Fault where it proposed nothing, or its ranks are not known."""
    if all(len(step.tree) == 1 for step in steps):
        raise Fault("lab.nothing_proposed")
    return Recorded(tuple(steps), config, tuple(tuple(rank_paths(step, config)) for step in steps))


def text_of(path: Path) -> str:
    """A path as the published format writes it: "[2,0]"."""
    return f"[{','.join(map(str, path))}]"
