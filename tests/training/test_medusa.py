import dataclasses
from pathlib import Path

import pytest
import torch

from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa
from specviz.training import data, loop, medusa
from specviz.training.corpus import Corpus
from tests.training.texts import periodic, texts_of

RECIPE = medusa.Recipe(heads=3, vocabulary=90, epochs=2, batch=256, peak=5e-3)
EVERYTHING = torch.arange(100, dtype=torch.int32)


def one_text(count: int) -> torch.Tensor:
    """The owner of the places of a single text."""
    return torch.zeros(count, dtype=torch.long)


def fitted(task: medusa.Medusa1, texts: Corpus, folder: Path) -> list[loop.Entry]:
    return list(loop.fit(task, texts, task.recipe, folder, {}))


# ---- heads ------------------------------------------------------------------------------------------------------------------------------


def test_untrained_heads_are_the_lm_head_exactly(target, tmp_path: Path):
    head = target.lm_head.weight.detach()
    for version, own in (("2", None), ("1", head)):
        medusa.save(medusa.Blocks(4, 32, head=own), EVERYTHING, tmp_path / version, {}, torch.float32)
        heads = load_medusa(tmp_path / version, target)
        hidden = torch.randn(32)
        assert heads.count == 4 and heads.shared, "four equal LM heads are held once"
        assert all(torch.equal(row, heads.logits(hidden)[0]) for row in heads.logits(hidden))
        torch.testing.assert_close(heads.logits(hidden)[0], target.lm_head(hidden), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("untied", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_what_is_saved_is_what_was_trained(untied: bool, layers: int, target, tmp_path: Path):
    token_map = torch.tensor([3, 7, 50, 99], dtype=torch.int32)
    head = target.lm_head.weight.detach()[token_map.long()]
    blocks = medusa.Blocks(3, 32, layers, head if untied else None)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in blocks.parameters().values():
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
    medusa.save(blocks, token_map, tmp_path, {"held_out": 1}, torch.float32)
    heads, hidden = load_medusa(tmp_path, target), torch.randn(5, 32, generator=generator)
    logits = heads.logits(hidden)
    for k in range(3):
        torch.testing.assert_close(logits[k][:, token_map.long()], blocks.logits(k, hidden, head).detach(), rtol=1e-4, atol=1e-4)
    assert logits.isinf().sum() == 3 * 5 * 96 and heads.shared != untied

    again = medusa.Blocks(3, 32, layers, head if untied else None)
    again.start_from(tmp_path, token_map)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters().values(), blocks.parameters().values(), strict=True))


def test_heads_begin_with_as_many_as_were_trained(tmp_path: Path):
    trained = medusa.Blocks(2, 8, 1, torch.randn(3, 8))
    with torch.no_grad():
        trained.weight += 1
        trained.own += 1
    medusa.save(trained, torch.tensor([1, 5, 6], dtype=torch.int32), tmp_path, {}, torch.float32)
    blocks = medusa.Blocks(3, 8, 2, torch.zeros(4, 8))
    blocks.start_from(tmp_path, torch.tensor([0, 5, 6, 9], dtype=torch.int32))
    assert (blocks.weight[:2, 0] == 1).all() and not blocks.weight[2].any() and not blocks.weight[:, 1].any()
    assert not blocks.own.any()  # theirs stand behind one block, and there are two here

    single = medusa.Blocks(3, 8, 1, torch.zeros(4, 8))
    single.start_from(tmp_path, torch.tensor([0, 5, 6, 9], dtype=torch.int32))
    assert torch.equal(single.own[:2, 1:3], trained.own[:, 1:])  # the rows of the tokens that both score, 5 and 6
    assert not single.own[:, [0, 3]].any() and not single.own[2].any()


def test_a_folder_without_fitting_heads_is_refused(tmp_path: Path):
    with pytest.raises(Fault, match="no checkpoint"):
        medusa.Blocks(2, 8).start_from(tmp_path)
    medusa.save(medusa.Blocks(2, 16), EVERYTHING, tmp_path, {})
    with pytest.raises(Fault, match="16×16"):
        medusa.Blocks(2, 8).start_from(tmp_path)


# ---- the loss ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["soft", "text"])
@pytest.mark.parametrize("period", [2, 3, 4])
def test_head_k_is_trained_on_the_token_k_plus_1_ahead(period: int, labels: str):
    """Untrained, head k says token t+1 again: right exactly where the text repeats itself after k tokens."""
    texts, head = periodic(period)
    batch = data.batch_of(texts, [0])
    text = medusa.text_labels(texts, batch.rows, torch.arange(8), 8) if labels == "text" else None
    losses = medusa.losses(medusa.Blocks(4, 8), texts.hidden[batch.rows], batch.owner, head, text=text)
    for k, loss in enumerate(losses, start=1):
        assert (loss.item() < 0.01) == (k % period == 0)


