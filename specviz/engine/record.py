"""From tensors to a `Step`: what is worth remembering of a round, cut to the top candidates and a few scalars."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.engine.divergence import kl, total_variation
from specviz.engine.rules import Evidence, Judgement, measure, rejection_tests, threshold
from specviz.engine.text import TokenTexts
from specviz.engine.tree import TokenTree
from specviz.trace import Emitted, Node, Pass, Row, Seconds, Step

TOP = 8  # candidates of p, and as many of q, that a row names


@dataclass(frozen=True)
class Round:
    """All that one propose → verify → commit round left behind, still as tensors."""

    context: int
    tree: TokenTree
    p: Float[Tensor, "n V"]
    u: Float[Tensor, "n"]
    v: Float[Tensor, "n"]
    evidence: Evidence
    judgement: Judgement
    emitted: tuple[Emitted, ...]
    dropped: int
    passes: tuple[Pass, ...]
    seconds: Seconds


def step_of(done: Round, index: int, config: DecodeConfig, texts: TokenTexts) -> Step:
    """The record of a round. The numbers that the other rules would need are taken too, so that they can be tried on it later."""
    before = time.perf_counter()
    sampled = config.temperature > 0
    if sampled and not done.evidence.u:
        done = replace(done, evidence=measure(done.tree, done.p, done.u, done.v, ("rejection",)))
    rows = _rows(done, config, sampled)
    named = {token for row in rows for token in row.ids}
    nodes = _nodes(done, texts, sampled)
    return Step(
        index=index,
        context=done.context,
        tree=nodes,
        rows=rows,
        texts={token: texts[token] for token in sorted(named)},
        stopped_at=done.judgement.stopped_at,
        emitted=done.emitted,
        dropped=done.dropped,
        passes=done.passes,
        seconds=done.seconds.model_copy(update={"record": time.perf_counter() - before}),
    )


def _nodes(done: Round, texts: TokenTexts, sampled: bool) -> tuple[Node, ...]:
    tree, evidence = done.tree, done.evidence
    nodes = [Node(token_id=tree.tokens[0], text=texts[tree.tokens[0]], parent=-1, verdict="root")]
    rank = {child: place for children in tree.children for place, child in enumerate(children)}
    for i in range(1, len(tree)):
        token, parent = tree.tokens[i], tree.parents[i]
        q = tree.q_after(parent)
        node: dict[str, Any] = {"token_id": token, "text": texts[token], "parent": parent, "rank": rank[i]}
        node |= {"p": evidence.p[i], "q": None if q is None else float(q[token]), "verdict": done.judgement.verdicts[i]}
        if sampled:
            node |= {"p_test": evidence.p_test[i], "q_test": evidence.q_test[i], "u": evidence.u[i]}
        nodes.append(Node(**node))
    return tuple(nodes)


def _rows(done: Round, config: DecodeConfig, sampled: bool) -> tuple[Row, ...]:
    tree, p, evidence = done.tree, done.p, done.evidence
    q_of = {node: q for node in range(len(tree)) if (q := tree.q_after(node)) is not None}
    distances = _distances(p, q_of)
    residuals = rejection_tests(tree, p)[1] if sampled else {}
    uniforms = done.v.tolist()
    rows = []
    for node, ids in enumerate(_named(done, q_of, sampled)):
        q, residual = q_of.get(node), residuals.get(node)
        row: dict[str, Any] = {"ids": ids.tolist(), "p": _rounded(p[node, ids]), "p_tail": _tail(p[node], ids)}
        if q is not None:
            row |= {"q": _rounded(q[ids]), "q_tail": _tail(q, ids), **distances[node]}
        if sampled:
            row |= {"u": uniforms[node], "draw": evidence.draw[node]}
        if residual is not None:
            row |= {"residual": _rounded(residual[ids]), "residual_draw": evidence.residual_draw[node]}
        entropy = evidence.entropy[node]
        row |= {"entropy": entropy, "threshold": threshold(config.epsilon, config.delta, entropy), "argmax": evidence.argmax[node]}
        rows.append(Row(**row))
    return tuple(rows)


def _named(done: Round, q_of: dict[int, Tensor], sampled: bool) -> Iterator[Tensor]:
    """The tokens that each row names, most probable under p first: the top of p and of q, the children, and what was drawn."""
    tree, evidence = done.tree, done.evidence
    top_p = done.p.topk(min(TOP, done.p.shape[-1]), dim=-1).indices.tolist()
    for node, tops in enumerate(top_p):
        named = {*tops, evidence.argmax[node], *(tree.tokens[child] for child in tree.children[node])}
        if node in q_of:
            named.update(q_of[node].topk(min(TOP, done.p.shape[-1])).indices.tolist())
        if sampled:
            named.update((evidence.draw[node], evidence.residual_draw[node]))
        ids = torch.tensor(sorted(named), device=done.p.device)
        yield ids[done.p[node, ids].argsort(descending=True, stable=True)]


def _distances(p: Float[Tensor, "n V"], q_of: dict[int, Tensor]) -> dict[int, dict[str, float]]:
    """KL and TV of every row where the proposer said something."""
    if not q_of:
        return {}
    nodes = list(q_of)
    ours, theirs = p[nodes], torch.stack([q_of[node] for node in nodes])
    divergence, missing = kl(ours, theirs)
    columns = zip(divergence.tolist(), missing.tolist(), total_variation(ours, theirs).tolist(), strict=True)
    return {node: {"kl": d, "kl_missing": m, "tv": t} for node, (d, m, t) in zip(nodes, columns, strict=True)}


def _tail(row: Float[Tensor, "V"], ids: Tensor) -> float:
    return _short(max(0.0, float(row.sum() - row[ids].sum())))


def _rounded(values: Tensor) -> tuple[float, ...]:
    return tuple(_short(value) for value in values.tolist())


def _short(value: float) -> float:
    return float(f"{value:.6g}")  # what a figure can show; the numbers that decide are never rounded
