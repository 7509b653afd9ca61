"""Why a run is slower or faster than plain decoding: the parts add up, and each cause is named where it rules."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.analysis.slow import CAUSES, ENOUGH, Why, Work, causes, headline, notes, pace, silence, why, work
from specviz.analysis.speed import speed
from specviz.config import DecodeConfig
from specviz.i18n import LANGUAGES, t
from specviz.trace import Baseline, Header, Pass, Seconds, Step
from tests.builders import Outcome, make_header, make_step, make_trace

CHAIN = DecodeConfig(k=4, temperature=1.0)
SHAPES = (CHAIN, DecodeConfig(tree="3x2x1", temperature=1.0), DecodeConfig(method="medusa", rule="typical", tree="4x2", temperature=0.7))
PLAIN_TIME, PLAIN_PASS = 0.040, 0.038
TIMES = st.floats(0, 10)


@cache
def sample(shape: int, seed: int, outcome: Outcome, keep: int | None) -> Step:
    return make_step(config=SHAPES[shape], seed=seed, outcome=outcome, keep=keep)


def timed(
    step: Step, drafts: float = 0.0, propose: float = 0.0, verify: float = PLAIN_PASS, commit: float = PLAIN_TIME - PLAIN_PASS
) -> Step:
    """The step with these times: `drafts` for the proposer's passes together, `propose` for what it does outside of them."""
    passes = [each for each in step.passes if each.kind == "draft"]
    count = len(passes) or 1
    kept = tuple(each.model_copy(update={"seconds": drafts / count if each.kind == "draft" else verify}) for each in step.passes)
    seconds = Seconds(propose=(drafts if passes else 0.0) + propose, verify=verify, commit=commit)
    return step.model_copy(update={"passes": kept, "seconds": seconds})


def header(config: DecodeConfig = CHAIN, plain: float = PLAIN_TIME, plain_pass: float = PLAIN_PASS) -> Header:
    one = Pass(kind="plain", tokens=1, context=20, flops=1, bytes=1, seconds=plain_pass)
    return make_header(config).model_copy(update={"baseline": Baseline(seconds=(plain,) * 3, passes=(one,) * 3, token_ids=(1, 2, 3))})


@st.composite
def runs(draw: Callable) -> list[Step]:
    """Some steps of one shape, with any outcomes, cuts and times."""
    shape = draw(st.integers(0, len(SHAPES) - 1))
    made = []
    for _ in range(draw(st.integers(1, 5))):
        keep = draw(st.sampled_from((None, 1, 2)))
        step = sample(shape, draw(st.integers(0, 3)), draw(st.sampled_from(("free", "accept", "refuse"))), keep)
        made.append(timed(step, draw(TIMES), draw(TIMES), draw(st.floats(1e-3, 10)), draw(TIMES)))
    return made


@given(runs(), st.floats(1e-3, 10), st.floats(0, 1))
def test_the_parts_add_up_to_the_measured_difference(steps: list[Step], plain: float, share: float) -> None:
    given_header = header(plain=plain, plain_pass=plain * share)
    found = why(steps, given_header)
    measured = sum(step.seconds.decode for step in steps) / len(steps)
    tokens = sum(len(step.emitted) for step in steps) / len(steps)
    near = lambda value: pytest.approx(value, rel=1e-9, abs=1e-9)  # noqa: E731
    assert (found.step, found.tokens) == (near(measured), tokens)
    assert found.gain == near(tokens * plain - measured)
    assert found.gain == near(found.credit - found.drafting - found.verifying - found.overhead)
    assert found.full == near(found.credit + found.refused + found.cut)
    assert found.full == near(found.gain + sum(getattr(found, name) for name in CAUSES))
    assert found.speedup == near(speed(steps, given_header.baseline).speedup)
    held = causes(found)
    assert sum(cause.share for cause in held) == near(1 if held else 0)
    assert [cause.seconds for cause in held] == sorted((cause.seconds for cause in held), reverse=True)


@given(runs())
def test_steps_add_up(steps: list[Step]) -> None:
    total = sum(map(work, steps), Work())
    assert total.steps == len(steps)
    assert total.depth == sum(max(step.depth(node) for node in range(len(step.tree))) for step in steps)
    assert total.deepest == max(max(step.depth(node) for node in range(len(step.tree))) for step in steps)
    assert total.accepted >= sum(token.kind == "accepted" for step in steps for token in step.emitted)
    assert total.accepted - sum(step.dropped for step in steps) == total.tokens - total.steps
    assert total.decode == pytest.approx(sum(step.seconds.decode for step in steps))


