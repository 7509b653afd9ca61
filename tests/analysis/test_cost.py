"""The cost model: laws that hold for any machine, published formulas as special cases, and what it reads from a run."""

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

import pytest

from specviz.analysis.acceptance import Acceptance, Depth, acceptance
from specviz.analysis.cost import LONGEST, CostModel, alpha, best, cost_model, depth_of, interpolate, measured
from specviz.analysis.speed import expected_tokens
from specviz.config import DecodeConfig
from specviz.trace import Seconds, Trace
from tests.builders import make_header, make_timings, make_trace

VERIFY = ((1, 10.0), (2, 11.0), (4, 12.0), (8, 16.0), (16, 24.0), (32, 40.0), (64, 90.0))
BARE = CostModel(plain=10.0, verify=VERIFY, draft=((1, 2.0), (8, 2.7)))
CHAIN = replace(BARE, per_step=1.0, per_draft=0.25)
HEADS = CostModel(
    plain=10.0, verify=VERIFY, draft=((1, 1.0),), levels=(4, 8, 8), once=True, trees=((1, 1.5), (4, 2.0), (16, 2.3), (64, 2.5))
)
ALPHAS = [i / 10 for i in range(11)]


def flat(c: float) -> CostModel:
    """The machine of the paper: a pass takes the same time whatever it reads, and nothing happens outside of passes."""
    return CostModel(plain=1.0, verify=((1, 1.0), (64, 1.0)), draft=((1, c), (64, c)))


def test_a_measured_curve_is_linear_between_its_points_and_ends_with_them() -> None:
    for size, seconds in VERIFY:
        assert interpolate(VERIFY, size) == seconds
    assert interpolate(VERIFY, 3) == pytest.approx(11.5)
    assert interpolate(VERIFY, 48) == pytest.approx(65)
    assert interpolate(VERIFY, 65) is None and interpolate(VERIFY, 0) is None and interpolate((), 1) is None
    assert interpolate(((1, 2.0),), 1) == 2.0 and interpolate(((1, 2.0),), 2) is None


def test_nothing_proposed_is_plain_decoding() -> None:
    for chance in ALPHAS:
        step = BARE.predict(chance, 0)
        assert (step.rows, step.expected, step.drafting, step.cost, step.speedup) == (1, 1, 0, 10, 1)


def test_all_accepted_is_k_plus_one() -> None:
    for k in range(1, LONGEST + 1):
        step = CHAIN.predict(1.0, k)
        assert step.expected == k + 1
        assert step.speedup == pytest.approx((k + 1) * 10 / (k * 2.25 + interpolate(VERIFY, k + 1) + 1))


def test_more_acceptance_is_never_slower() -> None:
    for k in range(1, LONGEST + 1):
        speeds = [CHAIN.predict(chance, k).speedup for chance in ALPHAS]
        assert all(a < b for a, b in pairwise(speeds))


def test_the_papers_formula_is_a_special_case() -> None:
    """Leviathan et al. 2023, theorem 3.8: (1 − α^(γ+1)) / ((1 − α)(γc + 1)); corollary 3.9: some γ pays exactly where α > c."""
    for chance, c, k in [(0.8, 0.05, 5), (0.6, 0.2, 3), (0.3, 0.4, 1)]:
        assert flat(c).predict(chance, k).speedup == pytest.approx((1 - chance ** (k + 1)) / ((1 - chance) * (k * c + 1)))
    for chance in ALPHAS[:-1]:
        for c in (0.05, 0.25, 0.45, 0.95):
            assert (best(flat(c).by_depth(chance)).speedup > 1 + 1e-12) == (chance > c), (chance, c)


def test_the_best_k_is_that_of_a_search() -> None:
    for chance in ALPHAS:
        times = [k * 2.25 + interpolate(VERIFY, k + 1) + 1 for k in range(1, LONGEST + 1)]
        speeds = [10 * sum(chance**i for i in range(k + 1)) / time for k, time in enumerate(times, start=1)]
        found = best(CHAIN.by_depth(chance))
        assert found.speedup == pytest.approx(max(speeds))
        assert found.at == 1 + speeds.index(max(speeds))
    assert best([]) is None


