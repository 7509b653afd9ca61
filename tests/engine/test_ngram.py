"""Looking n-grams up: which place counts, how far is copied, what several places make, and what the record says of it."""

import random
from collections.abc import Sequence

import pytest
import torch

import specviz
from specviz.config import DecodeConfig
from specviz.engine.proposers.base import Committed, Proposal
from specviz.engine.proposers.ngram import NGram
from specviz.engine.text import prompt_start, prompt_texts
from tests.fakes import EOS, TableLM, table_pair

VOCAB = 1000


def propose(text: str | Sequence[int], depth: int = 99, begin: int = 0, **parameters: object) -> Proposal:
    """What is proposed after `text`, of which the first `begin` tokens (all, where 0) are the prompt. "." is the end-of-text token."""
    ids = [ord(letter) for letter in text] if isinstance(text, str) else list(text)
    config = DecodeConfig(method="ngram", **{"ngram_max": 3, "ngram_min": 1, "k": 4, **parameters})
    proposer = NGram(config, (ord("."),), VOCAB, torch.device("cpu"))
    proposer.begin(ids[: begin or len(ids)])
    proposal = proposer.propose(Committed(ids, None, config, torch.Generator()), depth)
    assert proposal.passes == ()
    assert proposal.tree.tokens[0] == ids[-1]
    return proposal


def paths(proposal: Proposal) -> list[str]:
    """The candidates as texts, from the root to each leaf."""
    tree = proposal.tree
    return ["".join(map(chr, tree.text(node))) for node in range(len(tree)) if not tree.children[node]]


def places(proposal: Proposal) -> list[tuple[int, int]]:
    return [(match.start, match.length) for match in proposal.matches or ()]


@pytest.mark.parametrize(
    ("text", "copied", "place"),
    [
        ("abcdefXbcdefYcd", "efYc", (8, 2)),  # two tokens, the later place
        ("Qxyz1xyz2Qxyz", "2Qxy", (5, 3)),  # at most three are looked up, though four stand at the start
        ("abcd-ab+cd", "-ab+", (2, 2)),  # two beat one
        ("ab-b", "-b", (1, 1)),  # as far as the text goes
        ("aaaa", "a", (0, 3)),  # a place may overlap the text's last tokens
    ],
)
def test_the_longest_match_counts_and_of_several_the_most_recent(text: str, copied: str, place: tuple[int, int]) -> None:
    proposal = propose(text)
    assert paths(proposal) == [copied]
    assert places(proposal) == [place]


def test_or_the_earliest() -> None:
    assert paths(propose("abcdefXbcdefYcd", ngram_match="earliest")) == ["efXb"]
    assert paths(propose("aaaa", ngram_max=1, ngram_match="earliest")) == ["aaa"]


@pytest.mark.parametrize("text", ["a", "ab", "abc", "abcabd"])
def test_no_match_is_an_empty_tree_and_says_so(text: str) -> None:
    proposal = propose(text)
    assert len(proposal.tree) == 1
    assert proposal.matches == ()


def test_a_match_shorter_than_the_least_is_none() -> None:
    assert propose("ab-b", ngram_min=2).matches == ()
    assert paths(propose("ab-ab", ngram_min=2)) == ["-ab"]


def test_the_last_tokens_never_match_themselves() -> None:
    for length in range(1, 9):
        ids = list(range(length))
        assert propose(ids).matches == (), "all tokens differ, so nothing stood there before"


def test_a_budget_without_room_is_no_search() -> None:
    for depth in (0, -1):
        proposal = propose("abab", depth)
        assert len(proposal.tree) == 1
        assert proposal.matches is None, "nothing was looked up, so it is not said that nothing was found"
    assert paths(propose("abcdeab", 2)) == ["cd"]
    assert paths(propose("abcdefgab", k=2)) == ["cd"]


def test_copying_ends_with_the_first_end_of_text() -> None:
    assert paths(propose("abc.defab")) == ["c."]
    assert paths(propose("ab.cab", tree="2x2x2")) == ["."]


