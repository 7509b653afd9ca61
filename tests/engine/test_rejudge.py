"""Recorded steps under another rule: the same numbers decide as while decoding, and nothing else of the record changes."""

from dataclasses import replace

import pytest

import specviz
from specviz.config import DecodeConfig
from specviz.engine.loop import decode
from specviz.engine.rejudge import rejudged
from specviz.i18n import Fault
from tests import builders
from tests.builders import make_trace
from tests.fakes import table_pair

RECORDED = {
    "chain": DecodeConfig(temperature=1.0, k=4),
    "siblings": DecodeConfig(temperature=1.0, tree="3x2x1"),
    "heads": DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7),
    "temperature 0": DecodeConfig(tree="2x2x1"),
    "plain": DecodeConfig(method="plain", rule="match", temperature=1.0),
}
RULES = ("greedy", "rejection", "match", "typical")


@pytest.mark.parametrize("name", RECORDED)
def test_its_own_rule_takes_every_step_as_it_was(name: str) -> None:
    trace = make_trace(10, RECORDED[name], seed=3, eos=name == "siblings")
    assert specviz.rejudge(trace) == list(trace.steps)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["chain", "siblings", "heads"])
def test_another_rule_decides_as_written_a_second_time(name: str, rule: str) -> None:
    trace = make_trace(14, RECORDED[name], seed=4)
    config = replace(trace.header.config, rule=rule, epsilon=0.2, delta=0.6)
    for step in trace.steps:
        again = rejudged(step, config, ())
        path, verdicts, extra = builders.judge(step.tree, step.rows, config)
        assert [node.verdict for node in again.tree] == verdicts
        assert [token.node for token in again.emitted] == [*path, None]
        assert again.emitted[-1].token_id == extra
        assert (again.rows, again.passes, again.context) == (step.rows, step.passes, step.context)


def test_a_run_of_another_rule_would_have_begun_so() -> None:
    """Chosen candidates do not hang on the rule: the engine's own first step under it is the recorded one, judged again."""
    pair = table_pair()
    for rule in RULES:
        config = DecodeConfig(method="medusa", rule="typical", temperature=1.0, max_new_tokens=12, chat=False, seed=5)
        first = next(iter(decode(pair, "abc", config)))
        wanted = next(iter(decode(pair, "abc", replace(config, rule=rule))))
        found = rejudged(first, replace(config, rule=rule), pair.eos_ids)
        assert [(token.token_id, token.text, token.kind) for token in found.emitted] == [
            (token.token_id, token.text, token.kind) for token in wanted.emitted
        ]
        assert found.tree == wanted.tree


def test_nothing_follows_the_end_of_the_text() -> None:
    step = make_trace(1, RECORDED["chain"], outcome="accept").steps[0]
    end = step.emitted[1].token_id
    again = rejudged(step, RECORDED["chain"], (end,))
    place = [token.token_id for token in step.emitted].index(end)
    assert [token.token_id for token in again.emitted] == [token.token_id for token in step.emitted[: place + 1]]
    assert again.dropped == len(step.emitted) - place - 1


def test_what_the_budget_cut_stays_cut() -> None:
    step = builders.make_step(widths=(1,) * 5, config=RECORDED["chain"], outcome="accept", keep=2)
    assert len(rejudged(step, replace(RECORDED["chain"], rule="typical", epsilon=0.0), ()).emitted) == 2


def test_parameters_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Fault):
        specviz.rejudge(make_trace(1), rule="guess")
    with pytest.raises(Fault):
        specviz.rejudge(make_trace(1, RECORDED["plain"]), rule="typical")
