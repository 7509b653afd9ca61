"""Every verdict explained: the sentence holds the numbers that decided, and the numbers say what the verdict says."""

import re
from dataclasses import replace
from itertools import product

import pytest

from specviz.analysis.verdicts import explain, explain_extra
from specviz.config import DecodeConfig
from specviz.i18n import catalogue, t
from specviz.trace import Emitted, Node, Row, Seconds, Step
from tests.builders import make_step, make_trace

SAMPLED = DecodeConfig(rule="rejection", temperature=1.0)
CONFIGS = [
    DecodeConfig(method=method, rule=rule, tree=tree, k=3, temperature=temperature)
    for method, rule, tree, temperature in product(
        ("draft", "medusa"), ("greedy", "rejection", "match", "typical"), (None, "3x2x1"), (0.0, 1.0)
    )
]
TEXTS = {1: " dark", 2: " night", 3: " hill", 4: "�", 5: "�", 9: "\n"}


def node(token: int, parent: int = 0, verdict: str = "refused", **numbers: float) -> Node:
    return Node(token_id=token, text=TEXTS[token], parent=parent, verdict=verdict, **numbers)


def row(argmax: int = 1, **numbers) -> Row:
    return Row(**{"ids": (1, 2), "p": (0.6, 0.3), "p_tail": 0.1, "entropy": 1.91, "threshold": 0.0, "argmax": argmax} | numbers)


def step(*candidates: Node, rows: tuple[Row, ...] = (), extra: Emitted | None = None, stopped_at: int = 0) -> Step:
    tree = (Node(token_id=9, text="\n", parent=-1, verdict="root"), *candidates)
    rows = rows + (row(),) * (len(tree) - len(rows))
    extra = extra or Emitted(token_id=1, text=" dark", kind="recovered")
    nothing = Seconds(propose=0, verify=0, commit=0)
    return Step(index=0, context=1, tree=tree, rows=rows, texts=TEXTS, stopped_at=stopped_at, emitted=(extra,), passes=(), seconds=nothing)


def said(made: Step, at: int, config: DecodeConfig = SAMPLED) -> str:
    explanation = explain(made, at, config)
    return t("en", explanation.key, **explanation.args)


def test_rejection_spells_out_its_ratio():
    made = step(node(1, verdict="accepted", p_test=0.31, q_test=0.52, u=0.42))
    assert said(made, 1) == "min(1, 0.31 / 0.52) = 0.596; u = 0.42 → accepted"


def test_rejection_where_the_draft_was_less_sure_than_the_target():
    made = step(node(1, verdict="accepted", p_test=0.6, q_test=0.52, u=0.9999))
    assert said(made, 1) == "min(1, 0.6 / 0.52) = 1; u = 0.9999 → accepted"


def test_numbers_that_would_read_the_same_get_more_digits():
    made = step(node(1, p_test=0.0996 * 0.5, q_test=0.5, u=0.09961))
    assert said(made, 1) == "min(1, 0.0498 / 0.5) = 0.0996; u = 0.09961 → refused"
    made = step(node(1, p_test=0.31, q_test=0.3101, u=0.9998))
    assert said(made, 1) == "min(1, 0.31 / 0.3101) = 0.9997; u = 0.9998 → refused"


def test_a_chosen_candidate_is_accepted_with_p():
    made = step(node(1, p_test=0.31, q_test=1.0, u=0.42))
    assert said(made, 1) == "chosen, not drawn: accepted with probability p(x) = 0.31; u = 0.42 → refused"


def test_a_later_sibling_is_held_against_the_residual():
    made = step(node(2, p_test=0.1, q_test=0.5, u=0.9), node(1, verdict="accepted", p_test=0.8, q_test=0.4, u=0.3))
    assert said(made, 2) == "after “ night” was refused, p is the residual: min(1, 0.8 / 0.4) = 1; u = 0.3 → accepted"
    made = step(node(2, p_test=0.1, q_test=1.0, u=0.9), node(1, p_test=0.8, q_test=1.0, u=0.9))
    assert "renormalised without it: accepted with probability p(x) = 0.8; u = 0.9 → refused" in said(made, 2)


def test_a_zero_under_the_fraction_is_no_error():
    assert "min(1, 0.2 / 0) = 1" in said(step(node(1, verdict="accepted", p_test=0.2, q_test=0.0, u=0.5)), 1)
    assert "min(1, 0 / 0) = 0" in said(step(node(1, p_test=0.0, q_test=0.0, u=0.0)), 1)


def test_greedy_names_both_tokens():
    for config in (replace(SAMPLED, temperature=0.0), replace(SAMPLED, rule="greedy")):
        assert said(step(node(2)), 1, config) == "argmax of p is “ dark”, not “ night” → refused"
        assert said(step(node(1, verdict="accepted")), 1, config) == "argmax of p is “ dark” → accepted"


def test_tokens_that_look_the_same_are_told_apart_by_their_ids():
    made = step(node(4), rows=(row(argmax=5),))
    assert said(made, 1, DecodeConfig()) == "argmax of p is “� #5”, not “� #4” → refused"


def test_match_names_what_the_target_drew():
    config = replace(SAMPLED, rule="match")
    assert said(step(node(2, p=0.3), rows=(row(draw=1),)), 1, config) == "the target drew “ dark”, not “ night” (p(x) = 0.3) → refused"
    assert said(step(node(1, verdict="accepted", p=0.6), rows=(row(draw=1),)), 1, config).endswith("(p(x) = 0.6) → accepted")
    assert "“#77”" in said(step(node(1, p=0.6), rows=(row(draw=77),)), 1, config)  # a token that the step does not name


