"""KL(e‖p): the formulas against everything that can happen, against the engine's own draws, and against closed forms."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

import specviz
from specviz.analysis.typical import NAMED, EmittedKL, Outcome, compare, drawn_kl, emitted_kl, judgeable, threshold, tried
from specviz.config import DecodeConfig
from specviz.engine import record, rules
from specviz.engine.lm import Pair
from specviz.engine.loop import Decoding
from specviz.engine.rejudge import rejudged
from specviz.engine.rules import Evidence, judge, measure
from specviz.engine.sampling import draw_without_replacement
from specviz.engine.tree import TokenTree
from specviz.trace import Row, Step
from tests.builders import make_step, make_trace
from tests.fakes import VOCAB, table_pair

TYPICAL = DecodeConfig(method="medusa", rule="typical", tree="4x2x1", temperature=0.7)
CHAIN = DecodeConfig(temperature=1.0, k=4)
RULES = ("greedy", "rejection", "match", "typical")
Text = tuple[int, ...]


def pairs(count: int, size: int = 6) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Distributions p and q over a few tokens, in fp64, some of them with tokens that cannot come."""
    generator = torch.Generator().manual_seed(0)
    for i in range(count):
        p, q = torch.randn(2, size, generator=generator, dtype=torch.float64).mul(2).softmax(dim=-1)
        if i % 3 == 0:
            q[i % size] = 0
            q /= q.sum()
        yield p, q


def entropy(p: torch.Tensor) -> float:
    return -sum(x * math.log(x) for x in p.tolist() if x > 0)


def kl(e: torch.Tensor, p: torch.Tensor) -> float:
    return sum(a * math.log(a / b) for a, b in zip(e.tolist(), p.tolist(), strict=True) if a > 0)


def row_of(p: torch.Tensor, q: torch.Tensor, named: int) -> Row:
    """A row that names the top of p and of q, and has the rest as two sums."""
    top = {*p.topk(named).indices.tolist(), *q.topk(named).indices.tolist()}
    ids = sorted(top, key=lambda token: -float(p[token]))
    mine, theirs = p[ids].tolist(), q[ids].tolist()
    tails = {"p_tail": max(0.0, 1 - sum(mine)), "q_tail": max(0.0, 1 - sum(theirs))}
    return Row(ids=ids, p=mine, q=theirs, **tails, entropy=entropy(p), threshold=0, argmax=ids[0])


def emitted(p: torch.Tensor, q: torch.Tensor, epsilon: float, delta: float) -> torch.Tensor:
    """The distribution of the token behind the root: every candidate that q can draw, judged by the engine; −1 stands for a draw from p."""
    e = torch.zeros_like(p)
    for x in range(len(q)):
        evidence = Evidence((0, x), (-1, 0), [1.0, float(p[x])], entropy=[entropy(p)] * 2, draw=[-1, -1])
        verdict = judge("typical", evidence, epsilon, delta)
        if verdict.path:
            e[x] += q[x]
        elif verdict.token_id == -1:
            e += q[x] * p
    return e


@pytest.mark.parametrize(("epsilon", "delta"), [(0.09, 0.3), (0.3, 0.9), (0.0, 0.3), (1.0, 0.5), (0.02, 10.0)])
def test_what_a_drawn_candidate_leads_to_is_enumerated(epsilon: float, delta: float) -> None:
    """All tokens named: the KL itself. A record of the top tokens: the same where it says so, else less, never more."""
    bounds = []
    for p, q in pairs(40, 24):
        wanted = kl(emitted(p, q, epsilon, delta), p)
        bar = threshold(epsilon, delta, entropy(p))
        assert drawn_kl(row_of(p, q, 24), bar).nats == pytest.approx(wanted, abs=1e-9)
        found = drawn_kl(row_of(p, q, NAMED), bar)
        assert 0 <= found.nats <= wanted + 1e-9
        if found.exact:
            assert found.nats == pytest.approx(wanted, abs=1e-9)
        bounds += [] if found.exact else [wanted - found.nats]
    assert len(bounds) == 40 if epsilon == 0 else len(bounds) < 40
    assert epsilon > 0.02 or max(bounds) > 0.01, "a sum over many tokens hides some of it"


def test_a_closed_form() -> None:
    """q = p = (¾, ¼), t = ½: the likely token comes with ¾ + ¼·¾, the other with ¼·¼."""
    p = torch.tensor([0.75, 0.25], dtype=torch.float64)
    a, b = 15 / 16, 1 / 16
    assert drawn_kl(row_of(p, p, 2), 0.5) == EmittedKL(1, pytest.approx(a * math.log(a / 0.75) + b * math.log(b / 0.25)), exact=True)
    assert drawn_kl(row_of(p, p, 2), 0.0).nats == pytest.approx(0), "whatever q draws is taken, and q is p"
    assert drawn_kl(row_of(p, p, 2), 0.9).nats == pytest.approx(0), "nothing is taken, and p is drawn from"
    assert drawn_kl(row_of(p, p, 2).model_copy(update={"q": None}), 0.5).nats is None


