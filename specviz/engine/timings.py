"""How long passes take on this machine, with the very models and engine of a run: measured, before it decodes.

Every size is timed turn by turn, so that what disturbs the machine disturbs all of them, and the median counts. The tokens fed are
arbitrary: a pass takes the same time whatever they are.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from statistics import median

import torch

from specviz.config import DecodeConfig
from specviz.engine.fast import FastModel
from specviz.engine.lm import Heads, LanguageModel, Pair
from specviz.engine.proposers.base import clock, heads_pass, pass_of
from specviz.engine.tree import expected_tokens, sparse_shape
from specviz.step import BatchPass, ExpectedTokens, Pass, PassKind, Timings

CONTEXT = 128  # cached tokens under every pass, where the model has room for as many
SIZES = (1, 2, 4, 8, 16, 32, 64)  # tokens of a target pass
DRAFT_SIZES = (1, 2, 4, 8)
BATCHES = (1, 2, 4, 8)
TREES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 63)  # candidates of a calibrated tree; with the root no more than the largest pass
REPEATS = 3

Work = Callable[[], Pass]


@lru_cache(maxsize=8)
def timings(pair: Pair, method: str) -> Timings:
    """Measure what a run of `method` will pay for: a second or two on a small model, and once in a process."""
    target, heads = pair.target, pair.medusa if method == "medusa" else None
    work = _pass_works(target, {size: "plain" if size == 1 else "verify" for size in SIZES})
    if method == "draft" and pair.draft is not None:
        work += _pass_works(pair.draft, dict.fromkeys(DRAFT_SIZES, "draft"))
    if heads is not None:
        work.append(_heads_work(heads, target))
    batches = _batch_works(target) if isinstance(target, FastModel) else []
    passes = _medians([*work, *batches])
    served = zip(BATCHES, passes[len(work) :], strict=False)
    return Timings(
        passes=(_prefill(target), *passes[: len(work)]),
        batches=tuple(BatchPass(batch=batch, work=done) for batch, done in served),
        trees=_trees(heads),
    )


def sized(config: DecodeConfig, measured: Timings) -> DecodeConfig:
    """The run with the calibrated tree that should yield the most tokens a second, where it names no tree itself.

    Tokens a step are expected from the heads' accuracies; a step's time is that of the heads and of a target pass over the tree.
    """
    if config.method != "medusa" or config.tree is not None or not measured.trees:
        return config
    drafting = sum(work.seconds for work in measured.passes if work.kind == "draft")
    best = max(measured.trees, key=lambda tree: tree.tokens / (drafting + verifying(measured, 1 + tree.candidates)))
    return replace(config, tree=f"sparse:{best.candidates}")


def verifying(measured: Timings, tokens: int) -> float:
    """Seconds of a target pass of `tokens`, on the straight line between the measured sizes around it."""
    curve = sorted((work.tokens, work.seconds) for work in measured.passes if work.kind in ("plain", "verify"))
    for (low, fast), (high, slow) in itertools.pairwise(curve):
        if tokens <= high:
            return fast + (slow - fast) * (tokens - low) / (high - low)
    return curve[-1][1]


def _medians(work: list[Work]) -> list[Pass]:
    rounds = [[once() for once in work] for _ in range(1 + REPEATS)][1:]  # the first warms up
    return [passes[0].model_copy(update={"seconds": median(done.seconds for done in passes)}) for passes in zip(*rounds, strict=True)]


def _context(model: LanguageModel) -> int:
    return min(CONTEXT, model.max_context - max(SIZES))


def _pass_works(model: LanguageModel, kinds: dict[int, PassKind]) -> list[Work]:
    """A pass of each size on top of the same cache."""
    cache, context = model.new_cache(), _context(model)
    model.prefill(cache, _tokens(model, context))

    def once(size: int) -> Pass:
        mask = torch.ones(size, size, dtype=torch.bool).tril()
        before = clock(model.device)
        model.forward(cache, _tokens(model, size), torch.arange(context, context + size), mask)
        done = pass_of(kinds[size], model.shape, size, context, clock(model.device) - before)
        cache.keep(context, [])
        return done

    return [partial(once, size) for size in kinds]


def _heads_work(heads: Heads, target: LanguageModel) -> Work:
    hidden = target.prefill(target.new_cache(), _tokens(target, 2))

    def once() -> Pass:
        before = clock(target.device)
        heads.logits(hidden)
        return heads_pass(heads, clock(target.device) - before)

    return once


def _batch_works(model: FastModel) -> list[Work]:
    """A pass for each batch size, every sequence on a cache of its own."""
    caches, context = [model.new_cache() for _ in range(max(BATCHES))], _context(model)
    for cache in caches:
        cache.reserve(context + 1)
        cache.length = context  # rows of zeros: they are read like any others

    def once(batch: int) -> Pass:
        before = clock(model.device)
        model.forward_batch(caches[:batch], _tokens(model, batch))
        alone = pass_of("plain", model.shape, 1, context, clock(model.device) - before)
        for cache in caches:
            cache.keep(context, [])
        weights = model.shape.weight_bytes(1)
        moved = weights + batch * (alone.bytes - weights)  # the weights once for all
        return alone.model_copy(update={"tokens": batch, "flops": batch * alone.flops, "bytes": moved})

    return [partial(once, batch) for batch in BATCHES]


def _prefill(model: LanguageModel) -> Pass:
    count = _context(model)
    before = clock(model.device)
    model.prefill(model.new_cache(), _tokens(model, count))
    return pass_of("prefill", model.shape, count, 0, clock(model.device) - before, scored=0)


def _tokens(model: LanguageModel, count: int) -> torch.Tensor:
    return torch.arange(count) % model.vocab_size


def _trees(heads: Heads | None) -> tuple[ExpectedTokens, ...]:
    if heads is None or heads.accuracies is None:
        return ()
    shapes = [sparse_shape(heads.accuracies, size) for size in TREES]
    return tuple(ExpectedTokens(candidates=len(shape), tokens=expected_tokens(shape, heads.accuracies)) for shape in shapes)
