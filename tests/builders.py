"""Hand-made steps and traces for tests: made-up distributions, but every derived number follows from them by the plain formulas.

    step = make_step(widths=(3, 2), config=DecodeConfig(temperature=1.0))
    trace = make_trace(steps=20, config=DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7))
    python -m tests.builders out.json          a sample trace of 20 steps, for looking at pages without a model

The judging here is a second, independent writing of the four rules, so it may be held against engine/rules.py.
"""

import math
import random
import sys
from dataclasses import dataclass, replace
from typing import Literal

from specviz.config import DecodeConfig
from specviz.engine.costs import ModelShape
from specviz.trace import (
    Baseline,
    BatchPass,
    Emitted,
    ExpectedTokens,
    Header,
    ModelInfo,
    Node,
    Pass,
    Peaks,
    Row,
    Seconds,
    Step,
    Timings,
    Trace,
    Verdict,
)

Outcome = Literal["free", "accept", "refuse"]
Distribution = list[float]

WORDS = (
    " the", " a", " of", " and", " in", " to", " night", " dark", " light", " sky", " star", " stars", " shone", " was", " were", " is",
    " over", " under", " river", " hill", " small", " old", " quiet", " bright", " blue", ",", ".", "\n", " she", " he", " they", " said",
    " saw", " found", " walked", "ing", "ed", "s", " 中", " 文", "夜", "🙂", "${x}", "<script>alert(1)</script>", " שלום", "e\u0301",
    " if (a < b) {", "</s>",
)  # fmt: skip
EOS = len(WORDS) - 1
TARGET = ModelShape(layers=30, width=576, heads=9, kv_heads=3, head_dim=64, ffn=1536, head_rows=49152, bytes_per_value=2)
DRAFT = replace(TARGET, layers=4)
PEAKS = Peaks(device="Some CPU", dtype="bfloat16", flops=3.2e11, bandwidth=2.4e10, measured_on="2026-01-31")
TOP = 8  # candidates of p and of q that a row keeps


@dataclass(frozen=True)
class _Proposal:
    """One node while the tree grows: its token path decides p and q after it."""

    token: int
    parent: int
    rank: int
    path: tuple[int, ...]


def make_step(
    index: int = 0,
    context: int = 20,
    widths: tuple[int, ...] | None = None,
    config: DecodeConfig | None = None,
    seed: int = 0,
    outcome: Outcome = "free",
    keep: int | None = None,
    root: int = 6,
) -> Step:
    """A step under `config`.

    `widths` are the children a node by depth: () is plain decoding, (1, 1, 1) a chain of 3; None takes what `config` asks for.
    `outcome` "accept" makes the first child of every node pass under the rule, "refuse" makes every candidate fail. `keep` cuts the
    emitted tokens to that many, as an EOS or the budget would. `root` is the token of node 0.
    """
    config = config or DecodeConfig(temperature=1.0)
    widths = _widths(config) if widths is None else widths
    world = _World(seed, index, context, config, outcome)
    proposals = _grow(world, widths, root)
    tree, rows = _score(world, proposals, len(widths))
    path, verdicts, extra = judge(tree, rows, config)
    tree = tuple(node.model_copy(update={"verdict": verdict}) for node, verdict in zip(tree, verdicts, strict=True))
    emitted = _emit(tree, path, extra)
    kept = emitted[:keep]
    passes = _passes(config, widths, len(tree), context)
    ids = {token for row in rows for token in row.ids} | {extra} | {node.token_id for node in tree}
    return Step(
        index=index, context=context, tree=tree, rows=rows, texts={i: WORDS[i] for i in sorted(ids)}, stopped_at=path[-1] if path else 0,
        emitted=kept, dropped=len(emitted) - len(kept), passes=passes, seconds=_seconds(passes),
    )  # fmt: skip


