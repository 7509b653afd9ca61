"""Passes projected to a batch, and where speculation stops paying: laws, hand-made numbers, brute force."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from specviz.analysis.datasheets import A100, DATASHEETS, H100
from specviz.analysis.projection import MOST, Load, Round, Speculation, load, speculation
from specviz.config import DecodeConfig
from specviz.trace import Pass
from tests.builders import PEAKS, TARGET, make_header, make_timings, make_trace

TOY = SimpleNamespace(flops=1000.0, bandwidth=100.0)  # ridge 10
PLAIN, VERIFY, DRAFT = Load(20, 101, 100), Load(100, 105, 100), Load(2, 11, 10)
CHAIN, TREE = DecodeConfig(temperature=1.0, k=4), DecodeConfig(temperature=1.0, tree="3x2x1")
MEDUSA = DecodeConfig(method="medusa", tree="4x2x1", temperature=1.0)


def toy(tokens: int = 3, drafts: int = 2) -> Speculation:
    return Speculation((Round(tokens, PLAIN, VERIFY, (DRAFT,) * drafts),), 5, tokens)


def all_loads() -> list[Load]:
    """The loads of every pass that was measured before a run."""
    return [load(work) for method in ("draft", "medusa") for work in make_timings(method).passes]


def test_one_sequence_changes_nothing() -> None:
    assert all(one.times(1) == one for one in all_loads())


def test_weights_are_read_once_and_everything_else_is_done_for_each() -> None:
    assert VERIFY.times(4) == Load(400, 100 + 4 * 5, 100)
    for one in all_loads():
        many = one.times(7)
        assert (many.flops, many.weights) == (7 * one.flops, one.weights)
        assert many.bytes - many.weights == pytest.approx(7 * (one.bytes - one.weights))
        assert many.times(3) == one.times(21)


def test_a_batch_costs_what_the_model_s_dimensions_say() -> None:
    """Against engine/costs.py: B passes, less the weights that B − 1 of them need not read again."""
    for work in make_timings().passes:
        if work.kind in ("plain", "verify"):
            many = load(work).times(16)
            assert many.flops == 16 * TARGET.flops(work.tokens, work.context)
            assert many.bytes == 16 * TARGET.bytes(work.tokens, work.context) - 15 * load(work).weights


def test_intensity_rises_with_the_batch_to_what_a_sequence_alone_would_have() -> None:
    for one in all_loads():
        sizes = [one.times(batch) for batch in (1, 2, 8, 64, 4096)]
        rising = [size.flops / size.bytes for size in sizes]
        assert rising == sorted(rising)
        if one.bytes > one.weights:
            assert rising[-1] < one.flops / (one.bytes - one.weights)


def test_a_pass_takes_what_its_roof_allows() -> None:
    assert VERIFY.seconds(TOY) == 105 / 100  # left of the ridge: bytes
    assert VERIFY.times(30).seconds(TOY) == 30 * 100 / 1000  # right of it: operations
    for one in all_loads():
        assert one.flops / one.seconds(PEAKS) == pytest.approx(min(PEAKS.flops, PEAKS.bandwidth * one.flops / one.bytes))


def test_speculation_by_hand() -> None:
    run = toy()
    assert run.cost(TOY) == pytest.approx(1.05 / 1.01)
    assert run.speedup(TOY) == pytest.approx(3 * 1.01 / (1.05 + 2 * 0.11))
    assert run.cost(TOY, 30) == pytest.approx(3.0 / 1.3)  # plain is bound by its 130 bytes, verifying by its 3000 operations
    assert run.speedup(TOY, 30) == pytest.approx(3 * 1.3 / (3.0 + 2 * 0.4))


def test_alike_steps_are_the_formula_of_one() -> None:
    many = Speculation(toy().rounds * 9, 5, 3)
    assert many.speedup(TOY, 8) == pytest.approx(toy().speedup(TOY, 8))


def test_where_speculation_stops_by_brute_force() -> None:
    for config in (CHAIN, TREE, MEDUSA):
        trace = make_trace(12, config)
        run = speculation(trace.header, trace.steps)
        for roofs in (PEAKS, *DATASHEETS):
            stop = next((batch for batch in range(1, MOST + 1) if run.speedup(roofs, batch) <= 1), None)
            assert run.stops(roofs) == stop, (config.tree, roofs)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 6, 8])
def test_the_batch_before_the_stop_still_pays(tokens: int) -> None:
    run = toy(tokens)
    stop = run.stops(TOY)
    assert (stop is None) == (run.speedup(TOY, MOST) > 1)
    if stop is not None:
        assert run.speedup(TOY, stop) <= 1
        assert stop == 1 or run.speedup(TOY, stop - 1) > 1


def test_bound_by_keys_and_values_it_never_stops() -> None:
    """A long context keeps even a large batch on the slope, where candidates ride along."""
    plain, verify = Load(20, 1100, 100), Load(60, 1106, 100)
    run = Speculation((Round(2, plain, verify, ()),), 3, 2)
    assert run.stops(TOY) is None
    assert replace(run, rounds=(Round(1, plain, verify, ()),)).stops(TOY) == 1


def test_nothing_to_divide_by_is_no_speed_up() -> None:
    nothing = Load(0, 0, 0)
    run = Speculation((Round(2, nothing, nothing, ()),), 1, 2)
    assert (run.cost(TOY), run.speedup(TOY), run.stops(TOY)) == (None, None, 1)


def test_a_run_s_steps_are_taken_with_a_plain_pass_of_their_own_context() -> None:
    trace = make_trace(12, CHAIN)
    run = speculation(trace.header, trace.steps)
    assert run.m == pytest.approx(sum(len(step.emitted) for step in trace.steps) / 12)
    assert run.n == 5
    for one, step in zip(run.rounds, trace.steps, strict=True):
        context = step.passes[-1].context
        assert one.tokens == len(step.emitted)
        assert one.target == load(step.passes[-1])
        assert one.proposer == tuple(load(work) for work in step.passes[:-1])
        assert one.plain.flops == pytest.approx(TARGET.flops(1, context))
        assert one.plain.bytes == pytest.approx(TARGET.bytes(1, context))


def test_reading_the_prompt_belongs_to_neither_side() -> None:
    trace = make_trace(3, CHAIN)
    prefill = trace.header.timings.passes[0]
    first = trace.steps[0].model_copy(update={"passes": (prefill, prefill, *trace.steps[0].passes)})
    assert speculation(trace.header, [first, *trace.steps[1:]]) == speculation(trace.header, trace.steps)


def test_what_was_not_recorded_is_not_made_up() -> None:
    trace = make_trace(3, CHAIN)
    assert speculation(trace.header, []) is None
    assert speculation(make_header(baseline=False), trace.steps) is None
    blind = trace.steps[0].passes[0].model_copy(update={"weights": None})
    assert load(blind) is None
    assert speculation(trace.header, [trace.steps[0].model_copy(update={"passes": (blind, trace.steps[0].passes[-1])})]) is None
    timings_alone = trace.header.model_copy(update={"baseline": None})
    assert speculation(timings_alone, trace.steps).speedup(A100) > 0


def test_more_arithmetic_for_the_bandwidth_lets_a_larger_batch_pay() -> None:
    trace = make_trace(12, CHAIN)
    run = speculation(trace.header, trace.steps)
    assert run.stops(PEAKS) < run.stops(A100) < run.stops(H100)  # ridges 13, 153, 295


def test_weights_are_part_of_the_bytes() -> None:
    with pytest.raises(ValidationError):
        Pass(kind="plain", tokens=1, context=0, flops=1, bytes=10, weights=11, seconds=1)