def test_the_engines_own_draws_have_that_distribution() -> None:
    """3,000 candidates and uniforms through the engine's own drawing and judging. 4 standard errors: a false alarm in 16,000 tokens."""
    generator = torch.Generator().manual_seed(3)
    count = 3_000
    for p, q in pairs(2):
        drawn = draw_without_replacement(q.expand(count, -1), 1, generator)
        v = torch.rand(count, 2, generator=generator, dtype=torch.float64)
        seen: Counter[int] = Counter()
        rows = torch.stack([p, p])
        for [x], uniforms in zip(drawn, v, strict=True):
            tree = TokenTree((0, x), (-1, 0), q[None], (0, -1), drawn=True)
            verdict = judge("typical", measure(tree, rows, uniforms, uniforms, ("draw", "entropy")))
            seen[x if verdict.path else verdict.token_id] += 1
        e = emitted(p, q, 0.09, 0.3)
        for token in range(VOCAB):
            error = math.sqrt(float(e[token] * (1 - e[token])) / count)
            assert abs(seen[token] / count - float(e[token])) <= 4 * error + 1e-12


# ---- chosen candidates --------------------------------------------------------------------------------------------------------------


def texts(pair: Pair, ids: list[int], config: DecodeConfig) -> Iterator[tuple[Text, float, float]]:
    """Every text that the engine can write behind `ids`, its probability, and Σ KL(e‖p) along it by the records.

    Chosen candidates leave only the last token of a step to chance: it is drawn from p.
    """
    left = config.max_new_tokens
    if not left:
        yield (), 1.0, 0.0
        return
    step = next(Decoding(pair, ids, config).steps())
    path = [token.token_id for token in step.emitted if token.node is not None]
    p = torch.softmax(pair.target.logits_after([*ids, *path]) / config.temperature, dim=-1).tolist()
    rest = replace(config, max_new_tokens=left - len(path) - 1) if left > len(path) + 1 else None
    for x in (token for token in range(VOCAB) if p[token] > 0):
        ends = texts(pair, [*ids, *path, x], rest) if rest else [((), 1.0, 0.0)]
        for end, share, nats in ends:
            yield (*path, x, *end), p[x] * share, emitted_kl(step, config).nats + nats


def chance(pair: Pair, ids: list[int], text: Text, temperature: float) -> float:
    share = 1.0
    for i, token in enumerate(text):
        share *= float(torch.softmax(pair.target.logits_after([*ids, *text[:i]]) / temperature, dim=-1)[token])
    return share


@pytest.mark.parametrize("method", ["medusa", "draft", "ngram"])
@pytest.mark.parametrize("rule", ["typical", "greedy"])
def test_the_sum_over_a_run_has_the_kl_of_the_text_as_its_mean(method: str, rule: str) -> None:
    """The chain rule, by enumerating every text of four tokens; and for each, the sum is ln of its probability here over that under p."""
    pair = replace(table_pair(seed=2), eos_ids=())
    config = DecodeConfig(method=method, rule=rule, temperature=0.8, k=3, ngram_min=1, max_new_tokens=4, chat=False, epsilon=0.2, delta=0.5)
    ids = [0, 1, 2, 0, 1]
    if rule == "greedy":
        [step] = [next(Decoding(pair, ids, replace(config, max_new_tokens=1)).steps())]
        p = torch.softmax(pair.target.logits_after(ids) / 0.8, dim=-1)
        assert emitted_kl(step, config) == EmittedKL(1, pytest.approx(-math.log(float(p.max())), abs=1e-5))
        return
    found = list(texts(pair, ids, config))
    assert sum(share for _, share, _ in found) == pytest.approx(1)
    assert len({text for text, _, _ in found}) == len(found)
    exact = 0.0
    for text, share, nats in found:
        likelier = math.log(share / chance(pair, ids, text, config.temperature))
        assert nats == pytest.approx(likelier, abs=1e-9)
        exact += share * likelier
    assert exact == pytest.approx(sum(share * nats for _, share, nats in found))
    assert exact > 0.01, "nothing was accepted: the law was not tried"


def test_by_hand() -> None:
    step = next(step for step in make_trace(20, TYPICAL).steps if step.stopped_at)
    accepted = [-math.log(step.tree[token.node].p) for token in step.emitted if token.node is not None]
    assert emitted_kl(step, TYPICAL) == EmittedKL(len(step.emitted), pytest.approx(sum(accepted)), exact=True)
    assert emitted_kl(make_step(config=TYPICAL, outcome="refuse"), TYPICAL) == EmittedKL(1, 0.0, True)


def test_lossless_rules_and_temperature_0_change_nothing() -> None:
    for config in (CHAIN, replace(CHAIN, rule="match"), replace(TYPICAL, temperature=0.0)):
        for step in make_trace(5, config).steps:
            assert emitted_kl(step, config) == EmittedKL(len(step.emitted), 0.0, True)


