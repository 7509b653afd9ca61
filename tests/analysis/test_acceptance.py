"""Acceptance counts: by rule, by depth, by prefix, and only of what was committed."""

from itertools import product

import pytest

from specviz.analysis.acceptance import _depths, acceptance, comparable, count, running
from specviz.config import DecodeConfig
from specviz.i18n import t
from tests.builders import make_step, make_trace

CHAIN = DecodeConfig(k=4, temperature=1.0)
CONFIGS = [
    DecodeConfig(method=method, rule=rule, tree=tree, k=4, temperature=temperature)
    for method, rule, tree, temperature in product(
        ("draft", "medusa"), ("greedy", "rejection", "match", "typical"), (None, "3x2x1"), (0.0, 1.0)
    )
]


def test_nothing_gives_nothing():
    nothing = acceptance([], CHAIN)
    assert (nothing.steps, nothing.tokens, nothing.drafted, nothing.tested, nothing.accepted) == (0, 0, 0, 0, 0)
    assert (nothing.rate, nothing.yield_, nothing.tokens_per_step, nothing.expected_rate) == (None, None, None, None)


def test_plain_decoding_tests_nothing():
    config = DecodeConfig(method="plain", temperature=1.0)
    plain = acceptance(make_trace(5, config).steps, config)
    assert plain.tokens_per_step == 1
    assert (plain.rate, plain.yield_, plain.depths) == (None, None, ())


def test_all_accepted():
    config = DecodeConfig(k=4)
    full = acceptance(make_trace(3, config, outcome="accept").steps, config)
    assert (full.rate, full.yield_, full.tokens_per_step) == (1, 1, 5)
    assert [(d.tested, d.accepted, d.reached) for d in full.depths] == [(3, 3, 3)] * 4


def test_all_refused():
    none = acceptance(make_trace(3, CHAIN, outcome="refuse").steps, CHAIN)
    assert (none.tested, none.drafted, none.tokens_per_step) == (3, 12, 1)
    assert (none.rate, none.yield_) == (0, 0)


def test_a_cut_step_counts_only_what_was_committed():
    whole = make_step(config=CHAIN, outcome="accept")
    cut = make_step(config=CHAIN, outcome="accept", keep=2)
    assert count(whole, CHAIN).accepted == 4
    counted = count(cut, CHAIN)
    assert (counted.tokens, counted.tested, counted.accepted, counted.drafted) == (2, 2, 2, 4)
    assert len(counted.depths) == 2


def test_a_refusal_behind_the_cut_is_no_test():
    step = next(s for s in make_trace(40, CHAIN).steps if len(s.emitted) == 3)  # two accepted, the third refused
    assert count(step, CHAIN).tested == 3
    cut = step.model_copy(update={"emitted": step.emitted[:1], "dropped": 2})
    assert (count(cut, CHAIN).tested, count(cut, CHAIN).accepted) == (1, 1)


def test_one_draw_decides_over_all_siblings_but_rejection_tests_one_by_one():
    match = DecodeConfig(rule="match", tree="3", temperature=1.0)
    assert count(make_step(config=match, outcome="accept"), match).tested == 3
    rejection = DecodeConfig(rule="rejection", tree="3", temperature=1.0)
    assert count(make_step(config=rejection, outcome="accept"), rejection).tested == 1


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.method}-{c.rule}-{c.tree}-{c.temperature}")
def test_counts_fit_together(config: DecodeConfig):
    steps = make_trace(12, config, eos=True).steps
    total = acceptance(steps, config)
    assert total.accepted == sum(d.accepted for d in total.depths) == sum(e.kind == "accepted" for s in steps for e in s.emitted)
    assert total.tested == sum(d.tested for d in total.depths)
    assert total.accepted <= total.tested <= total.drafted
    assert total.tokens == sum(len(s.emitted) for s in steps)
    assert all(d.accepted <= d.reached <= d.tested for d in total.depths)
    assert all(later.reached <= earlier.accepted for earlier, later in zip(total.depths, total.depths[1:], strict=False)) or (
        config.rule == "typical"
    )


def test_running_counts_are_those_of_the_prefixes():
    steps = make_trace(6, CHAIN).steps
    assert list(running(steps, CHAIN)) == [acceptance(steps[: i + 1], CHAIN) for i in range(6)]


def test_expected_acceptance_is_the_mean_overlap_of_the_tested_positions():
    step = next(s for s in make_trace(20, CHAIN).steps if len(s.emitted) == 2)  # one accepted, one refused: rows 0 and 1
    assert count(step, CHAIN).expected_rate == pytest.approx(1 - (step.rows[0].tv + step.rows[1].tv) / 2)


def test_expected_and_observed_acceptance_agree_over_many_steps():
    total = acceptance(make_trace(600, CHAIN, seed=3).steps, CHAIN)
    spread = (total.expected_rate * (1 - total.expected_rate) / total.tested) ** 0.5
    assert abs(total.rate - total.expected_rate) < 4 * spread


def test_overlap_predicts_no_other_rule():
    def comparable_under(**changes) -> bool:
        config = DecodeConfig(**{"k": 4, "temperature": 1.0} | changes)
        return comparable(make_step(config=config), config)

    assert comparable_under()
    assert not any(comparable_under(rule=rule) for rule in ("greedy", "match", "typical"))
    assert not comparable_under(temperature=0.0)
    assert not comparable_under(tree="2x1")  # second siblings
    assert not comparable_under(method="medusa", tree="1x1")  # chosen, not drawn


def test_the_expectation_is_withdrawn_where_one_step_cannot_be_compared():
    steps = [make_step(config=CHAIN), make_step(config=DecodeConfig(method="medusa", tree="1x1", temperature=1.0))]
    assert acceptance(steps, CHAIN).expected_rate is None


def test_every_figure_names_its_formula():
    figures = count(make_step(config=CHAIN), CHAIN).quantities()
    assert all(t(lang, key) for lang in ("en", "zh") for figure in figures for key in (figure.label, figure.formula))


def test_depths_of_nodes_agree_with_the_step():
    step = make_step(widths=(3, 2, 1))
    assert _depths(step) == [step.depth(node) for node in range(len(step.tree))]