def test_the_index_grows_with_the_text() -> None:
    text = "the cat sat on the mat and the cat"
    for begin in range(1, len(text)):
        assert propose(text, begin=begin) == propose(text)


def test_several_matches_make_a_tree() -> None:
    #               0123456789
    proposal = propose("ab1xab2yab1zab", ngram_min=2, tree="2x2x1")
    assert places(proposal) == [(8, 2), (4, 2), (0, 2)]
    assert paths(proposal) == ["1za", "2ya", "1xa"], "the most recent place first, and one node for the start that two places share"
    assert [match.node for match in proposal.matches or ()] == [3, 6, 8]
    assert paths(propose("ab1xab2yab1zab", ngram_min=2, tree="2x2x1", ngram_match="earliest")) == ["1xa", "2ya", "1za"]
    assert paths(propose("ab1xab2yab1zab", ngram_min=2, tree="1x1x1")) == ["1za"]
    assert [match.node for match in propose("ab1xab2yab1zab", ngram_min=2, tree="1x1x1").matches or ()] == [3, 0, 1]


def test_a_tree_stays_within_its_widths() -> None:
    rng = random.Random(0)
    text = [rng.randrange(9) for _ in range(400)]
    tree = propose(text, tree="4x2x1", ngram_max=1).tree
    assert {depth: max(len(tree.children[node]) for node in range(len(tree)) if tree.depths[node] == depth) for depth in range(4)} == {
        0: 4, 1: 2, 2: 1, 3: 0,
    }  # fmt: skip


def test_q_is_one_hot_for_a_chain() -> None:
    tree = propose("abcdefab").tree
    for node in range(len(tree) - 1):
        q = tree.q_after(node)
        assert q is not None and q[tree.tokens[node + 1]] == 1 and q.sum() == 1
    assert tree.q_after(len(tree) - 1) is None
    assert not tree.drawn


def test_q_is_the_share_of_the_places_for_a_tree() -> None:
    tree = propose("ab1xab2yab1zab", ngram_min=2, tree="1x2").tree
    first, second = tree.q_after(0), tree.q_after(1)
    assert first is not None and second is not None
    assert (float(first[ord("1")]), float(first[ord("2")])) == (pytest.approx(2 / 3), pytest.approx(1 / 3)), "also what found no room"
    assert (float(second[ord("z")]), float(second[ord("x")])) == (0.5, 0.5)


# ---- in a run -----------------------------------------------------------------------------------------------------------------------


def test_the_record_tells_where_a_proposal_came_from() -> None:
    trace = specviz.run(table_pair(3), "abcab", method="ngram", k=3, ngram_min=1, chat=False, baseline=False, max_new_tokens=40)
    ids = [*trace.header.prompt_ids, *trace.token_ids]
    found = [step for step in trace.steps if step.matches]
    assert found and trace.header.proposer is None
    for step in found:
        [match] = step.matches or ()
        assert ids[match.start : match.start + match.length] == ids[step.context - match.length : step.context]
        behind = match.start + match.length
        assert [node.token_id for node in step.tree[1:]] == ids[behind : behind + match.node]
        assert all(node.q == 1 for node in step.tree[1:])
        for node in range(match.node):
            row, x = step.rows[node], step.tree[node + 1].token_id
            assert row.q == tuple(float(token == x) for token in row.ids) and row.q_tail == 0
            assert row.tv == pytest.approx(1 - step.tree[node + 1].p) == pytest.approx(row.kl_missing)


def test_a_row_does_not_name_tokens_that_nobody_thought_of() -> None:
    trace = specviz.run(table_pair(), "abab", method="ngram", ngram_min=1, top_k=1, temperature=1.0, chat=False, baseline=False)
    for step in trace.steps:
        for i, row in enumerate(step.rows[:-1]):
            assert {step.tree[child].token_id for child in step.children(i)} <= set(row.ids)