def test_a_label_is_the_token_behind_a_place_if_the_heads_score_it_and_the_text_goes_on():
    texts = texts_of([5, 6, 7], [6, 8])
    token_map = torch.tensor([6, 8], dtype=torch.int32)
    assert medusa.text_labels(texts, torch.arange(5), token_map, 9).tolist() == [0, -1, -1, 1, -1]


def test_soft_labels_are_the_targets_distribution_over_the_scored_tokens():
    head = torch.eye(3)
    said, wanted = torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([[0.6, 0.3, 0.1]])
    loss = medusa.soft_cross_entropy(said, wanted, torch.tensor([True]))
    torch.testing.assert_close(loss, -(wanted * said).sum())
    teacher = torch.cat([torch.zeros(1, 3), wanted.log()])
    (first,) = medusa.losses(medusa.Blocks(1, 3), torch.cat([said, torch.zeros(1, 3)]), one_text(2), head, teacher)
    torch.testing.assert_close(first, loss)


def test_text_labels_are_the_text():
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).log()
    loss = medusa.text_cross_entropy(logits, torch.tensor([1, -1]), torch.tensor([True, True]))
    torch.testing.assert_close(loss, -torch.tensor(0.3).log())
    assert medusa.text_cross_entropy(logits, torch.tensor([-1, 2]), torch.tensor([True, False])) == 0


@pytest.mark.parametrize("labels", ["soft", "text"])
def test_the_gradient_reaches_every_head_from_its_zero_start(labels: str, target, corpus):
    recipe = dataclasses.replace(RECIPE, heads=4, labels=labels, untied=True)
    task = medusa.Medusa1(target.lm_head.weight.detach(), corpus, recipe)
    terms = task.losses(data.batch_of(corpus, data.split(corpus)[0][:6]))
    torch.stack([term for _, term in terms.values()]).sum().backward()
    for weight in task.parameters().values():
        assert (weight.grad.flatten(1).abs().sum(1) > 0).all()


def test_a_head_learns_from_its_own_term_alone():
    texts, head = periodic(3)
    blocks = medusa.Blocks(3, 8, head=head)
    medusa.losses(blocks, texts.hidden[:20], one_text(20), head)[1].backward()
    for weight in blocks.parameters().values():
        assert (weight.grad.flatten(1).abs().sum(1) > 0).tolist() == [False, True, False]


def test_the_gradient_is_exactly_zero_where_there_is_no_label():
    """Places: a stretch of three, one alone, a stretch of two. A head k learns at a place if the place k on is of the same stretch."""
    owner, states = torch.tensor([1, 1, 1, 2, 3, 3]), torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    for k, learns in ((1, [True, True, False, False, True, False]), (2, [True] + [False] * 5), (3, [False] * 6)):
        hidden, blocks = states.clone().requires_grad_(), medusa.Blocks(3, 8)
        medusa.losses(blocks, hidden, owner, torch.eye(8), states)[k - 1].backward()
        assert (hidden.grad.abs().sum(1) > 0).tolist() == learns
        assert (blocks.weight.grad[k - 1].abs().sum() > 0).item() == any(learns)
    hidden, text = states.clone().requires_grad_(), torch.tensor([0, -1, 3, 2, 5, -1])
    medusa.losses(medusa.Blocks(3, 8), hidden, owner, torch.eye(8), text=text)[0].backward()
    assert (hidden.grad.abs().sum(1) > 0).tolist() == [False, True, False, False, False, False]  # the labels at places 1 and 5 are none


def test_rows_of_two_texts_are_never_paired():
    texts, head = periodic(3)
    blocks, generator = medusa.Blocks(2, 8), torch.Generator().manual_seed(0)
    one, two = texts.hidden[:9], torch.randn(7, 8, generator=generator)
    together = medusa.losses(blocks, torch.cat([one, two]), torch.tensor([0] * 9 + [1] * 7), head)
    apart = [medusa.losses(blocks, part, one_text(len(part)), head) for part in (one, two)]
    for k, (loss, first, second) in enumerate(zip(together, *apart, strict=True), start=1):
        torch.testing.assert_close(loss, (first * (9 - k) + second * (7 - k)) / (16 - 2 * k))


