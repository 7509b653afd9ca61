"""Who is accepted. Pure functions of numbers: the same ones decide while decoding and judge a recorded step again.

`evidence` condenses the full distributions to a few numbers a node; `judge` decides on those alone. So every verdict can be re-derived
from the trace, and another rule, ε or δ can be tried on a recorded step without the model.

The lossless rules leave the text distributed as the target's own: greedy (the argmax), rejection (Leviathan et al. 2023; for trees
Miao et al. 2024, and Chen et al. 2024 for children drawn without replacement) and sample-and-match. Typical acceptance (Cai et al. 2024)
does not.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.engine.divergence import entropy
from specviz.engine.sampling import draw
from specviz.engine.tree import TokenTree
from specviz.trace import Kind, Step, Verdict

# What a rule reads beyond p: see `measure`.
NEEDS: dict[str, tuple[str, ...]] = {
    "greedy": ("argmax",),
    "match": ("draw",),
    "typical": ("draw", "entropy"),
    "rejection": ("draw", "rejection"),
}


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at, node by node (entry 0 of p, p_test, q_test and u belongs to the root and means nothing).

    `p_test`, `q_test`, `u` are the numbers of a candidate's rejection test; `entropy`, `argmax`, `draw`, `residual_draw` belong to the
    distribution *after* a node. Lists that a rule does not read may be empty.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    p: Sequence[float]
    entropy: Sequence[float] = ()
    argmax: Sequence[int] = ()
    p_test: Sequence[float] = ()
    q_test: Sequence[float] = ()
    u: Sequence[float] = ()
    draw: Sequence[int] = ()
    residual_draw: Sequence[int] = ()

    def children(self, node: int) -> list[int]:
        """The children of `node` in rank order."""
        return [i for i, parent in enumerate(self.parents) if i and parent == node]


@dataclass(frozen=True)
class Judgement:
    """The outcome of a step: the accepted `path` (without the root), a verdict a node, and the extra token with its kind."""

    path: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    token_id: int
    kind: Kind

    @property
    def stopped_at(self) -> int:
        """The node after which no candidate was accepted."""
        return self.path[-1] if self.path else 0


def threshold(epsilon: float, delta: float, entropy: float) -> float:
    """min(ε, δ·e^(−H)): the probability that typical acceptance asks for, lower where the target itself is unsure."""
    return min(epsilon, delta * math.exp(-entropy))


def judge(rule: str, evidence: Evidence, epsilon: float = 0.09, delta: float = 0.3) -> Judgement:
    """Apply `rule` ("greedy", "rejection", "match", "typical") to a step."""
    if rule == "typical":
        path, refused = _typical(evidence, epsilon, delta)
    else:
        path, refused = _descend(rule, evidence)
    last = path[-1] if path else 0
    leaf = not evidence.children(last)
    extra = evidence.argmax if rule == "greedy" else evidence.residual_draw if rule == "rejection" and not leaf else evidence.draw
    kind: Kind = "plain" if len(evidence.tokens) == 1 else "bonus" if leaf else "recovered"
    verdicts: list[Verdict] = ["untested"] * len(evidence.tokens)
    verdicts[0] = "root"
    for node in refused:
        verdicts[node] = "refused"
    for node in path:
        verdicts[node] = "accepted"
    return Judgement(tuple(path), tuple(verdicts), extra[last], kind)


def _descend(rule: str, evidence: Evidence) -> tuple[list[int], list[int]]:
    """From the root to the first accepted child, again and again; returns the path and the candidates refused on the way."""
    node = 0
    path: list[int] = []
    refused: list[int] = []
    while True:
        accepted = None
        for child in evidence.children(node):
            if _passes(rule, evidence, child, node):
                accepted = child
                break
            refused.append(child)
        if accepted is None:
            return path, refused
        if rule != "rejection":  # one argmax, or one draw, decides over all siblings at once; rejection tests one after the other
            refused += [child for child in evidence.children(node) if child > accepted]
        path.append(accepted)
        node = accepted


def _passes(rule: str, evidence: Evidence, child: int, parent: int) -> bool:
    if rule == "greedy":
        return evidence.tokens[child] == evidence.argmax[parent]
    if rule == "match":
        return evidence.tokens[child] == evidence.draw[parent]
    # u < p/q without a division. Strictly: a token of probability 0 must not pass when the uniform is exactly 0.
    return evidence.u[child] * evidence.q_test[child] < evidence.p_test[child]


def _typical(evidence: Evidence, epsilon: float, delta: float) -> tuple[list[int], list[int]]:
    """The longest path whose nodes all pass p > min(ε, δ·e^(−H)); of equally long ones the likeliest, then the first."""
    best: tuple[int, float, int] = (0, 0.0, 0)  # depth, log probability, minus the node
    reached = {0: (0, 0.0)}  # nodes whose whole path passes
    refused = []
    for node, parent in enumerate(evidence.parents):
        if not node or parent not in reached:
            continue
        if evidence.p[node] <= threshold(epsilon, delta, evidence.entropy[parent]):
            refused.append(node)
            continue
        depth, logp = reached[parent]
        reached[node] = (depth + 1, logp + math.log(evidence.p[node]))
        best = max(best, (*reached[node], -node))
    path = []
    node = -best[2]
    while node > 0:
        path.append(node)
        node = evidence.parents[node]
    return path[::-1], refused


def measure(tree: TokenTree, p: Float[Tensor, "n V"], u: Float[Tensor, "n"], v: Float[Tensor, "n"], parts: Iterable[str]) -> Evidence:
    """Condense the target's rows to evidence. `u` are the uniforms of the tests, `v` those of the draws.

    `parts` names what to compute beyond p itself: "entropy", "argmax", "draw" (a token from every row), "rejection" (tests and residual
    draws; with "draw"). A pass over a whole vocabulary is not free, so a rule asks only for what it reads.
    """
    parents = torch.tensor(tree.parents)[1:]
    chosen = p[parents, torch.tensor(tree.tokens)[1:]].tolist()
    found: dict[str, Any] = {}
    if "entropy" in parts:
        found["entropy"] = entropy(p).tolist()
    if "argmax" in parts:
        found["argmax"] = p.argmax(dim=-1).tolist()
    if "draw" in parts:
        found["draw"] = draw(p, v).tolist()
    if "rejection" in parts:
        tests, residuals = rejection_tests(tree, p)
        p_test, q_test = zip((0.0, 0.0), *tests, strict=True)
        found |= {"p_test": p_test, "q_test": q_test, "u": u.tolist(), "residual_draw": list(found["draw"])}
        if residuals:
            for node, token in zip(residuals, draw(torch.stack([*residuals.values()]), v[[*residuals]]).tolist(), strict=True):
                found["residual_draw"][node] = token
    return Evidence(tree.tokens, tree.parents, [1.0, *chosen], **found)


def rejection_tests(tree: TokenTree, p: Float[Tensor, "n V"]) -> tuple[list[tuple[float, float]], dict[int, Float[Tensor, "V"]]]:
    """(p_test, q_test) of every candidate, and for every node with children what is left of p when all of them are refused.

    Children are tested in rank order. A refusal of x replaces p by the residual norm((p − q)₊) and, where children are drawn without
    replacement, q by norm(q with q(x) = 0). A chosen child was never drawn: its q is one-hot, so the test is u < p(x), and the residual
    is p without x. Both are exact (Chen et al. 2024, Sequoia, theorem 1; Leviathan et al. 2023, appendix A.1).
    """
    tests = [(0.0, 0.0)] * (len(tree) - 1)
    inner = [node for node, children in enumerate(tree.children) if children]
    left = _rows(p, inner)
    q = _rows(tree.q, [tree.q_row[node] for node in inner]) if tree.drawn and tree.q is not None else None
    for rank in range(max((len(tree.children[node]) for node in inner), default=0)):  # all children of a rank at once
        rows = [row for row, node in enumerate(inner) if rank < len(tree.children[node])]
        nodes = [tree.children[inner[row]][rank] for row in rows]
        x = torch.tensor([[tree.tokens[node]] for node in nodes], device=p.device)
        ours, theirs = _rows(left, rows), None if q is None else _rows(q, rows)
        said = [[1.0]] * len(nodes) if theirs is None else theirs.gather(1, x).tolist()
        for node, [mine], [other] in zip(nodes, ours.gather(1, x).tolist(), said, strict=True):
            tests[node - 1] = (mine, other)
        left = _put(left, rows, _residual(ours, theirs, x))
        if q is not None and theirs is not None:
            q = _put(q, rows, _without(theirs, x))
    return tests, dict(zip(inner, left, strict=True))


def _rows(table: Float[Tensor, "n V"], rows: list[int]) -> Float[Tensor, "m V"]:
    """Some rows of a table; all of them in order are the table itself."""
    return table if rows == list(range(len(table))) else table.index_select(0, torch.tensor(rows, dtype=torch.long, device=table.device))


def _put(table: Float[Tensor, "n V"], rows: list[int], new: Float[Tensor, "m V"]) -> Float[Tensor, "n V"]:
    """The table with new rows in those places."""
    return new if len(rows) == len(table) else table.index_copy(0, torch.tensor(rows, device=table.device), new)


def _residual(p: Float[Tensor, "n V"], q: Float[Tensor, "n V"] | None, x: Int[Tensor, "n 1"]) -> Float[Tensor, "n V"]:
    """What is left of p after the candidates x were refused."""
    left = p.scatter(1, x, 0) if q is None else (p - q).clamp_(min=0)
    mass = left.sum(dim=1, keepdim=True)
    # p equal to q up to rounding: a refusal then has probability 0 but for the rounding, and any draw from p is right.
    return left.div_(mass) if bool((mass > 0).all()) else torch.where(mass > 0, left / mass, p)


def _without(q: Float[Tensor, "n V"], x: Int[Tensor, "n 1"]) -> Float[Tensor, "n V"]:
    """q for the next sibling: the candidates x are not put back."""
    left = q.scatter(1, x, 0)
    return left.div_(left.sum(dim=1, keepdim=True).clamp_(min=torch.finfo(q.dtype).tiny))


def recorded(step: Step) -> Evidence:
    """The evidence of a recorded step. At temperature 0 only the greedy rule can be judged again: there were no draws."""
    nodes, rows = step.tree, step.rows
    return Evidence(
        tokens=[node.token_id for node in nodes],
        parents=[node.parent for node in nodes],
        p=[node.p or 0.0 for node in nodes],
        entropy=[row.entropy for row in rows],
        argmax=[row.argmax for row in rows],
        p_test=[node.p_test or 0.0 for node in nodes],
        q_test=[node.q_test or 0.0 for node in nodes],
        u=[node.u or 0.0 for node in nodes],
        draw=[row.argmax if row.draw is None else row.draw for row in rows],
        residual_draw=[row.argmax if row.residual_draw is None else row.residual_draw for row in rows],
    )
