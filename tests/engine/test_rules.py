"""The rules on hand-sized numbers."""

import math

import pytest
import torch

from specviz.engine.rules import Evidence, judge, measure, rejection_tests, threshold
from specviz.engine.tree import TokenTree

#        0 ── 1 ── 3
#        └─── 2
TOKENS, PARENTS = (9, 1, 2, 3), (-1, 0, 0, 1)


def _evidence(**changes: object) -> Evidence:
    numbers = {
        "tokens": TOKENS, "parents": PARENTS, "p": (1, 0.5, 0.3, 0.4), "entropy": (1, 1, 1, 1), "argmax": (1, 3, 0, 0),
        "p_test": (0, 0.5, 0.3, 0.4), "q_test": (0, 0.5, 0.3, 0.4), "u": (0, 0.5, 0.5, 0.5),
        "draw": (1, 3, 7, 8), "residual_draw": (4, 5, 7, 8),
    }  # fmt: skip
    return Evidence(**(numbers | changes))


def test_greedy_follows_the_argmax_and_ends_with_it() -> None:
    verdict = judge("greedy", _evidence())
    assert (verdict.path, verdict.token_id, verdict.kind) == ((1, 3), 0, "bonus")
    assert verdict.verdicts == ("root", "accepted", "refused", "accepted")
    stopped = judge("greedy", _evidence(argmax=(1, 6, 0, 0)))
    assert (stopped.path, stopped.token_id, stopped.kind) == ((1,), 6, "recovered")


def test_rejection_compares_strictly() -> None:
    ratio = _evidence(p_test=(0, 0.31, 0.3, 0.4), q_test=(0, 0.62, 0.3, 0.4), u=(0, 0.5, 0.5, 0.5))
    assert judge("rejection", ratio).verdicts[1] == "refused", "u = p/q is a refusal"
    zero = _evidence(p_test=(0, 0.0, 0.0, 0.0), u=(0, 0.0, 0.0, 0.0))
    assert judge("rejection", zero).path == (), "p = 0 is refused even at u = 0"
    unlikely = _evidence(q_test=(0, 0.0, 0.3, 0.4))
    assert judge("rejection", unlikely).path[0] == 1, "q = 0 never divides"


def test_rejection_tests_siblings_in_order_and_resamples_from_the_residual() -> None:
    second = judge("rejection", _evidence(p_test=(0, 0.1, 0.3, 0.4)))
    assert second.path == (2,) and second.verdicts == ("root", "refused", "accepted", "untested")
    assert (second.token_id, second.kind) == (7, "bonus")
    none = judge("rejection", _evidence(p_test=(0, 0.1, 0.1, 0.4)))
    assert (none.path, none.token_id, none.kind) == ((), 4, "recovered")


def test_match_uses_one_draw_a_node() -> None:
    assert judge("match", _evidence()).path == (1, 3)
    other = judge("match", _evidence(draw=(2, 3, 7, 8)))
    assert (other.path, other.token_id, other.kind) == ((2,), 7, "bonus")
    assert judge("match", _evidence(draw=(6, 3, 7, 8))).token_id == 6


def test_plain_decoding_judges_nobody() -> None:
    alone = Evidence((9,), (-1,), (1,), (1,), (4,), draw=(5,))
    assert judge("greedy", alone).token_id == 4 and judge("match", alone).token_id == 5
    assert judge("greedy", alone).kind == "plain"


@pytest.mark.parametrize(
    ("p", "wanted", "passing"),
    [((0.9, 0.05, 0.03, 0.02), 0.09, 1), ((0.4, 0.3, 0.2, 0.1), 0.0834, 4), ((0.25, 0.25, 0.25, 0.25), 0.075, 4)],
)
def test_the_typical_threshold_on_published_examples(p: tuple[float, ...], wanted: float, passing: int) -> None:
    line = threshold(0.09, 0.3, -sum(x * math.log(x) for x in p))
    assert line == pytest.approx(wanted, abs=1e-4)
    assert sum(x > line for x in p) == passing


def test_typical_takes_the_longest_path_and_the_likelier_of_equals() -> None:
    tree = {"tokens": (9, 1, 2, 3, 4), "parents": (-1, 0, 0, 1, 2), "entropy": (1,) * 5, "argmax": (0,) * 5, "draw": (5, 5, 5, 6, 7)}
    assert judge("typical", Evidence(p=(1, 0.5, 0.3, 0.05, 0.2), **tree)).path == (2, 4)
    assert judge("typical", Evidence(p=(1, 0.5, 0.3, 0.2, 0.2), **tree)).path == (1, 3)
    assert judge("typical", Evidence(p=(1, 0.05, 0.05, 0.9, 0.9), **tree)).path == (), "a node below a refused one does not count"
    assert judge("typical", Evidence(p=(1, 0.5, 0.3, 0.2, 0.2), **tree), epsilon=0.0).path == (1, 3)
    assert judge("typical", Evidence(p=(1, 0.0, 0.0, 0.2, 0.2), **tree), epsilon=0.0).path == (), "p must be above, not at, the threshold"


def test_a_draft_equal_to_the_target_leaves_no_residual_and_no_crash() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    tree = TokenTree((2, 0), (-1, 0), p[:1], (0, -1), drawn=True)
    tests, residuals = rejection_tests(tree, p)
    assert tests == [(0.5, 0.5)]
    assert torch.equal(residuals[0], p[0])


def test_evidence_holds_what_its_rule_reads() -> None:
    p = torch.tensor([[0.6, 0.4, 0.0], [0.1, 0.2, 0.7]])
    tree = TokenTree((2, 1), (-1, 0), torch.tensor([[0.2, 0.8, 0.0]]), (0, -1), drawn=True)
    u, v = torch.tensor([0.3, 0.3]), torch.tensor([0.5, 0.5])
    evidence = measure(tree, p, u, v, ("draw", "rejection"))
    assert evidence.p_test[1] == pytest.approx(0.4) and evidence.q_test[1] == pytest.approx(0.8)
    assert evidence.draw == [0, 2] and evidence.residual_draw == [0, 2] and evidence.entropy == ()
    assert measure(tree, p, u, v, ()).draw == ()