def make_header(config: DecodeConfig | None = None, baseline: bool = True, peaks: Peaks | None = PEAKS, prompt_tokens: int = 20) -> Header:
    """A header that goes with `make_step`."""
    config = config or DecodeConfig(temperature=1.0)
    model = ModelInfo(name=f"sample {config.method}", sha256="1" * 64, parameters=14_000_000)
    proposer = None if config.method in ("plain", "ngram") else model
    return Header(
        program="specviz 0.1.0", created="2026-01-31T12:00:00Z", engine="hf", device="cpu", device_name="Some CPU", dtype="bfloat16",
        threads=2, target=ModelInfo(name="sample target", sha256="0" * 64, parameters=134_515_008, source="made up"), proposer=proposer,
        config=config, prompt="Once upon a time", prompt_ids=tuple(i % len(WORDS) for i in range(prompt_tokens)), eos_ids=(EOS,),
        versions={"torch": "2.13.0"}, peaks=peaks, baseline=make_baseline(prompt_tokens) if baseline else None,
        timings=make_timings(config.method) if baseline else None,
    )  # fmt: skip


def make_timings(method: str = "draft", context: int = 128) -> Timings:
    """What passes of the sample models take on the sample machine, by their tokens."""
    passes = [_pass("prefill", TARGET, context, 0, 0), _pass("plain", TARGET, 1, context, 0)]
    passes += [_pass("verify", TARGET, n, context, 0) for n in (2, 4, 8, 16, 32, 64)]
    if method == "draft":
        passes += [_pass("draft", DRAFT, n, context, 0) for n in (1, 2, 4, 8)]
    elif method == "medusa":
        passes += _passes(DecodeConfig(method="medusa"), (4, 2, 1), 15, context)[:1]
    alone = _pass("plain", TARGET, 1, context, 0)
    batches = tuple(BatchPass(batch=b, work=_batched(alone, b)) for b in (1, 2, 4, 8))
    trees = tuple(ExpectedTokens(candidates=n, tokens=1 + 0.25 * math.log2(1 + n)) for n in (1, 2, 4, 8, 16, 32, 64))
    return Timings(passes=tuple(passes), batches=batches, trees=trees if method == "medusa" else ())


def _batched(alone: Pass, batch: int) -> Pass:
    """A pass for `batch` sequences: the weights are read once, everything else `batch` times."""
    size, flops = alone.weights + batch * (alone.bytes - alone.weights), batch * alone.flops
    seconds = max(flops / PEAKS.flops, size / PEAKS.bandwidth) / 0.7
    counts = {"flops": flops, "bytes": size, "weights": alone.weights}
    return Pass(kind="plain", tokens=batch, context=alone.context, **counts, seconds=seconds)


def make_baseline(context: int = 20, tokens: int = 16) -> Baseline:
    """Plain decoding of `tokens` tokens: one target pass each."""
    passes = tuple(_pass("plain", TARGET, 1, context + i, i) for i in range(tokens))
    return Baseline(seconds=tuple(p.seconds for p in passes), passes=passes, token_ids=tuple(i % len(WORDS) for i in range(tokens)))


def make_trace(
    steps: int = 20,
    config: DecodeConfig | None = None,
    widths: tuple[int, ...] | None = None,
    seed: int = 0,
    outcome: Outcome = "free",
    eos: bool = False,
    baseline: bool = True,
    peaks: Peaks | None = PEAKS,
) -> Trace:
    """A trace of `steps` steps (0 is allowed); with `eos` the last step is cut to its first token and that token is the EOS."""
    header = make_header(config, baseline, peaks)
    made: list[Step] = []
    context, root = len(header.prompt_ids), header.prompt_ids[-1]
    for index in range(steps):
        keep = 1 if eos and index == steps - 1 else None
        made.append(make_step(index, context, widths, header.config, seed, outcome, keep, root))
        context, root = context + len(made[-1].emitted), made[-1].emitted[-1].token_id
    if eos and made:
        header = header.model_copy(update={"eos_ids": (made[-1].emitted[-1].token_id,)})
    return Trace(header=header, steps=tuple(made), ended="eos" if eos else "length")