def test_drawn_siblings_are_beyond_the_records() -> None:
    config = DecodeConfig(temperature=1.0, tree="3x2x1")
    trace = make_trace(5, config)
    again = specviz.rejudge(trace, rule="typical")
    found = sum((emitted_kl(step, replace(config, rule="typical")) for step in again), EmittedKL())
    assert (found.nats, found.per_token) == (None, None)
    assert found.tokens == sum(len(step.emitted) for step in again)


def test_a_chain_that_was_drawn_has_a_bound_and_says_so() -> None:
    typical, trace = replace(CHAIN, rule="typical"), make_trace(20, CHAIN)
    exact = 0
    for step in specviz.rejudge(trace, rule="typical"):
        rows = [step.rows[step.stopped_at if token.node is None else step.tree[token.node].parent] for token in step.emitted]
        places = [EmittedKL(1) if row.q is None else drawn_kl(row, threshold(0.09, 0.3, row.entropy)) for row in rows]
        found = emitted_kl(step, typical)
        assert (found.tokens, found.nats) == (len(step.emitted), pytest.approx(sum(place.nats for place in places)))
        assert found.exact == all(place.exact for place in places)
        exact += found.exact
    assert 0 < exact < 20


def test_rows_name_as_many_tokens_as_the_bound_takes_for_granted() -> None:
    assert NAMED == record.TOP
    assert threshold(0.09, 0.3, 1.5) == rules.threshold(0.09, 0.3, 1.5)


# ---- judged candidates, and the rules side by side ----------------------------------------------------------------------------------


def test_those_below_a_refused_one_were_not_judged() -> None:
    for step in make_trace(20, TYPICAL, seed=2).steps:
        found = {one.node: one for one in tried(step)}
        for node in range(1, len(step.tree)):
            path = step.path(node)[1:]
            bars = [threshold(0.09, 0.3, step.rows[step.tree[above].parent].entropy) for above in path]
            passing = [step.tree[above].p > bar for above, bar in zip(path, bars, strict=True)]
            assert (node in found) == all(passing[:-1])
            if node in found:
                taken = node in step.path(step.stopped_at)
                assert found[node].state == ("refused" if not passing[-1] else "accepted" if taken else "beside")
                assert found[node].entropy == step.rows[step.tree[node].parent].entropy


def outcomes(steps: list[Step], config: DecodeConfig) -> dict[str, Outcome]:
    configs = {rule: replace(config, rule=rule) for rule in RULES}
    judged = {rule: [rejudged(step, one, ()) for step in steps] if judgeable(steps[0], one) else None for rule, one in configs.items()}
    return {outcome.rule: outcome for outcome in compare(steps, judged, configs)}


def test_the_run_never_parts_from_itself_and_the_others_are_counted_to_their_parting() -> None:
    trace = make_trace(20, TYPICAL, seed=1)
    found = outcomes(list(trace.steps), TYPICAL)
    assert list(found) == list(RULES)
    assert found["typical"].parts is None and found["typical"].own == found["typical"].counts
    others = [found[rule] for rule in RULES[:3]]
    assert any(other.parts for other in others)
    for other in others:
        assert other.parts is not None and other.own.steps == other.parts + 1 and other.counts.steps == 20


def test_at_temperature_0_all_four_are_the_argmax() -> None:
    trace = make_trace(8, DecodeConfig(tree="2x2x1"))
    found = outcomes(list(trace.steps), trace.header.config)
    assert {(one.counts, one.parts, one.kl.nats) for one in found.values()} == {(found["greedy"].counts, None, 0.0)}


def test_another_word_is_told_from_another_number_of_words() -> None:
    config = DecodeConfig(temperature=1.0, k=3)
    first = make_step(0, 20, config=config, outcome="accept")
    second = make_step(1, 24, config=config, outcome="accept")
    ids = [token.token_id for token in (*first.emitted, *second.emitted)]
    configs = {"match": replace(config, rule="match")}

    def parted(tokens: list[int]) -> Outcome:
        some = [first.emitted[-1].model_copy(update={"token_id": token}) for token in tokens]
        again = [first.model_copy(update={"emitted": tuple(some)}), second]
        return compare([first, second], {"match": again}, configs)[0]

    assert (parted(ids[:2]).parts, parted(ids[:2]).other_text) == (0, False)
    assert (parted(ids[:6]).parts, parted(ids[:6]).other_text) == (0, False)
    assert (parted([ids[0], ids[1] + 1]).parts, parted([ids[0], ids[1] + 1]).other_text) == (0, True)


def test_a_rule_whose_numbers_are_missing_has_none() -> None:
    step = make_step(config=TYPICAL)
    bare = step.model_copy(update={"rows": tuple(row.model_copy(update={"draw": None}) for row in step.rows)})
    assert [judgeable(bare, replace(TYPICAL, rule=rule)) for rule in RULES] == [True, False, False, False]
    untested = step.model_copy(update={"tree": tuple(node.model_copy(update={"u": None}) for node in step.tree)})
    assert [judgeable(untested, replace(TYPICAL, rule=rule)) for rule in RULES] == [True, False, True, True]
    assert outcomes([bare], TYPICAL)["match"] == Outcome("match")