def test_typical_spells_out_its_threshold():
    config = replace(SAMPLED, rule="typical")
    assert said(step(node(2, p=0.04)), 1, config) == "0.04 ≤ min(0.09, 0.3·e^(−1.91)) = 0.0444 → refused"
    close = step(node(2, p=0.04443, verdict="accepted"))
    assert said(close, 1, config) == "0.04443 > min(0.09, 0.3·e^(−1.91)) = 0.04442 → accepted"


def test_untested_candidates_say_what_stood_in_their_way():
    made = step(
        node(1, verdict="accepted", p_test=0.5, q_test=0.5, u=0.1),
        node(2, verdict="untested"),
        node(3, parent=1, verdict="refused", p_test=0.1, q_test=0.5, u=0.9),
        node(1, parent=2, verdict="untested"),
        node(1, parent=3, verdict="untested"),
    )
    assert said(made, 2) == "not tested: “ dark” was accepted in its place"
    assert said(made, 4) == "not tested: it continues “ night”, and “ dark” was accepted in that place"
    assert said(made, 5) == "not tested: “ hill” before it was refused"
    assert said(step(node(1, verdict="untested")), 1) == "not tested"


def test_typical_says_that_a_passing_candidate_lay_beside_the_path():
    config = replace(SAMPLED, rule="typical")
    made = step(node(1, verdict="accepted", p=0.6), node(2, verdict="untested", p=0.3), node(3, parent=1, verdict="accepted", p=0.5))
    assert said(made, 2, config).startswith("0.3 > min(0.09, 0.3·e^(−1.91)) = 0.0444 passes too")


def test_where_the_extra_token_came_from():
    drawn = step(node(2, p_test=0.1, q_test=0.5, u=0.9), rows=(row(u=0.25, residual=(0.75, 0.0)),))
    explanation = explain_extra(drawn, SAMPLED)
    assert (explanation.key, explanation.args) == ("verdict.recovered.residual", {"token": " dark", "p": "0.75", "u": "0.25"})
    chosen = step(node(2, p_test=0.1, q_test=1.0, u=0.9), rows=(row(u=0.25, residual=(0.75, 0.0)),))
    assert explain_extra(chosen, SAMPLED).key == "verdict.recovered.rest"
    unnamed = step(node(2, q_test=0.5), extra=Emitted(token_id=77, text="?", kind="recovered"))
    assert explain_extra(unnamed, SAMPLED).args == {"token": "#77", "p": "?", "u": "?"}


def test_a_step_that_was_cut_says_so():
    cut = make_step(config=SAMPLED, outcome="accept", keep=2)
    assert explain_extra(cut, SAMPLED).key == "verdict.extra.cut"
    assert explain_extra(cut, SAMPLED).args == {"dropped": "4"}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.method}-{c.rule}-{c.tree}-{c.temperature}")
@pytest.mark.parametrize("outcome", ["free", "accept", "refuse"])
def test_every_explanation_is_a_full_sentence_in_both_languages(config: DecodeConfig, outcome: str):
    for made in make_trace(6, config, outcome=outcome, eos=True).steps:
        explanations = [explain(made, i, config) for i in range(len(made.tree))] + [explain_extra(made, config)]
        for explanation, lang in product(explanations, ("en", "zh")):
            placeholders = set(re.findall(r"\{(\w+)\}", catalogue(lang)[explanation.key]))
            assert placeholders <= set(explanation.args)
            assert "?" not in explanation.args.values()


def read(text: str) -> float:
    mantissa, _, power = text.partition("×10")
    return float(f"{mantissa}e{power.translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789')) or 0}")


@pytest.mark.parametrize("rule", ["rejection", "typical"])
def test_the_numbers_as_written_agree_with_the_verdict(rule: str):
    """A reader who checks the printed comparison comes to the recorded verdict, also at close calls."""
    config = DecodeConfig(rule=rule, tree="3x2x1", temperature=1.0)
    for made, i in ((s, i) for s in make_trace(60, config).steps for i in range(1, len(s.tree))):
        args = explain(made, i, config).args
        verdict = made.tree[i].verdict
        if verdict != "untested" and rule == "rejection":
            assert (read(args["u"]) < read(args.get("ratio", args["p"]))) == (verdict == "accepted")
        if verdict != "untested" and rule == "typical":
            assert (read(args["p"]) > read(args["threshold"])) == (verdict == "accepted")


def test_no_sentence_is_left_over():
    """Each verdict.* key of the catalogue is one that the code can produce."""
    kinds = ("accepted", "refused")
    forms = ("greedy", "match", "drawn", "drawn.later", "chosen", "chosen.later", "typical")
    extras = ("plain.greedy", "plain.drawn", "bonus.greedy", "bonus.drawn", "extra.cut")
    recovered = tuple(f"recovered.{source}" for source in ("greedy", "match", "typical", "residual", "rest"))
    untested = ("root", "untested", "below_refused", "below_untested", "sibling_accepted", "typical.beside")
    expected = {f"verdict.{key}" for key in (*(f"{f}.{k}" for f in forms for k in kinds), *extras, *recovered, *untested)}
    assert {key for key in catalogue("en") if key.startswith("verdict.")} == expected
