"""The rules and the explanations in JavaScript are twins of those in Python: the same verdicts, tokens, sentences and digits."""

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
from playwright.sync_api import Browser

from specviz.analysis.quantities import compared, number
from specviz.analysis.verdicts import explain, explain_extra
from specviz.config import DecodeConfig
from specviz.engine.rules import Judgement, judge, recorded
from specviz.trace import Emitted, Step, Trace
from tests.builders import make_trace
from tests.e2e.player import Stage, stage

pytestmark = pytest.mark.browser

TRIED = [
    ("greedy", 0.09, 0.3), ("rejection", 0.09, 0.3), ("match", 0.09, 0.3),
    ("typical", 0.09, 0.3), ("typical", 0.0, 0.3), ("typical", 0.3, 0.9), ("typical", 1.0, 10.0), ("typical", 0.5, 0.0),
]  # fmt: skip
RECORDED = {
    "chain": DecodeConfig(temperature=1.0, k=4),
    "tree": DecodeConfig(temperature=1.0, tree="3x2x1"),
    "medusa, typical": DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7),
    "medusa, match": DecodeConfig(method="medusa", rule="match", tree="3x2", temperature=1.2),
    "greedy": DecodeConfig(rule="greedy", temperature=0.8, k=3),
    "temperature 0": DecodeConfig(temperature=0.0, tree="2x2x1"),
    "plain": DecodeConfig(method="plain", rule="match", temperature=1.0),
}
# Everything that a page asks of the script about a run under one rule.
ALL = """([steps, how, eos]) => {
  const tried = made.rejudge(steps, how, eos);
  const one = (step) => {
    const judgement = made.judge(step, how);
    const tokens = made.rejudge([step], how, eos).tokens[0];
    const judged = { ...judgement, tokens };
    const why = step.tree.map((_, i) => made.explain(step, judged, how, i));
    return { ...judgement, tokens, why, extra: made.explainExtra(step, judged, how) };
  };
  return { differs: tried.differs, judged: tried.judgements.length, steps: steps.map(one) };
}"""


@pytest.fixture(scope="module")
def script(browser: Browser) -> Iterator[Stage]:
    with stage(browser) as made:
        made.prepare()
        yield made


@pytest.fixture(params=RECORDED, scope="module")
def trace(request: pytest.FixtureRequest) -> Trace:
    return make_trace(steps=14, config=RECORDED[request.param], seed=5, eos=request.param == "tree")


def how(trace: Trace, rule: str, epsilon: float, delta: float) -> DecodeConfig:
    return replace(trace.header.config, rule=rule, epsilon=epsilon, delta=delta)


def tried(trace: Trace) -> Iterator[DecodeConfig]:
    """The rules to try on a run; plain decoding proposes nothing that the typical rule could judge."""
    for rule, epsilon, delta in TRIED:
        if (trace.header.config.method, rule) != ("plain", "typical"):
            yield how(trace, rule, epsilon, delta)


def emitted(step: Step, judgement: Judgement, eos: tuple[int, ...]) -> list[Emitted]:
    """What the judged step would commit, cut where the run would have been cut."""
    tokens = [Emitted(token_id=step.tree[i].token_id, text="", kind="accepted", node=i) for i in judgement.path]
    tokens.append(Emitted(token_id=judgement.token_id, text="", kind=judgement.kind))
    end = next((i + 1 for i, token in enumerate(tokens) if token.token_id in eos), len(tokens))
    budget = len(step.emitted) if step.dropped and step.emitted[-1].token_id not in eos else len(tokens)
    return tokens[: min(end, budget)]


def rejudged(step: Step, judgement: Judgement, eos: tuple[int, ...]) -> Step:
    tree = tuple(node.model_copy(update={"verdict": verdict}) for node, verdict in zip(step.tree, judgement.verdicts, strict=True))
    tokens = tuple(emitted(step, judgement, eos))
    dropped = len(judgement.path) + 1 - len(tokens)
    return step.model_copy(update={"tree": tree, "emitted": tokens, "stopped_at": judgement.stopped_at, "dropped": dropped})


def test_steps_are_judged_and_explained_as_in_python(script: Stage, trace: Trace) -> None:
    eos = trace.header.eos_ids
    steps = [step.model_dump(mode="json") for step in trace.steps]
    for config in tried(trace):
        found = script.page.evaluate(ALL, [steps, asdict(config), eos])
        differs = -1
        for i, (step, mine) in enumerate(zip(trace.steps, found["steps"], strict=True)):
            judgement = judge("greedy" if config.greedy else config.rule, recorded(step), config.epsilon, config.delta)
            assert (tuple(mine["path"]), tuple(mine["verdicts"])) == (judgement.path, judgement.verdicts)
            assert (mine["token_id"], mine["kind"], mine["stopped_at"]) == (judgement.token_id, judgement.kind, judgement.stopped_at)
            again = rejudged(step, judgement, eos)
            assert mine["why"] == [asdict(explain(again, node, config)) for node in range(len(step.tree))]
            assert mine["extra"] == asdict(explain_extra(again, config))
            if differs < 0 and [token.token_id for token in again.emitted] != [token.token_id for token in step.emitted]:
                differs = i
        assert found["differs"] == differs
        assert found["judged"] == (differs + 1 if differs >= 0 else len(trace.steps))


def test_the_comparison_can_fail(script: Stage) -> None:
    """Some of what is tried above does change the outcome."""
    trace = make_trace(steps=12, config=RECORDED["tree"], seed=5)
    steps = [step.model_dump(mode="json") for step in trace.steps]
    found = {
        rule: script.page.evaluate(ALL, [steps, asdict(how(trace, rule, epsilon, delta)), trace.header.eos_ids])["differs"]
        for rule, epsilon, delta in TRIED[:4]
    }
    assert found["rejection"] == -1
    assert set(found.values()) != {-1}


def test_numbers_read_the_same(script: Stage) -> None:
    source = random.Random(1)
    values = [0, 1, 0.5, 0.25, 1e-3, 9.995e-4, 9.9949e-4, 0.1 + 0.2, 1e15, 9.995e14, 123456.0, 1e-300, 2.5, 0.125, 1.005, 1234.5, None]
    values += [source.random() for _ in range(200)] + [math.exp(source.uniform(-40, 40)) for _ in range(200)]
    assert script.page.evaluate("values => values.map((value) => made.number(value))", values) == [number(value) for value in values]
    for digits in (1, 2, 5, 17):
        mine = script.page.evaluate("([values, digits]) => values.map((value) => made.number(value, digits))", [values, digits])
        assert mine == [number(value, digits) for value in values]


def test_numbers_side_by_side_are_told_apart(script: Stage) -> None:
    pairs = [(0.5, 0.5), (0.1 + 0.2, 0.3), (0.12345, 0.12346), (None, 0.5), (0, 1e-9), (1.0, 0.9999), (0.30000001, 0.3)]
    assert script.page.evaluate("pairs => pairs.map((pair) => made.compared(...pair))", pairs) == [list(compared(*pair)) for pair in pairs]