def test_break_even_is_where_the_speed_up_crosses_one() -> None:
    for k in range(1, LONGEST + 1):
        even = CHAIN.break_even_alpha(k)
        assert CHAIN.predict(even, k).speedup == pytest.approx(1)
        assert CHAIN.predict(even, k).break_even == pytest.approx(expected_tokens(even, k))
        assert CHAIN.predict(max(0.0, even - 0.01), k).speedup < 1
    assert replace(CHAIN, per_step=500.0).break_even_alpha(4) is None
    assert replace(CHAIN, plain=50.0).break_even_alpha(4) == 0  # such a step takes less time than a plain token


def test_nothing_is_said_beyond_what_was_measured() -> None:
    long = replace(CHAIN, levels=(1,) * 80)
    assert [one.at for one in long.by_depth(0.5)] == list(range(1, 64))
    assert long.predict(0.5, 64) is None and long.break_even_alpha(64) is None
    assert [one.at for one in HEADS.by_size()] == [1, 4, 16]  # 64 candidates would be 65 rows
    wide = replace(BARE, levels=(4, 16, 16))
    assert [one.at for one in wide.by_depth(0.5)] == [1, 2]  # the third pass of the draft would read 16 tokens


def test_another_cost_ratio_scales_every_pass_of_the_proposer() -> None:
    assert BARE.ratio == pytest.approx(0.2)
    slower = BARE.with_ratio(0.4)
    assert slower.predict(0.5, 4).drafting == pytest.approx(2 * BARE.predict(0.5, 4).drafting)
    assert slower.predict(0.5, 4).verifying == BARE.predict(0.5, 4).verifying
    assert BARE.with_ratio(0).predict(0.5, 4).drafting == 0
    free = replace(BARE, draft=())
    assert (free.ratio, free.predict(0.5, 4).drafting) == (0, 0)
    assert free.with_ratio(0.3).predict(0.5, 4).drafting == pytest.approx(4 * 3)


def test_heads_are_called_once() -> None:
    for k in (1, 2, 3):
        assert HEADS.predict(0.5, k).drafting == 1
    assert [HEADS.predict(0.5, k).rows for k in (0, 1, 2, 3)] == [1, 5, 13, 21]
    assert HEADS.predict_tree(4).rows == 5
    assert HEADS.predict_tree(10).expected == pytest.approx(2.15)


def test_the_most_tokens_a_second_need_not_be_the_most_tokens_a_step() -> None:
    sizes = HEADS.by_size()
    fastest, fullest = best(sizes), best(sizes, lambda one: one.expected)
    assert fastest.at == max(HEADS.by_size(), key=lambda one: one.expected / one.cost).at == 4
    assert fullest.at == 16


def test_a_proposer_that_finds_nothing_leaves_plain_steps() -> None:
    half = CostModel(plain=10.0, verify=VERIFY, hits=0.5)
    step, always = half.predict(0.8, 3), replace(half, hits=1.0).predict(0.8, 3)
    assert step.expected == pytest.approx((always.expected + 1) / 2)
    assert step.cost == pytest.approx((always.cost + 10) / 2)


# ---- what is read from a run -----------------------------------------------------------------------------------------------------------


def timed(trace: Trace) -> Trace:
    """The same run, had all its passes taken the times that were measured before it, and 1 ms outside of each step's passes."""
    curves = {kind: measured(trace.header, *kinds) for kind, kinds in {"draft": ("draft",), "verify": ("plain", "verify")}.items()}
    steps = []
    for step in trace.steps:
        passes = tuple(
            work.model_copy(update={"seconds": interpolate(curves["draft" if work.kind == "draft" else "verify"], work.tokens)})
            for work in step.passes
        )
        drafts = [work.seconds for work in passes if work.kind == "draft"]
        seconds = Seconds(propose=sum(drafts) + 2e-4 * len(drafts), verify=passes[-1].seconds, commit=1e-3, record=5.0)
        steps.append(step.model_copy(update={"passes": passes, "seconds": seconds}))
    return trace.model_copy(update={"steps": tuple(steps)})


