import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.training import data
from specviz.training.corpus import Corpus


def texts_of(*conversations: list[int]) -> Corpus:
    sizes = torch.tensor([0] + [len(text) for text in conversations])
    tokens = torch.tensor([token for text in conversations for token in text], dtype=torch.int32)
    return Corpus(tokens, torch.zeros(len(tokens), 4), sizes.cumsum(0)[:-1], torch.ones(len(conversations), dtype=torch.long))


def test_the_last_conversations_are_held_out():
    learned, held = data.split(texts_of(*[[1]] * 150))
    assert (learned, held) == (list(range(147)), [147, 148, 149])
    assert data.split(texts_of([1], [2])) == ([0], [1])


def test_learning_begins_with_the_last_token_that_all_conversations_share():
    assert data.first_learned(texts_of([7, 8, 9, 1], [7, 8, 9, 2, 3], [7, 8, 9])) == 2
    assert data.first_learned(texts_of([7, 8, 5], [7, 9, 5])) == 0
    assert data.first_learned(texts_of([1, 2], [3, 4, 5])) == 0


def test_frequent_tokens_are_sorted_by_id_and_leave_out_the_held_out():
    texts = texts_of([9, 9, 9, 4, 4, 6], [1, 1, 1, 1, 1])
    assert data.frequent_tokens(texts, [0], 2).tolist() == [4, 9]
    assert data.frequent_tokens(texts, [0], 99).tolist() == [4, 6, 9]


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=40), limit=st.integers(20, 200), seed=st.integers(0, 9))
def test_an_epoch_holds_every_conversation_once_in_batches_that_fit(sizes: list[int], limit: int, seed: int):
    texts = texts_of(*[[0] * size for size in sizes])
    found = list(data.batches(texts, list(range(len(sizes))), limit, torch.Generator().manual_seed(seed)))
    assert sorted(i for batch in found for i in batch) == list(range(len(sizes)))
    assert all(len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= limit for batch in found)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_nothing():
    rates = [data.learning_rate(step, 100, 1.0, 10) for step in range(101)]
    assert rates[0] == 0.1 and rates[9] == rates[10] == 1.0 and rates[100] < 1e-9
    assert abs(rates[55] - 0.5) < 1e-9 and rates[10:] == sorted(rates[10:], reverse=True)


def test_the_targets_entries_are_its_softmax_over_everything():
    torch.manual_seed(0)
    hidden, head = torch.randn(300, 8), torch.randn(50, 8)
    p, best = data.target_entries(hidden, head, torch.tensor([3, 11, 49], dtype=torch.int32))
    full = (hidden @ head.T).softmax(-1)
    torch.testing.assert_close(p, full[:, [3, 11, 49]])
    assert torch.equal(best, full.argmax(-1))