REFUSED, ACCEPTED = make_step(config=CHAIN, outcome="refuse"), make_step(config=CHAIN, outcome="accept")
DOMINANT = {
    "refused": timed(REFUSED, drafts=0.02, verify=0.045, commit=0.003),
    "drafting": timed(ACCEPTED, drafts=0.4, verify=0.045, commit=0.003),
    "verifying": timed(ACCEPTED, drafts=0.02, verify=0.4, commit=0.003),
    "overhead": timed(ACCEPTED, drafts=0.02, propose=0.2, verify=0.045, commit=0.2),
    "cut": timed(make_step(config=CHAIN, outcome="accept", keep=1), drafts=0.02, verify=0.045, commit=0.003),
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_losing_run_names_the_cause_that_rules(name: str) -> None:
    found = why([DOMINANT[name]] * ENOUGH, header())
    assert pace(found) == "slower"
    assert causes(found)[0].name == name
    assert causes(found)[0].share > 0.5
    assert notes(found) == []


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_what_a_step_would_gain_without_it(name: str) -> None:
    """Mend that cause alone, in the step itself, and measure again."""
    step = DOMINANT[name]
    drafts = sum(each.seconds for each in step.passes if each.kind == "draft")
    times = {"drafts": drafts, "propose": step.seconds.propose - drafts, "verify": step.seconds.verify, "commit": step.seconds.commit}
    if name in ("refused", "cut"):
        mended = timed(ACCEPTED, **times)
    else:
        cures = {
            "drafting": {"drafts": 0.0},
            "verifying": {"verify": PLAIN_PASS},
            "overhead": {"propose": 0.0, "commit": PLAIN_TIME - PLAIN_PASS},
        }
        mended = timed(step, **(times | cures[name]))
    before, after = why([step], header()), why([mended], header())
    assert after.gain - before.gain == pytest.approx(getattr(before, name))
    assert getattr(after, name) == pytest.approx(0, abs=1e-12)


def test_the_sentence_says_how_much_and_from_what() -> None:
    slow = headline(why([timed(REFUSED, drafts=0.02, verify=0.058, commit=0.002)], header()))
    assert (slow.key, slow.args) == ("slow.slower", {"times": "2", "step": "80", "tokens": "1", "plain": "40"})
    fast = headline(why([timed(ACCEPTED, drafts=0.02, verify=0.078, commit=0.002)], header()))
    assert (fast.key, fast.args) == ("slow.faster", {"times": "2", "step": "100", "tokens": "5", "plain": "200"})
    same = headline(why([timed(REFUSED, verify=0.039, commit=0.002)], header()))
    assert same.key == "slow.same" and "times" not in same.args


def test_verifying_faster_than_a_plain_pass_is_no_cause() -> None:
    found = why([timed(ACCEPTED, drafts=0.01, verify=0.03)], header())
    assert found.verifying < 0
    assert [cause.name for cause in causes(found)] == ["drafting"]


def test_heads_have_one_pass_and_lookup_has_none() -> None:
    medusa = work(make_step(config=SHAPES[2]))
    assert (medusa.passes, medusa.candidates, medusa.depth) == (1, 12, 2)
    lookup = make_step(widths=(1, 1), config=CHAIN)
    lookup = lookup.model_copy(update={"passes": tuple(each for each in lookup.passes if each.kind != "draft")})
    found = why([timed(lookup, propose=0.05, verify=0.041)] * ENOUGH, header())
    assert (found.drafting, causes(found)[0].name) == (0, "overhead")


def test_the_prompts_pass_belongs_to_no_step() -> None:
    prefill = Pass(kind="prefill", tokens=20, context=0, flops=1, bytes=1, seconds=5.0)
    step = DOMINANT["drafting"]
    assert work(step.model_copy(update={"passes": (prefill, *step.passes)})) == work(step)


def test_what_to_know_before_believing_it() -> None:
    empty = make_step(widths=(), config=CHAIN)
    few = notes(why([ACCEPTED] * 3, header()))
    assert [(note.key, note.args) for note in few] == [("slow.short", {"steps": "3"})]
    some = notes(why([ACCEPTED] * 6 + [empty] * 2, header()))
    assert [(note.key, note.args) for note in some] == [("slow.empty", {"empty": "2", "steps": "8", "share": "25"})]
    assert notes(why([ACCEPTED] * 19 + [empty], header())) == []
    lookup = ACCEPTED.model_copy(update={"passes": ACCEPTED.passes[-1:]})
    assert [note.key for note in notes(why([lookup] * 19 + [empty], header()))] == ["slow.empty"]


def test_nothing_is_estimated() -> None:
    steps = make_trace(3, CHAIN).steps
    bare = make_header(CHAIN, baseline=False)
    assert (silence(steps, bare), why(steps, bare)) == ("slow.no_baseline", None)
    hollow = bare.model_copy(update={"baseline": Baseline(seconds=(), passes=(), token_ids=())})
    assert silence(steps, hollow) == silence(steps, header(plain=0.0)) == "slow.no_baseline"
    assert (silence([], header()), why([], header())) == ("slow.no_steps", None)
    assert silence([timed(ACCEPTED, verify=0.0, commit=0.0)], header()) == "slow.no_steps"
    assert silence(steps, header(DecodeConfig(method="plain"))) == "slow.plain"


def test_a_baseline_without_passes_counts_whole_tokens() -> None:
    bare = header().model_copy(update={"baseline": Baseline(seconds=(PLAIN_TIME,), passes=(), token_ids=(1,))})
    assert why([ACCEPTED], bare).plain_pass == PLAIN_TIME


def test_every_sentence_is_in_both_languages() -> None:
    found = [why([step] * 2, header()) for step in DOMINANT.values()]
    said = [each for one in found for each in (headline(one), *notes(one), *(cause.why for cause in causes(one)))]
    said += [headline(replace_time(found[0], factor)) for factor in (1, 100)]
    for lang in LANGUAGES:
        for each in said:
            assert "{" not in t(lang, each.key, **each.args), each
        assert all(t(lang, f"slow.{name}") for name in CAUSES)


def replace_time(found: Why, factor: float) -> Why:
    """The same run where a plain token takes `factor` times as long as a step."""
    return replace(found, plain=factor * found.step / found.tokens)