@pytest.mark.parametrize("labels", ["soft", "text"])
def test_answers_of_one_conversation_and_conversations_in_any_order_are_apart(labels: str):
    """What is learned at a batch is the sum of what is learned at its stretches, one by one."""
    marks = [[True, True, False, True, True], [True, True, True, False, True], [True]]
    texts = texts_of([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [6], learned=marks)
    blocks, head, token_map = medusa.Blocks(2, 8), torch.eye(8), torch.arange(8)
    for order in ([0, 1, 2], [2, 1, 0], [1, 2]):
        batch, total = data.batch_of(texts, order), torch.zeros(2)
        counts = torch.zeros(2)
        for owner in batch.owner.unique():
            rows = batch.rows[batch.owner == owner]
            text = medusa.text_labels(texts, rows, token_map, 8) if labels == "text" else None
            for k, part in enumerate(medusa.losses(blocks, texts.hidden[rows], one_text(len(rows)), head, text=text), start=1):
                count = max(0, len(rows) - k) if text is None else int((text[k:] >= 0).sum())
                total[k - 1] += part.detach() * count
                counts[k - 1] += count
        text = medusa.text_labels(texts, batch.rows, token_map, 8) if labels == "text" else None
        whole = medusa.losses(blocks, texts.hidden[batch.rows], batch.owner, head, text=text)
        torch.testing.assert_close(torch.stack(whole).detach(), total / counts.clamp(min=1))


# ---- training ---------------------------------------------------------------------------------------------------------------------------


def test_a_term_weighs_four_fifths_of_the_one_before(target, corpus):
    task = medusa.Medusa1(target.lm_head.weight.detach(), corpus, RECIPE)
    terms = task.losses(data.batch_of(corpus, data.split(corpus)[0][:4]))
    assert list(terms) == ["head 1", "head 2", "head 3"]
    assert [weight for weight, _ in terms.values()] == pytest.approx([0.8, 0.64, 0.512])


@pytest.mark.parametrize("labels", ["soft", "text"])
@pytest.mark.parametrize("untied", [False, True])
def test_heads_learn_what_can_be_learned(labels: str, untied: bool, tmp_path: Path):
    texts, head = periodic(5)
    recipe = dataclasses.replace(RECIPE, heads=4, vocabulary=8, epochs=8, peak=0.03, labels=labels, untied=untied)
    *_, last = fitted(medusa.Medusa1(head, texts, recipe), texts, tmp_path)
    assert all(row[0] > 0.99 for row in last.held_out["text_accuracies"])


def test_an_lm_head_of_ones_own_starts_as_a_copy_is_trained_and_can_be_loaded(target, corpus, tmp_path: Path):
    full = target.lm_head.weight.detach()
    task = medusa.Medusa1(full, corpus, dataclasses.replace(RECIPE, untied=True, labels="soft"))
    copy = full[task.token_map.long()]
    assert all(torch.equal(own, copy) for own in task.blocks.own) and task.parameters()["own"].shape == (3, len(copy), 32)
    fitted(task, corpus, tmp_path)
    assert all(not torch.equal(own, copy) for own in task.blocks.own) and torch.equal(full, target.lm_head.weight)
    assert not torch.equal(task.blocks.own[0], task.blocks.own[1])
    assert not load_medusa(tmp_path, target).shared


def test_accuracies_are_shares_of_the_places_that_have_a_token_k_plus_1_ahead():
    """The LM head itself, on texts of period 3: head 3 is right everywhere, the others nowhere at rank 0."""
    texts, head = periodic(3, length=9)
    rows = medusa.accuracies(texts, [1, 2], medusa.Blocks(3, 8), head, torch.arange(8, dtype=torch.int32))
    assert [row[0] for row in rows] == [0, 0, 1] and all(len(row) == 8 for row in rows)
    assert medusa.accuracies(texts, [1], medusa.Blocks(3, 8), head[:2], torch.tensor([6, 7], dtype=torch.int32))[2] == [0, 0]
    marks = [[False, True, True, True, True, False]] * 2
    two = dataclasses.replace(texts_of([0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2], learned=marks), hidden=texts.hidden[:6].repeat(2, 1))
    assert medusa.accuracies(two, [0, 1], medusa.Blocks(3, 8), head, torch.arange(8, dtype=torch.int32))[2][0] == 1


def test_the_same_seed_trains_the_same_heads(target, corpus, tmp_path: Path):
    recipe = dataclasses.replace(RECIPE, labels="soft")
    tasks = [medusa.Medusa1(target.lm_head.weight.detach(), corpus, recipe) for _ in range(2)]
    for i, task in enumerate(tasks):
        fitted(task, corpus, tmp_path / str(i))
    assert torch.equal(tasks[0].blocks.weight, tasks[1].blocks.weight) and tasks[0].blocks.weight.abs().sum() > 0


def test_a_corpus_that_is_too_small_to_judge_heads_by_is_refused():
    one = texts_of([1] * 30)
    short = texts_of(*([i, i, i] for i in range(40)))
    with pytest.raises(Fault, match="too short"):
        medusa.Medusa1(torch.randn(50, 8), short, RECIPE)
    with pytest.raises(Fault, match="Nothing can be learned"):
        medusa.Medusa1(torch.randn(50, 8), one, RECIPE)