def judge(tree: tuple[Node, ...], rows: tuple[Row, ...], config: DecodeConfig) -> tuple[list[int], list[Verdict], int]:
    """Accepted path, verdict of every node and the extra token: the four rules, from the recorded numbers alone."""
    children = [[i for i, node in enumerate(tree) if i and node.parent == at] for at in range(len(tree))]
    rule = "greedy" if config.greedy else config.rule
    verdicts: list[Verdict] = ["root"] + ["untested"] * (len(tree) - 1)
    if rule == "typical":
        return _judge_typical(tree, rows, config, children, verdicts)
    path, at = [], 0
    while children[at]:
        wanted = {"greedy": rows[at].argmax, "match": rows[at].draw}.get(rule)
        passed = [child for child in children[at] if _accepts(rule, tree[child], wanted)]
        entered = passed[0] if passed else None
        for child in children[at]:
            if child == entered and rule == "rejection":
                break  # its later siblings are never tested; one argmax or one draw decides over all siblings at once
            if child != entered:
                verdicts[child] = "refused"
        if entered is None:
            break
        verdicts[entered], at = "accepted", entered
        path.append(at)
    row = rows[at]
    refused_all = rule == "rejection" and children[at]
    extra = row.argmax if rule == "greedy" else row.residual_draw if refused_all else row.draw
    return path, verdicts, extra


def _accepts(rule: str, node: Node, wanted: int | None) -> bool:
    return node.u * node.q_test < node.p_test if rule == "rejection" else node.token_id == wanted


def _judge_typical(tree, rows, config, children, verdicts) -> tuple[list[int], list[Verdict], int]:
    best, best_score, stack = [], (0, 0.0), [(0, [], 0.0)]
    while stack:
        at, path, score = stack.pop(0)
        if (len(path), score) > best_score:
            best, best_score = path, (len(path), score)
        threshold = min(config.epsilon, config.delta * math.exp(-rows[at].entropy))
        for child in children[at]:
            if tree[child].p > threshold:
                stack.append((child, [*path, child], score + math.log(tree[child].p)))
            else:
                verdicts[child] = "refused"
    for child in best:
        verdicts[child] = "accepted"
    return best, verdicts, rows[best[-1] if best else 0].draw


class _World:
    """Made-up p and q after any path, and the uniforms: everything follows from the seed."""

    def __init__(self, seed: int, index: int, context: int, config: DecodeConfig, outcome: Outcome):
        self.key, self.config, self.outcome = f"{seed}/{index}/{context}", config, outcome
        self.drawn = config.method == "draft" and not config.greedy and outcome == "free"
        self.random = random.Random(f"{self.key}/uniforms")

    def p(self, path: tuple[int, ...], avoid: tuple[int, ...] = ()) -> Distribution:
        logits = self._logits(path)
        if self.outcome == "refuse":
            logits = [x - 40 * (token in avoid) for token, x in enumerate(logits)]
        return _softmax(logits, self.config.shown_temperature)

    def q(self, path: tuple[int, ...]) -> Distribution:
        """Medusa heads see only the root, so their q depends on the depth alone."""
        if self.outcome == "accept":
            return self.p(path)
        noise = random.Random(f"{self.key}/{len(path) if self.config.method == 'medusa' else path}/q")
        strength = 0.8 + 0.3 * len(path)
        return _softmax([x + strength * noise.gauss(0, 1) for x in self._logits(path)], self.config.shown_temperature)

    def _logits(self, path: tuple[int, ...]) -> list[float]:
        source = random.Random(f"{self.key}/{path}/p")
        sharpness = source.uniform(1.2, 3.0)
        return [sharpness * source.gauss(0, 1) for _ in WORDS]

    def uniform(self, high: float = 1.0, low: float = 0.0) -> float | None:
        return None if self.config.temperature == 0 else self.random.uniform(low, high)


