"""What must hold in every step of every method, over whatever parameters hypothesis comes up with."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specviz
from specviz.config import METHODS, NGRAM_MATCHES, RULES, DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import Decoding
from specviz.engine.record import step_of
from specviz.engine.rules import judge, recorded
from specviz.trace import Step, Trace
from tests.fakes import EOS, table_pair

NAMED = ("[[0],[1],[1,0]]", "[[1],[1,0],[1,2],[1,2,0]]", "[[5],[0],[0,0],[0,0,3]]")
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def configs(draw: st.DrawFn, methods: tuple[str, ...] = METHODS) -> DecodeConfig:
    method = draw(st.sampled_from(methods))
    tree = None if method == "plain" else draw(st.sampled_from([None, "1", "3", "2x2", "1x3x1", "4x1", *NAMED]))
    if method == "medusa" and draw(st.booleans()):
        tree = f"sparse:{draw(st.integers(1, 12))}"
    longest = draw(st.integers(1, 4))
    return DecodeConfig(
        method=method,
        ngram_max=longest,
        ngram_min=draw(st.integers(1, longest)),
        ngram_match=draw(st.sampled_from(NGRAM_MATCHES)),
        rule=draw(st.sampled_from([rule for rule in RULES if not (method == "plain" and rule == "typical")])),
        k=draw(st.integers(1, 6)),
        tree=tree,
        temperature=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        top_k=draw(st.sampled_from([0, 3])),
        top_p=draw(st.sampled_from([1.0, 0.9])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3])),
        max_new_tokens=draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 2**31)),
        chat=False,
    )


@pytest.mark.parametrize("method", METHODS)
@SLOW
@given(data=st.data())
def test_every_step_keeps_the_promises(method: str, data: st.DataObject) -> None:
    config = data.draw(configs((method,)))
    prompt = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5)) * data.draw(st.integers(1, 2))  # repeated: to be looked up
    context = data.draw(st.sampled_from([12, 100_000]))
    pair = table_pair(eos=True, max_context=context)
    decoding = Decoding(pair, prompt, config)
    written: list[int] = []
    for index, done in enumerate(decoding.rounds()):
        step = step_of(done, index, config, decoding.texts)
        written += [token.token_id for token in step.emitted]
        assert decoding.cache.length == len(decoding.committed.ids) - 1
        assert decoding.committed.ids == prompt + written
        assert step.context + len(step.emitted) == len(decoding.committed.ids)
        _check_shape(step, config, config.max_new_tokens - len(written) + len(step.emitted))
        _check_emitted(step)
        _check_matches(step, config, [*prompt, *written][: step.context])
        assert judge("greedy" if config.greedy else config.rule, recorded(step), config.epsilon, config.delta).verdicts == tuple(
            node.verdict for node in step.tree
        )
        _rederive(step, config)
    assert len(written) <= config.max_new_tokens and len(prompt) + len(written) <= context
    assert EOS not in written[:-1]
    assert written[-1] == EOS or len(written) == config.max_new_tokens or len(prompt) + len(written) == context


def _check_shape(step: Step, config: DecodeConfig, remaining: int) -> None:
    depth = max(step.depth(i) for i in range(len(step.tree)))
    assert 1 <= len(step.emitted) <= depth + 1 <= remaining
    if config.method == "draft" and config.tree is None and step.context < 12 - config.k:
        assert len(step.tree) - 1 == min(config.k, remaining - 1), "a chosen K is K, unless the budget is smaller"
    for i, node in enumerate(step.tree[1:], start=1):
        assert node.parent < i and step.children(node.parent)[node.rank] == i
    for siblings in (step.children(i) for i in range(len(step.tree))):
        tokens = [step.tree[i].token_id for i in siblings]
        assert len(set(tokens)) == len(tokens), "a token is proposed once"


def _check_emitted(step: Step) -> None:
    """Nothing that was not proposed is ever accepted, and the accepted ones are one path from the root."""
    accepted = [token for token in step.emitted if token.kind == "accepted"]
    parent = 0
    for token in accepted:
        node = step.tree[token.node]
        assert node.token_id == token.token_id and node.parent == parent and node.verdict == "accepted"
        parent = token.node
    extra = [token for token in step.emitted if token.kind != "accepted"]
    assert len(extra) + step.dropped >= 1 and all(token.node is None for token in extra) and len(extra) <= 1
    if extra:
        assert step.emitted[-1] is extra[0]


def _check_matches(step: Step, config: DecodeConfig, text: list[int]) -> None:
    """What is said of where a proposal was copied from is true, and "no match" is said exactly where there is none."""
    if step.matches is None:
        assert len(step.tree) == 1 or config.method != "ngram"
        return
    assert config.method == "ngram"
    assert len(step.tree) > 1 or not step.matches or config.choices, "a match gives candidates, where the tree has room for its first"
    for match in step.matches:
        assert text[match.start : match.start + match.length] == text[-match.length :]
        behind = match.start + match.length
        path = [step.tree[node].token_id for node in step.path(match.node)[1:]]
        assert path == text[behind : behind + len(path)]
    if not step.matches:
        least = text[-config.ngram_min :]
        assert not any(text[i : i + len(least)] == least for i in range(len(text) - len(least))) or len(text) <= config.ngram_min


def _rederive(step: Step, config: DecodeConfig) -> None:
    """By hand, from the record alone, without the code that decided."""
    for i, node in enumerate(step.tree[1:], start=1):
        row = step.rows[node.parent]
        if node.verdict == "untested":
            continue
        if config.greedy:
            passes = node.token_id == row.argmax
        elif config.rule == "rejection":
            passes = node.p_test > 0 and (node.q_test == 0 or node.u < node.p_test / node.q_test)
        elif config.rule == "match":
            passes = node.token_id == row.draw
        else:
            passes = node.p > min(config.epsilon, config.delta * math.exp(-row.entropy))
        assert passes == (node.verdict == "accepted") or (config.rule == "typical" and not config.greedy and node.verdict != "refused"), i
    for row in step.rows:
        assert math.isclose(sum(row.p) + row.p_tail, 1, abs_tol=1e-4)
        assert row.q is None or math.isclose(sum(row.q) + row.q_tail, 1, abs_tol=1e-4)


@SLOW
@given(config=configs())
def test_a_trace_survives_its_file_and_a_seed_its_run(config: DecodeConfig) -> None:
    parameters = {name: getattr(config, name) for name in config.__dataclass_fields__}
    first = specviz.run(table_pair(eos=True), "abc", baseline=False, **parameters)
    again = specviz.run(table_pair(eos=True), "abc", baseline=False, **parameters)
    assert Trace.from_json(first.to_json()) == first
    assert _timeless(first) == _timeless(again)


def _timeless(trace: Trace) -> list:
    drop = {"seconds", "passes"}
    return [step.model_dump(exclude=drop) for step in trace.steps]


def test_greedy_text_is_the_same_for_every_method() -> None:
    for seed in range(4):
        pair = table_pair(seed, seed + 100, eos=True)
        plain = _greedy(pair, method="plain")
        for method in (
            {"method": "ngram", "k": 4, "ngram_min": 1},
            {"method": "ngram", "tree": "3x2", "ngram_max": 2, "ngram_match": "earliest"},
            {"method": "draft", "k": 4},
            {"method": "draft", "tree": "3x2"},
            {"method": "draft", "tree": NAMED[1]},
            {"method": "ngram", "tree": NAMED[0], "ngram_min": 1},
            {"method": "medusa", "tree": NAMED[2]},
            {"method": "medusa"},
            {"method": "medusa", "tree": "4x2"},
        ):
            for rule in RULES:
                assert _greedy(pair, rule=rule, **method) == plain, (seed, method, rule)


def _greedy(pair: Pair, **parameters: object) -> list[int]:
    config = DecodeConfig(chat=False, repetition_penalty=1.2, max_new_tokens=40, **parameters)
    return [token.token_id for done in Decoding(pair, [0, 1, 2], config).rounds() for token in done.emitted]


def test_a_draft_that_is_the_target_is_always_accepted() -> None:
    trace = specviz.run(table_pair(same=True), "abc", k=5, temperature=1.0, max_new_tokens=300, chat=False, baseline=False)
    verdicts = [node.verdict for step in trace.steps for node in step.tree[1:]]
    assert set(verdicts) == {"accepted"}


def test_the_temperature_reaches_p() -> None:
    cold, hot = (
        specviz.run(table_pair(), "abc", method="plain", rule="match", temperature=t, chat=False, baseline=False, max_new_tokens=50)
        for t in (0.2, 2.0)
    )
    assert sum(step.rows[0].entropy for step in cold.steps) < 0.5 * sum(step.rows[0].entropy for step in hot.steps)
