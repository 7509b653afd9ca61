"""What the terminal says of a run as a whole."""

from io import StringIO

import pytest
from rich.console import Console

from specviz.account import Account
from specviz.analysis.slow import causes, headline, why
from specviz.i18n import LANGUAGES, t
from specviz.trace import Trace
from tests.analysis.test_slow import CHAIN, timed
from tests.builders import make_trace


def totals(trace: Trace, lang: str) -> str:
    console = Console(file=StringIO(), width=500)
    Account(console, lang, trace.header.config).totals(trace)
    return console.file.getvalue()


def slowed(trace: Trace) -> Trace:
    return trace.model_copy(update={"steps": tuple(timed(step, drafts=0.2, verify=0.02, commit=0.001) for step in trace.steps)})


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_losing_run_is_explained_in_three_lines(lang: str) -> None:
    trace = slowed(make_trace(12, CHAIN))
    found = why(trace.steps, trace.header)
    said, cause = headline(found), causes(found)[0]
    lines = totals(trace, lang).splitlines()
    at = lines.index(t(lang, said.key, **said.args))
    assert said.key == "slow.slower" and cause.name == "drafting"
    assert t(lang, "slow.drafting") in lines[at + 1] and t(lang, cause.why.key, **cause.why.args) in lines[at + 1]
    assert lines[at + 2].startswith(t(lang, "account.slow_change", what="").strip())
    assert lines[at + 3 :] == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_winning_run_and_one_without_a_baseline_need_no_excuse(lang: str) -> None:
    start = t(lang, "account.slow_change", what="").strip()
    assert start not in totals(make_trace(12, CHAIN, outcome="accept"), lang)
    assert start not in totals(slowed(make_trace(12, CHAIN, baseline=False)), lang)
