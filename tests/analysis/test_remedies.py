"""What would change a run's speed: each promise is kept when a run is changed accordingly and measured again."""

import pytest

from specviz.analysis.acceptance import acceptance
from specviz.analysis.cost import alpha, cost_model
from specviz.analysis.remedies import remedies
from specviz.analysis.slow import Why, pace, why
from specviz.config import DecodeConfig
from specviz.i18n import LANGUAGES, t
from specviz.trace import Header, Step
from tests.analysis.test_slow import ACCEPTED, CHAIN, PLAIN_PASS, PLAIN_TIME, REFUSED, header, timed
from tests.builders import make_timings, make_trace

TIMES = {"drafts": 0.08, "verify": 0.06, "commit": 0.004}
RUN = [timed(step, **TIMES) for step in (ACCEPTED, REFUSED, REFUSED, REFUSED)]


def said(steps: list[Step], about: Header | None = None) -> dict[str, dict[str, str]]:
    about = about or header()
    found = why(steps, about)
    assert found is not None
    return {each.key: each.args for each in remedies(found, steps, about)}


def again(found: Why, **seconds: float) -> float:
    """The speed of the same run with other times in all."""
    work = found.work
    times = {"propose": work.propose, "verify": work.verify, "commit": work.commit} | seconds
    return work.tokens * found.plain / sum(times.values())


def test_break_even_is_where_the_gain_is_zero() -> None:
    found = why(RUN, header())
    needed = float(said(RUN)["slow.break_even"]["needed"])
    assert pace(found) == "slower"
    assert needed * found.plain == pytest.approx(found.step, rel=5e-3)
    assert needed > found.tokens == float(said(RUN)["slow.break_even"]["tokens"])


def test_a_proposer_below_the_limit_wins_and_one_above_it_loses() -> None:
    limits = said(RUN)["slow.cheaper_proposer"]
    most, now, found = float(limits["most"]) / 1000, float(limits["now"]) / 1000, why(RUN, header())
    assert now == pytest.approx(0.08) and most < now
    assert again(found, propose=0.98 * most * 4) > 1 > again(found, propose=1.02 * most * 4)


def test_where_no_proposer_is_cheap_enough_it_says_so() -> None:
    hopeless = [timed(REFUSED, **TIMES)] * 4
    assert "slow.free_proposer" in said(hopeless) and "slow.cheaper_proposer" not in said(hopeless)
    assert again(why(hopeless, header()), propose=0) < 1
    winning = [timed(ACCEPTED, **TIMES)] * 4
    assert not {"slow.free_proposer", "slow.cheaper_proposer", "slow.break_even_alpha"} & set(said(winning))


def test_with_every_candidate_accepted() -> None:
    promised = float(said(RUN)["slow.all_accepted"]["times"])
    assert promised == pytest.approx(why([timed(ACCEPTED, **TIMES)] * 4, header()).speedup, rel=5e-3)
    dear = [timed(REFUSED, **TIMES | {"drafts": 0.4})] * 4
    promised = float(said(dear)["slow.even_all_accepted"]["times"])
    assert 1 > promised == pytest.approx(why([timed(ACCEPTED, **TIMES | {"drafts": 0.4})] * 4, header()).speedup, rel=5e-3)


def test_free_verifying_is_named_only_where_it_is_not_free() -> None:
    numbers = said(RUN)["slow.free_verifying"]
    assert float(numbers["times"]) == pytest.approx(again(why(RUN, header()), verify=4 * PLAIN_PASS), rel=5e-3)
    assert float(numbers["ratio"]) == pytest.approx(0.06 / PLAIN_PASS, rel=5e-3)
    assert numbers["rows"] == "5"
    assert "slow.free_verifying" not in said([timed(ACCEPTED, **TIMES | {"verify": PLAIN_PASS})] * 4)


def test_another_k_is_the_cost_models_best() -> None:
    trace = make_trace(30, DecodeConfig(k=8, temperature=1.0), seed=2)
    numbers = said(list(trace.steps), trace.header)["slow.another.k"]
    model = cost_model(trace.header, trace.steps)
    chance, _ = alpha(acceptance(trace.steps, trace.header.config))
    every = {one.at: one.speedup for one in model.by_depth(chance)}
    assert numbers["now"] == "8"
    assert every[int(numbers["size"])] == max(every.values()) == pytest.approx(float(numbers["times"]), rel=5e-3)
    assert every[8] == pytest.approx(float(numbers["predicted"]), rel=5e-3)


def test_another_tree_and_another_depth() -> None:
    heads = DecodeConfig(method="medusa", tree="sparse:64", temperature=1.0)
    wide = make_trace(10, heads, widths=(4, 4, 3))  # the builder takes full trees: 4 + 16 + 48 candidates
    kept = tuple(step.model_copy(update={"tree": step.tree[:64], "rows": step.rows[:64]}) for step in wide.steps if step.stopped_at < 64)
    assert {"size", "now", "times", "predicted"} == set(said(list(kept), wide.header)["slow.another.tree"])
    deep = make_trace(20, DecodeConfig(tree="2x2x2x2", temperature=1.0))
    assert said(list(deep.steps), deep.header)["slow.another.depth"]["now"] == "4"


def test_without_measured_passes_nothing_is_predicted() -> None:
    bare = header().model_copy(update={"timings": None})
    assert "slow.another.k" not in said(RUN, bare)
    assert {"slow.break_even", "slow.all_accepted", "slow.cheaper_proposer", "slow.free_verifying"} == set(said(RUN, bare))


def test_the_acceptance_that_breaks_even_is_above_this_runs() -> None:
    dear = make_timings("draft").model_copy(
        update={
            "passes": tuple(
                each.model_copy(update={"seconds": {"draft": 0.02}.get(each.kind, PLAIN_TIME)}) for each in make_timings("draft").passes
            )
        }
    )
    numbers = said(RUN, header().model_copy(update={"timings": dear}))["slow.break_even_alpha"]
    assert 0 < float(numbers["now"]) < float(numbers["alpha"]) < 1


def test_every_sentence_is_in_both_languages() -> None:
    runs = [
        (RUN, header()),
        ([timed(REFUSED, **TIMES | {"drafts": 0.4})] * 4, header()),
        (list(make_trace(9, CHAIN).steps), make_trace(9, CHAIN).header),
    ]
    for lang in LANGUAGES:
        for steps, about in runs:
            assert not [key for key, args in said(steps, about).items() if "{" in t(lang, key, **args)]
