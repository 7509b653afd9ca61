"""From tensors to a `Step`: what is worth remembering of a round, cut to the top candidates and a few scalars."""

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from specviz.config import DecodeConfig
from specviz.engine.divergence import kl, total_variation
from specviz.engine.rules import Evidence, Judgement, measure, rejection_tests, threshold
from specviz.engine.text import TokenTexts
from specviz.engine.tree import TokenTree
from specviz.trace import Emitted, Match, Node, Pass, Row, Seconds, Step

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
    matches: tuple[Match, ...] | None = None


def step_of(done: Round, index: int, config: DecodeConfig, texts: TokenTexts) -> Step:
    """The record of a round. The numbers that the other rules would need are taken too, so that they can be tried on it later."""
    before = time.perf_counter()
    sampled = config.temperature > 0
    done = replace(done, evidence=_completed(done, sampled))
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
        matches=done.matches,
    )


def _completed(done: Round, sampled: bool) -> Evidence:
    """What the run's own rule did not have to know is measured now."""
    known = done.evidence
    missing = [part for part in ("entropy", "argmax") if not getattr(known, part)]
    if sampled and not known.u:
        missing += ["draw", "rejection"]
    more = measure(done.tree, done.p, done.u, done.v, missing)
    return replace(known, **{field: values for field, values in vars(more).items() if values})


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
    asked = list(q_of)
    theirs = torch.stack(list(q_of.values())) if asked else p[:0]
    distances = dict(zip(asked, _distances(p[asked], theirs), strict=True))
    best = dict(zip(asked, _best(theirs), strict=True))
    residuals = rejection_tests(tree, p)[1] if sampled else {}
    uniforms = done.v.tolist()
    rows = []
    for node, tops in enumerate(_best(p)):
        ids = _named(done, node, {*tops, *best.get(node, ())}, sampled)
        row: dict[str, Any] = {"ids": ids.tolist(), **_column("p", p[node, ids])}
        if node in q_of:
            row |= {**_column("q", q_of[node][ids]), **distances[node]}
        if sampled:
            row |= {"u": uniforms[node], "draw": evidence.draw[node]}
        if node in residuals:
            row |= {"residual": _rounded(residuals[node][ids].tolist()), "residual_draw": evidence.residual_draw[node]}
        entropy = evidence.entropy[node]
        row |= {"entropy": entropy, "threshold": threshold(config.epsilon, config.delta, entropy), "argmax": evidence.argmax[node]}
        rows.append(Row(**row))
    return tuple(rows)


def _best(rows: Float[Tensor, "n V"]) -> list[list[int]]:
    """The most probable tokens of every row, those of probability 0 left out."""
    top = rows.topk(min(TOP, rows.shape[-1]), dim=-1)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return [[token for token, share in zip(ids, shares, strict=True) if share > 0] for ids, shares in pairs]


def _named(done: Round, node: int, best: set[int], sampled: bool) -> Int[Tensor, "m"]:
    """The tokens that a row names, most probable under p first: the top of p and of q, the children, and what was drawn."""
    tree, evidence = done.tree, done.evidence
    named = {*best, evidence.argmax[node], *(tree.tokens[child] for child in tree.children[node])}
    if sampled:
        named |= {evidence.draw[node], evidence.residual_draw[node]}
    ids = torch.tensor(sorted(named), device=done.p.device)
    return ids[done.p[node, ids].argsort(descending=True, stable=True)]


def _distances(p: Float[Tensor, "n V"], q: Float[Tensor, "n V"]) -> list[dict[str, float]]:
    """KL and TV of rows where the proposer said something."""
    divergence, missing = kl(p, q)
    columns = zip(divergence.tolist(), missing.tolist(), total_variation(p, q).tolist(), strict=True)
    return [{"kl": d, "kl_missing": m, "tv": t} for d, m, t in columns]


def _column(name: str, shares: Float[Tensor, "m"]) -> dict[str, Any]:
    """The probabilities of the named tokens, and the mass of all others."""
    values = shares.tolist()
    return {name: _rounded(values), f"{name}_tail": _short(max(0.0, 1 - sum(values)))}


def _rounded(values: list[float]) -> tuple[float, ...]:
    return tuple(map(_short, values))


def _short(value: float) -> float:
    return float(f"{value:.6g}")  # what a figure can show; the numbers that decide are never rounded