def _grow(world: _World, widths: tuple[int, ...], root: int) -> list[_Proposal]:
    """The tree, level by level: children drawn from q without replacement, or its most probable tokens."""
    made = [_Proposal(root, -1, 0, ())]
    level = [0]
    for width in widths:
        grown = []
        for parent in level:
            tokens = _choose(world, made[parent].path, width)
            for rank, token in enumerate(tokens):
                grown.append(len(made))
                made.append(_Proposal(token, parent, rank, (*made[parent].path, token)))
        level = grown
    return made


def _choose(world: _World, path: tuple[int, ...], width: int) -> list[int]:
    q = world.q(path)
    if not world.drawn:
        return sorted(range(len(q)), key=lambda token: -q[token])[:width]
    tokens: list[int] = []
    for _ in range(width):
        left = _normalise([0.0 if token in tokens else x for token, x in enumerate(q)])
        tokens.append(pick(left, world.random.random()))
    return tokens


def _score(world: _World, proposals: list[_Proposal], depth: int) -> tuple[tuple[Node, ...], tuple[Row, ...]]:
    nodes: dict[int, Node] = {0: Node(token_id=proposals[0].token, text=WORDS[proposals[0].token], parent=-1, verdict="root")}
    rows = []
    for at, proposal in enumerate(proposals):
        children = [i for i, other in enumerate(proposals) if other.parent == at]
        tokens = tuple(proposals[child].token for child in children)
        p = world.p(proposal.path, tokens)
        q = world.q(proposal.path) if children else None
        left_p, left_q = p, q
        for child, token in zip(children, tokens, strict=True):
            tests = {} if world.config.temperature == 0 else {"p_test": left_p[token], "q_test": left_q[token] if world.drawn else 1.0}
            u = world.uniform(low=0.5) if world.outcome == "refuse" else world.uniform(0.02 if world.outcome == "accept" else 1.0)
            nodes[child] = Node(
                token_id=token, text=WORDS[token], parent=at, rank=proposals[child].rank, q=q[token], p=p[token], u=u, **tests
            )
            left_p, left_q = _refuse(left_p, left_q, token, world.drawn)
        rows.append(_row(world, p, q, left_p if children else None, tokens))
    return tuple(nodes[i] for i in range(len(proposals))), tuple(rows)


def _refuse(p: Distribution, q: Distribution, token: int, drawn: bool) -> tuple[Distribution, Distribution]:
    """p and q for the next sibling: p becomes (p − q)₊ and q loses the token; a chosen candidate has a one-hot q."""
    if not drawn:
        return _normalise([0.0 if i == token else x for i, x in enumerate(p)]), q
    residual = _normalise([max(a - b, 0.0) for a, b in zip(p, q, strict=True)])
    return residual, _normalise([0.0 if i == token else x for i, x in enumerate(q)])


def _row(world: _World, p: Distribution, q: Distribution | None, residual: Distribution | None, tokens: tuple[int, ...]) -> Row:
    config = world.config
    order = sorted(range(len(p)), key=lambda token: -p[token])
    entropy = -sum(x * math.log(x) for x in p if x > 0)
    u = world.uniform()
    if world.outcome == "accept" and config.rule == "match" and tokens and u is not None:
        u = sum(p[: tokens[0]]) + p[tokens[0]] / 2  # the uniform that draws the first child
    sampled = {} if u is None else {"u": u, "draw": pick(p, u), "residual_draw": pick(residual, u) if residual else None}
    drawn = {sampled.get("draw"), sampled.get("residual_draw")}
    top = set(order[:TOP]) | set(tokens) | drawn | (set(sorted(range(len(q)), key=lambda token: -q[token])[:TOP]) if q else set())
    ids = tuple(token for token in order if token in top)
    said = {}
    if q:
        said = {
            "q": tuple(q[i] for i in ids),
            "q_tail": max(0.0, 1 - sum(q[i] for i in ids)),
            "kl": max(0.0, sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)),
            "tv": sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2,
        }
    return Row(
        ids=ids, p=tuple(p[i] for i in ids), p_tail=max(0.0, 1 - sum(p[i] for i in ids)), entropy=entropy, argmax=order[0],
        threshold=min(config.epsilon, config.delta * math.exp(-entropy)), **said, **sampled,
        residual=tuple(residual[i] for i in ids) if residual and u is not None else None,
    )  # fmt: skip


