import dataclasses
from pathlib import Path

import pytest
import torch

from specviz.models.checkpoints import load_medusa
from specviz.training import data, medusa
from specviz.training.corpus import Corpus

RECIPE = medusa.Recipe(heads=3, vocabulary=90, epochs=2, batch=256, peak=5e-3, warmup=5)


def periodic(period: int, length: int = 60, conversations: int = 60, vocabulary: int = 8) -> tuple[Corpus, torch.Tensor]:
    """Texts that repeat 0 … period−1, with hidden states under which an identity LM head is nearly sure of the next token."""
    texts = [[(start + i) % period for i in range(length)] for start in range(conversations)]
    tokens = torch.tensor([token for text in texts for token in text], dtype=torch.int32)
    following = torch.tensor([(token + 1) % period for text in texts for token in text])
    hidden = 12 * torch.nn.functional.one_hot(following, vocabulary).float()
    return Corpus(tokens, hidden, torch.arange(conversations) * length, torch.ones(conversations, dtype=torch.long)), torch.eye(vocabulary)


def test_untrained_heads_are_the_lm_head_exactly(target, tmp_path: Path):
    everything = torch.arange(100, dtype=torch.int32)
    medusa.save(medusa.Blocks(4, 32), everything, tmp_path, {}, torch.float32)
    heads = load_medusa(tmp_path, target)
    hidden = torch.randn(32)
    assert heads.count == 4
    assert all(torch.equal(row, heads.logits(hidden)[0]) for row in heads.logits(hidden))
    torch.testing.assert_close(heads.logits(hidden)[0], target.lm_head(hidden), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("period", [2, 3, 4])
def test_head_k_is_trained_on_the_token_k_plus_1_ahead(period: int):
    """Untrained, head k says token t+1 again: right exactly where the text repeats itself after k tokens."""
    texts, head = periodic(period)
    blocks = medusa.Blocks(4, 8)
    losses = medusa.losses(blocks, texts.hidden[:50], torch.zeros(50, dtype=torch.long), head)
    for k, loss in enumerate(losses, start=1):
        assert (loss.item() < 0.01) == (k % period == 0)


def test_every_head_gets_a_gradient_from_its_zero_start(target, corpus):
    blocks = medusa.Blocks(4, 32)
    rows, owner = medusa.positions(corpus, [0, 1], data.first_learned(corpus))
    sum(medusa.losses(blocks, corpus.hidden[rows], owner, target.lm_head.weight)).backward()
    assert (blocks.weight.grad.flatten(1).abs().sum(1) > 0).all() and (blocks.bias.grad.abs().sum(1) > 0).all()


def test_rows_of_two_conversations_are_never_paired():
    texts, head = periodic(3)
    blocks, generator = medusa.Blocks(2, 8), torch.Generator().manual_seed(0)
    one, two = texts.hidden[:9], torch.randn(7, 8, generator=generator)
    together = medusa.losses(blocks, torch.cat([one, two]), torch.tensor([0] * 9 + [1] * 7), head)
    apart = [medusa.losses(blocks, part, torch.zeros(len(part), dtype=torch.long), head) for part in (one, two)]
    for k, (loss, first, second) in enumerate(zip(together, *apart, strict=True), start=1):
        expected = (first * (9 - k) + second * (7 - k)) / (16 - 2 * k)
        torch.testing.assert_close(loss, expected)


def test_soft_labels_are_the_targets_distribution():
    head = torch.eye(3)
    states, labels = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([[0.6, 0.3, 0.1]])
    loss = medusa.soft_cross_entropy(states, labels, torch.tensor([True]), head)
    expected = -(0.6 * torch.tensor(0.5).log() + 0.3 * torch.tensor(0.3).log() + 0.1 * torch.tensor(0.2).log())
    torch.testing.assert_close(loss, expected)


def test_heads_learn_what_can_be_learned():
    texts, head = periodic(5)
    recipe = dataclasses.replace(RECIPE, vocabulary=8, epochs=8, peak=0.03)
    *_, (_, _, figures) = medusa.train(head, texts, recipe, lambda line: None, every=10_000)
    assert all(row[0] > 0.99 for row in figures["text_accuracies"])


def test_the_same_seed_trains_the_same_heads(target, corpus):
    runs = [list(medusa.train(target.lm_head.weight, corpus, RECIPE, lambda line: None, every=10_000))[-1][0] for _ in range(2)]
    assert torch.equal(runs[0].weight, runs[1].weight) and runs[0].weight.abs().sum() > 0


def test_make_writes_calibrated_heads_that_load(target, corpus, tmp_path: Path):
    corpus.save(tmp_path / "corpus.safetensors")
    medusa.make(tmp_path / "corpus.safetensors", tmp_path, target, RECIPE, lambda line: None, compiled=False)
    heads = load_medusa(tmp_path, target)
    assert heads.count == 3 and len(heads.accuracies) == 3 and len(heads.accuracies[0]) == 10
    assert heads.logits(torch.randn(32)).isinf().sum() == 3 * (100 - len(heads.token_map))
