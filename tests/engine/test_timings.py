"""What is measured before a run: every size once, honest counts, and the tree that the measurement asks for."""

import pytest

from specviz.config import DecodeConfig
from specviz.engine import timings as subject
from specviz.engine.lm import Pair
from specviz.engine.timings import BATCHES, DRAFT_SIZES, SIZES, sized, timings, verifying
from specviz.models.load import load_local
from specviz.step import ExpectedTokens, Pass, Timings
from tests.fakes import table_pair
from tests.models.tiny import write_pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    target, draft = write_pair(tmp_path_factory.mktemp("pair"))
    return load_local(target, draft, device="cpu", dtype="float32")


def measured(kind: str, seconds: dict[int, float], trees: dict[int, float] | None = None, heads: float = 0.0) -> Timings:
    def work(kind: str, tokens: int, seconds: float) -> Pass:
        return Pass(kind=kind, tokens=tokens, context=8, flops=1, bytes=1, seconds=seconds)

    passes = [work("plain" if n == 1 else kind, n, each) for n, each in seconds.items()]
    passes += [work("draft", 1, heads)] if heads else []
    made = tuple(ExpectedTokens(candidates=n, tokens=tokens) for n, tokens in (trees or {}).items())
    return Timings(passes=tuple(passes), trees=made)


def test_every_size_is_measured_once(pair: Pair) -> None:
    found = timings(pair, "draft")
    kinds = [(work.kind, work.tokens) for work in found.passes]
    assert kinds == [
        ("prefill", 128), ("plain", 1), *(("verify", n) for n in SIZES[1:]), *(("draft", n) for n in DRAFT_SIZES)
    ]  # fmt: skip
    assert all(work.seconds > 0 and work.context in (0, 128) for work in found.passes)
    assert [served.batch for served in found.batches] == list(BATCHES)
    assert timings(pair, "draft") is found, "once in a process"


def test_a_batch_reads_the_weights_once_and_everything_else_as_often(pair: Pair) -> None:
    one, *_, eight = (served.work for served in timings(pair, "plain").batches)
    assert eight.flops == 8 * one.flops and eight.weights == one.weights
    assert eight.bytes - eight.weights == 8 * (one.bytes - one.weights)


def test_an_engine_without_batches_and_a_short_context() -> None:
    found = timings(table_pair(max_context=80), "medusa")
    assert not found.batches and {work.context for work in found.passes} == {0, 16}
    assert [tree.tokens for tree in found.trees] == sorted(tree.tokens for tree in found.trees)


def test_between_sizes_the_time_lies_on_a_straight_line() -> None:
    curve = measured("verify", {1: 1.0, 2: 2.0, 4: 6.0})
    assert [verifying(curve, n) for n in (1, 2, 3, 4, 9)] == [1.0, 2.0, 4.0, 6.0, 6.0]


def test_the_tree_that_yields_the_most_tokens_a_second() -> None:
    medusa = DecodeConfig(method="medusa")
    trees = {1: 1.5, 3: 2.0, 7: 2.4}
    flat = measured("verify", {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}, trees)
    steep = measured("verify", {1: 1.0, 2: 1.1, 4: 2.0, 8: 4.0}, trees)
    assert sized(medusa, flat).tree == "sparse:7", "where more tokens cost nothing, the largest tree"
    assert sized(medusa, steep).tree == "sparse:1"
    assert sized(medusa, measured("verify", {1: 1.0, 2: 1.1, 4: 2.0, 8: 4.0}, trees, heads=9.0)).tree == "sparse:7"


def test_a_tree_that_was_asked_for_is_left_alone() -> None:
    flat = measured("verify", {1: 1.0, 8: 1.0}, {7: 2.4})
    for config in (DecodeConfig(method="medusa", tree="2x1"), DecodeConfig(method="draft"), DecodeConfig(method="plain")):
        assert sized(config, flat) == config
    assert sized(DecodeConfig(method="medusa"), measured("verify", {1: 1.0})).tree is None


def test_the_median_counts_and_the_first_round_does_not() -> None:
    seconds = iter([9.0, 1.0, 5.0, 2.0])

    def once() -> Pass:
        return Pass(kind="plain", tokens=1, context=0, flops=1, bytes=1, seconds=next(seconds))

    assert [work.seconds for work in subject._medians([once])] == [2.0]