def _emit(tree: tuple[Node, ...], path: list[int], extra: int) -> tuple[Emitted, ...]:
    accepted = [Emitted(token_id=tree[i].token_id, text=tree[i].text, kind="accepted", node=i) for i in path]
    last = path[-1] if path else 0
    leaf = all(node.parent != last for node in tree)
    kind = "plain" if len(tree) == 1 else "bonus" if leaf else "recovered"
    return (*accepted, Emitted(token_id=extra, text=WORDS[extra], kind=kind))


def _passes(config: DecodeConfig, widths: tuple[int, ...], nodes: int, context: int) -> tuple[Pass, ...]:
    if not widths:
        return (_pass("plain", TARGET, 1, context - 1, context),)
    drafts: tuple[Pass, ...] = ()
    if config.method == "draft":
        sizes = [1, *(math.prod(widths[: d + 1]) for d in range(len(widths) - 1))]
        drafts = tuple(_pass("draft", DRAFT, size, context - 1 + d, context + d) for d, size in enumerate(sizes))
    elif config.method == "medusa":
        weights = len(widths) * 576 * 576
        counts = {"flops": 2.0 * weights, "bytes": 2.0 * weights, "weights": 2.0 * weights}
        drafts = (Pass(kind="draft", tokens=1, context=0, **counts, seconds=weights * 2 / 1.5e10),)
    return (*drafts, _pass("verify", TARGET, nodes, context - 1, context))


def _pass(kind: str, shape: ModelShape, tokens: int, context: int, noise: int) -> Pass:
    """A pass at 60 to 90 % of its roof."""
    flops, size = shape.flops(tokens, context), shape.bytes(tokens, context)
    share = random.Random(f"{kind}/{tokens}/{noise}").uniform(0.6, 0.9)
    seconds = max(flops / PEAKS.flops, size / PEAKS.bandwidth) / share
    weights = shape.bytes_per_value * (shape.layer_weights + shape.head_rows * shape.width)
    return Pass(kind=kind, tokens=tokens, context=context, flops=flops, bytes=size, weights=weights, seconds=seconds)


def _seconds(passes: tuple[Pass, ...]) -> Seconds:
    propose = sum(p.seconds for p in passes if p.kind == "draft")
    verify = sum(p.seconds for p in passes if p.kind != "draft")
    return Seconds(propose=propose, verify=verify, commit=0.0004, record=0.0021)


def _widths(config: DecodeConfig) -> tuple[int, ...]:
    if config.method == "plain":
        return ()
    if config.widths:
        return config.widths
    return (4, 2, 1) if config.method == "medusa" else (1,) * config.k


def pick(distribution: Distribution, u: float) -> int:
    """The token that uniform `u` picks: the first whose cumulative probability exceeds it."""
    total = 0.0
    for token, x in enumerate(distribution):
        total += x
        if u < total:
            return token
    return max(range(len(distribution)), key=distribution.__getitem__)


def _softmax(logits: list[float], temperature: float) -> Distribution:
    top = max(logits)
    return _normalise([math.exp((x - top) / temperature) for x in logits])


def _normalise(weights: Distribution) -> Distribution:
    total = sum(weights)
    return [x / total for x in weights] if total > 0 else weights


if __name__ == "__main__":
    make_trace(20, DecodeConfig(temperature=1.0, tree="3x2x1", seed=1)).save(sys.argv[1])
