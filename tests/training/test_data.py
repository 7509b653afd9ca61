import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from specviz.i18n import Fault
from specviz.training import data
from tests.training.texts import periodic, texts_of

HOLES = """
import psutil, torch
from specviz.training import data
size = lambda: psutil.Process().memory_info().rss
data.keep_freed_memory()
before = size()
big, small = zip(*((torch.ones(1_000_000), torch.ones(3)) for _ in range(100)))
del big  # holes between the small ones
kept = size() - before
data.hand_back_freed_memory()
print(kept, size() - before)
"""


def test_every_32nd_number_is_held_out_whatever_the_size_of_the_corpus():
    learned, held = data.split(texts_of(*([i] for i in range(150))))
    assert held == [0, 32, 64, 96, 128] and learned == [i for i in range(150) if i not in held]
    assert data.split(texts_of(*([i] for i in range(40))))[1] == [0, 32]
    assert data.split(texts_of([1], [2], [3], numbers=[7, 32, 33])) == ([0, 2], [1])


def test_what_is_asked_in_a_held_out_conversation_is_not_trained_on():
    answers = [[False, True, True]] * 4
    texts = texts_of([5, 6, 1], [5, 6, 2], [5, 7, 1], [6, 6, 1], learned=answers)
    assert data.split(texts) == ([2, 3], [0])  # 1 asks what 0 asks, and is answered otherwise


def test_frequent_tokens_are_the_learned_ones_sorted_by_id():
    texts = texts_of([9, 9, 9, 4, 4, 6], [1, 1, 1, 1, 1])
    assert data.frequent_tokens(texts, [0], 2).tolist() == [4, 9]
    assert data.frequent_tokens(texts, [0], 99).tolist() == [4, 6, 9]
    asked = texts_of([9, 9, 9, 4, 4, 6], learned=[[False, False, False, True, True, False]])
    assert data.frequent_tokens(asked, [0], 99).tolist() == [4, 6]  # the token behind each learned place


def test_what_ends_an_answer_is_always_scored(tmp_path: Path):
    ended = [[False, True, True, True, False], [False, True, True, True, True]]
    texts = texts_of([9, 4, 4, 4, 2], [7, 4, 4, 4, 8], learned=ended)
    assert data.frequent_tokens(texts, [0, 1], 1).tolist() == [4]
    assert data.scored(texts, [0, 1], 1).tolist() == [2, 4], "2 ends an answer; 8 is where a long one was cut"
    save_file({"token_map": torch.tensor([1, 5], dtype=torch.int32)}, tmp_path / "start.safetensors")
    assert data.scored(texts, [0, 1], 1, tmp_path / "start.safetensors").tolist() == [1, 2, 5]
    assert data.scored(texts, [0, 1], 1, tmp_path / "none.safetensors").tolist() == [2, 4]


def test_where_there_is_nothing_to_learn_or_to_judge_by_it_is_said():
    texts = texts_of([1, 2, 3, 4], [5, 6], learned=[[False, True, True, True], [False, False]])
    for conversations in ([], [1]):
        with pytest.raises(Fault, match="Nothing can be learned"):
            data.frequent_tokens(texts, conversations, 9)
    data.refuse_unjudgeable(texts, [0], 2)
    for held, ahead in (([], 0), ([1], 0), ([0], 3)):
        with pytest.raises(Fault, match="too short"):
            data.refuse_unjudgeable(texts, held, ahead)


MASKS = st.lists(st.lists(st.booleans(), min_size=1, max_size=9), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(masks=MASKS, chosen=st.data())
def test_a_batch_holds_every_learned_place_once_with_the_stretch_of_text_that_it_belongs_to(masks, chosen):
    texts = texts_of(*([10 * i + at for at in range(len(mask))] for i, mask in enumerate(masks)), learned=masks)
    conversations = chosen.draw(st.lists(st.integers(0, len(masks) - 1), min_size=1, unique=True))
    batch = data.batch_of(texts, conversations)
    expected = [texts.conversation(i).start + at for i in conversations for at, mark in enumerate(masks[i]) if mark]
    assert batch.rows.tolist() == expected and len(batch.places) == len(batch.owner) == len(expected)
    assert torch.equal(batch.ids.flatten()[batch.places].to(torch.int32), texts.tokens[batch.rows])
    whose = [i for i in conversations for mark in masks[i] if mark]
    for a in range(len(expected)):
        for b in range(a, len(expected)):
            together = whose[a] == whose[b] and expected[b] - expected[a] == b - a
            assert (batch.owner[a] == batch.owner[b]).item() == together


def test_two_conversations_are_never_one_stretch_even_where_their_rows_follow_each_other():
    texts = texts_of([1, 2], [3], [4, 5, 6], learned=[[False, True], [True], [True, True, True]])
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 0], [0, 2]):
        owner = data.batch_of(texts, order).owner
        assert len(owner.unique()) == len(order)


def test_padding_is_not_learned():
    texts = texts_of([1, 2, 3], [4], [5, 6], learned=[[True, False, True], [True], [False, False]])
    batch = data.batch_of(texts, [1, 0, 2])
    assert batch.ids.tolist() == [[4, 0, 0], [1, 2, 3], [5, 6, 0]]
    assert batch.places.tolist() == [0, 3, 5] and batch.rows.tolist() == [3, 0, 2]
    assert len(data.batch_of(texts, [2]).places) == 0


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=40), limit=st.integers(20, 200), seed=st.integers(0, 9))
def test_an_epoch_holds_every_conversation_once_in_batches_that_fit(sizes: list[int], limit: int, seed: int):
    texts = texts_of(*[[0] * size for size in sizes])
    found = list(data.batches(texts, list(range(len(sizes))), limit, torch.Generator().manual_seed(seed)))
    assert sorted(i for batch in found for i in batch) == list(range(len(sizes)))
    assert all(len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= limit for batch in found)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_nothing():
    rates = [data.learning_rate(done / 100, 0.1) for done in range(101)]
    assert rates[0] == 0 and abs(rates[5] - 0.5) < 1e-9 and rates[10] == 1.0 and rates[100] < 1e-9
    assert abs(rates[55] - 0.5) < 1e-9 and rates[10:] == sorted(rates[10:], reverse=True) and rates[:11] == sorted(rates[:11])
    assert data.learning_rate(0.0, 0.0) == 1.0


def test_the_targets_entries_are_its_softmax_over_everything():
    torch.manual_seed(0)
    hidden, head = torch.randn(300, 8), torch.randn(50, 8)
    p, best = data.target_entries(hidden, head, torch.tensor([3, 11, 49], dtype=torch.int32))
    full = (hidden @ head.T).softmax(-1)
    torch.testing.assert_close(p, full[:, [3, 11, 49]])
    assert torch.equal(best, full.argmax(-1))


def test_what_a_card_says_of_the_data():
    texts, _ = periodic(3, conversations=40)
    facts = data.facts_of(dataclasses.replace(texts, numbers=texts.numbers + 1))
    assert facts["corpus"] == {"tokens": 2400, "conversations": 40, "learned": 2400, "held_out": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is asked to keep memory")
def test_freed_memory_is_kept_for_the_next_step_and_handed_back_when_asked():
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 300e6 and left < 50e6