@pytest.mark.parametrize("rule", ["greedy", "rejection", "match", "typical"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_budget_is_never_overshot(rule: str, length: int) -> None:
    """transformers #46993: 20 tokens where 19 were asked for, from a lookup of 3 with 2 tokens left."""
    for seed in range(6):
        trace = specviz.run(
            table_pair(seed), "abcabcabc", method="ngram", rule=rule, k=3, ngram_min=1, temperature=1.0 if rule != "greedy" else 0.0,
            chat=False, baseline=False, max_new_tokens=length, seed=seed,
        )  # fmt: skip
        assert len(trace.token_ids) == length
        assert trace.ended == "length"
        assert all(len(step.tree) <= length for step in trace.steps)


class _Sure(TableLM):
    """A target that always goes on as the prompt "abf" does: b after a, the end of text (f) after b."""

    def __init__(self) -> None:
        super().__init__(0, eos=True)
        self.table[:] = -torch.inf
        for last in range(6):
            self.table[:, last, {0: 1, 1: EOS, EOS: 0}.get(last, 0)] = 0.0


@pytest.mark.parametrize("parameters", [{"k": 5}, {"tree": "2x1x1x1x1"}], ids=str)
@pytest.mark.parametrize("rule", ["greedy", "rejection", "match", "typical"])
def test_an_end_of_text_in_what_is_copied_ends_the_run(rule: str, parameters: dict) -> None:
    """transformers PR #31301: a lookup that copied "text EOS text" went on behind it."""
    from dataclasses import replace

    pair = replace(table_pair(), target=_Sure())
    trace = specviz.run(
        pair, "abfabfa", method="ngram", rule=rule, temperature=0.0 if rule == "greedy" else 1.0, ngram_min=1, chat=False, baseline=False,
        **parameters,
    )  # fmt: skip
    assert (trace.token_ids, trace.ended) == ([1, EOS], "eos")
    assert [node.token_id for node in trace.steps[0].tree[1:]] == [1, EOS]


# ---- the prompt's tokens as text -------------------------------------------------------------------------------------------------------


class _Templated:
    """A letter a token, in a template that holds an "a" of its own on both sides."""

    chat_template = "t"

    def apply_chat_template(self, conversation: list, *, tokenize: bool, add_generation_prompt: bool) -> str:
        return f"<user a>{conversation[0]['content'].strip()}<a>"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, token_ids: list[int]) -> str:
        return "".join(map(chr, token_ids))


def test_where_the_prompt_stands_among_its_tokens() -> None:
    tokenizer = _Templated()
    for prompt in ("a", "<a>", "hello 👩‍👧"):
        written = tokenizer.apply_chat_template([{"content": prompt}], tokenize=False, add_generation_prompt=True)
        texts = prompt_texts(tokenizer, tokenizer.encode(written))
        assert "".join(texts) == written
        assert prompt_start(tokenizer, texts, prompt, chat=True) == len("<user a>")
    plain = prompt_texts(tokenizer, tokenizer.encode("<s>s"))  # behind a token that some tokenizers put first
    assert prompt_start(tokenizer, plain, "s", chat=False) == 3


def test_a_prompt_that_the_template_changes_has_no_place() -> None:
    tokenizer = _Templated()
    texts = prompt_texts(tokenizer, tokenizer.encode("<user a>x<a>"))
    assert prompt_start(tokenizer, texts, " x ", chat=True) is None


def test_a_tree_that_names_its_candidates_takes_those_ranks_and_no_others() -> None:
    """Three continuations of "ab", the most recent first: z, y, x."""
    text = "ab1xab2yab3zab"
    ranks = {"[[0]]": "3", "[[2],[2,0]]": "1x", "[[0],[1],[1,0]]": "32y", "[[1],[0],[0,0],[2]]": "321z", "[[3]]": ""}
    for tree, wanted in ranks.items():
        found = propose(text, ngram_min=2, tree=tree).tree
        assert sorted(map(chr, found.tokens[1:])) == sorted(wanted), tree
        assert len(found) - 1 == len(wanted)
