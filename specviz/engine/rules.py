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

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.engine.divergence import entropy
from specviz.engine.sampling import draw
from specviz.engine.tree import TokenTree
from specviz.trace import Kind, Step, Verdict

# What a rule reads beyond p, entropy and argmax: see `measure`.
NEEDS: dict[str, tuple[str, ...]] = {"greedy": (), "match": ("draw",), "typical": ("draw",), "rejection": ("rejection",)}


@dataclass(frozen=True)
class Evidence:
    """What a rule may look at, node by node (entry 0 of p, p_test, q_test and u belongs to the root and means nothing).

    `p_test`, `q_test`, `u` are the numbers of a candidate's rejection test; `entropy`, `argmax`, `draw`, `residual_draw` belong to the
    distribution *after* a node. Lists that a rule does not read may be empty.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    p: Sequence[float]
    entropy: Sequence[float]
    argmax: Sequence[int]
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

    `parts` names what to compute beyond the always needed: "rejection" (tests and residual draws), "draw" (a token from every row).
    """
    parents = torch.tensor(tree.parents)[1:]
    chosen = p[parents, torch.tensor(tree.tokens)[1:]].tolist()
    found: dict[str, list] = {}
    if "draw" in parts or "rejection" in parts:
        found["draw"] = draw(p, v).tolist()
    if "rejection" in parts:
        tests, residuals = rejection_tests(tree, p)
        found["p_test"], found["q_test"] = [0.0], [0.0]
        for p_test, q_test in tests:
            found["p_test"].append(p_test)
            found["q_test"].append(q_test)
        found["residual_draw"] = list(found["draw"])
        for node, residual in residuals.items():
            found["residual_draw"][node] = int(draw(residual[None], v[node : node + 1]))
        found["u"] = u.tolist()
    return Evidence(tree.tokens, tree.parents, [1.0, *chosen], entropy(p).tolist(), p.argmax(dim=-1).tolist(), **found)


def rejection_tests(tree: TokenTree, p: Float[Tensor, "n V"]) -> tuple[list[tuple[float, float]], dict[int, Float[Tensor, "V"]]]:
    """(p_test, q_test) of every candidate, and for every node with children what is left of p when all of them are refused.

    Children are tested in rank order. A refusal of x replaces p by the residual norm((p − q)₊) and, where children are drawn without
    replacement, q by norm(q with q(x) = 0). A chosen child was never drawn: its q is one-hot, so the test is u < p(x), and the residual
    is p without x. Both are exact (Chen et al. 2024, Sequoia, theorem 1; Leviathan et al. 2023, appendix A.1).
    """
    tests: list[tuple[float, float]] = [(0.0, 0.0)] * (len(tree) - 1)
    residuals = {}
    for node, children in enumerate(tree.children):
        if not children:
            continue
        left = p[node]
        q = tree.q_after(node) if tree.drawn else None
        for child in children:
            x = tree.tokens[child]
            tests[child - 1] = (float(left[x]), 1.0 if q is None else float(q[x]))
            left, q = _refuse(left, q, x)
        residuals[node] = left
    return tests, residuals


def _refuse(p: Float[Tensor, "V"], q: Float[Tensor, "V"] | None, x: int) -> tuple[Float[Tensor, "V"], Float[Tensor, "V"] | None]:
    """p and q after the candidate x was refused."""
    if q is None:
        left = p.clone()
        left[x] = 0
    else:
        left = (p - q).clamp(min=0)
        q = q.clone()
        q[x] = 0
        q = q / q.sum().clamp(min=torch.finfo(q.dtype).tiny)
    mass = left.sum()
    # p equal to q up to rounding: a refusal then has probability 0 but for the rounding, and any draw from p is right.
    return (left / mass if mass > 0 else p), q


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