@pytest.mark.parametrize("config", [DecodeConfig(temperature=1.0, k=4), DecodeConfig(temperature=1.0, tree="3x2x1")])
def test_a_run_whose_passes_took_the_measured_times_is_predicted_exactly(config: DecodeConfig) -> None:
    trace = timed(make_trace(8, config))
    model = cost_model(trace.header, trace.steps)
    assert (model.per_step, model.per_draft) == pytest.approx((1e-3, 2e-4))
    assert model.predict(0.5, depth_of(trace.steps)).cost == pytest.approx(trace.steps[0].seconds.decode)
    assert model.plain == trace.header.baseline.seconds_per_token


def test_the_tree_of_the_run_is_cut_to_its_first_levels() -> None:
    trace = make_trace(3, DecodeConfig(temperature=1.0, tree="3x2x1"))
    model = cost_model(trace.header, trace.steps)
    assert (model.levels, model.calls(3), model.predict(0.5, 2).rows) == ((3, 6, 6), (1, 3, 6), 10)
    chain = make_trace(3, DecodeConfig(temperature=1.0, k=20))
    assert cost_model(chain.header, chain.steps).levels == (1,) * 20
    assert cost_model(chain.header, chain.steps[:1]).calls(3) == (1, 1, 1)


def test_a_draft_reads_only_candidates_with_children() -> None:
    trace = make_trace(3, DecodeConfig(temperature=1.0, tree="3x2x1"))
    assert cost_model(trace.header, trace.steps).fed is None
    steps = [step.model_copy(update={"tree": (*step.tree[:6], step.tree[10])}) for step in trace.steps]  # one path goes on at each depth
    model = cost_model(trace.header, steps)
    assert (model.levels, model.fed, model.calls(3), model.calls(1)) == ((3, 2, 1), (1, 1), (1, 1, 1), (1,))


def test_heads_and_their_calibration() -> None:
    trace = make_trace(3, DecodeConfig(method="medusa", tree="4x2x1"))
    model = cost_model(trace.header, trace.steps)
    assert model.once
    assert [size for size, _ in model.trees] == [tree.candidates for tree in trace.header.timings.trees]


def test_n_gram_lookup_drafts_for_nothing_and_may_find_nothing() -> None:
    config = DecodeConfig(method="ngram", k=4)
    found, none = make_trace(6, config, widths=(1,) * 4), make_trace(2, config, widths=())
    model = cost_model(found.header, (*found.steps, *none.steps))
    assert (model.draft, model.hits, model.per_draft) == ((), 0.75, 0.0)
    assert model.predict(0.5, 4).drafting == 0
    outside = [step.seconds.decode - sum(work.seconds for work in step.passes) for step in found.steps]
    assert model.per_step == pytest.approx(median(outside))


def test_without_measured_times_or_candidates_there_is_no_model() -> None:
    chain, plain = make_trace(3), make_trace(3, DecodeConfig(method="plain"))
    assert cost_model(make_header(baseline=False), chain.steps) is None
    assert cost_model(chain.header, ()) is None
    assert cost_model(plain.header, plain.steps) is None
    undrafted = chain.header.model_copy(update={"timings": make_timings("ngram")})
    assert cost_model(undrafted, chain.steps) is None  # a draft that nobody timed is not free


def test_alpha_of_a_drawn_chain_is_the_overlap_and_elsewhere_what_was_observed() -> None:
    drawn = make_trace(12, DecodeConfig(temperature=1.0, k=3))
    counts = acceptance(drawn.steps, drawn.header.config)
    overlaps = [1 - step.rows[node.parent].tv for step in drawn.steps for node in step.tree if node.verdict in ("accepted", "refused")]
    assert alpha(counts) == (pytest.approx(mean(overlaps)), "overlap")
    by_hand = Acceptance(tested=9, depths=(Depth(tested=6, accepted=4, reached=5), Depth(tested=3, accepted=1, reached=4)))
    assert alpha(by_hand) == (pytest.approx(5 / 9), "observed")
    assert alpha(Acceptance(steps=3, tokens=3)) is None
    greedy = make_trace(6, DecodeConfig(k=3), outcome="accept")
    assert alpha(acceptance(greedy.steps, greedy.header.config)) == (1, "observed")
