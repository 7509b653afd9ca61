import dataclasses
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from specviz.i18n import Fault
from specviz.models.checkpoints import load_draft
from specviz.training import data, draft, loop
from specviz.training.corpus import Corpus

RECIPE = draft.Recipe(layers=(0, 3), vocabulary=80, epochs=4, batch=512, peak=3e-3)


def fitted(target, corpus: Corpus, recipe: draft.Recipe, folder: Path) -> draft.Draft:
    task = draft.Draft(target, corpus, recipe)
    list(loop.fit(task, corpus, recipe, folder, {}))
    return task


@pytest.fixture(scope="module")
def trained(target, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[draft.Draft, Path]:
    folder = tmp_path_factory.mktemp("draft")
    return fitted(target, corpus, RECIPE, folder), folder


def test_the_loss_is_kl_of_p_from_q_and_not_the_reverse():
    p, q = torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[0.5, 0.25, 0.25]])
    loss = draft.kl_loss(q.log(), p.log(), torch.eye(3))
    assert abs(loss.item() - (p * (p / q).log()).sum().item()) < 1e-6
    assert abs(loss.item() - (q * (q / p).log()).sum().item()) > 1e-3


def test_no_gradient_reaches_the_teacher():
    states, teacher, head = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8, requires_grad=True), torch.randn(20, 8)
    draft.kl_loss(states, teacher, head).backward()
    assert states.grad.abs().sum() > 0 and teacher.grad is None


def test_training_brings_q_closer_to_p_on_conversations_it_never_saw(trained, target, corpus):
    task = trained[0]
    untrained, after = draft.Draft(target, corpus, RECIPE).held_out(), task.held_out()
    assert after["overlap"] > untrained["overlap"] + 0.05
    assert 0 < after["overlap"] <= after["covered"] <= 1.0001 and 0 <= after["agreement"] <= 1

    batch = data.batch_of(corpus, task.held)
    losses = [
        draft.kl_loss(student.hidden(batch.ids).flatten(0, 1)[batch.places], corpus.hidden[batch.rows].float(), task.head).item()
        for student in (draft.Student(target, RECIPE.layers), task.student)
    ]
    assert losses[1] < 0.8 * losses[0]


def test_what_the_held_out_figures_are(target, corpus):
    """From the definition, one place after another, for a student that has the last layer alone."""
    task = draft.Draft(target, corpus, dataclasses.replace(RECIPE, layers=(3,)))
    found, head, ids = [], target.lm_head.weight.detach(), task.token_map.long()
    for i in task.held:
        span = corpus.conversation(i)
        states, rows = task.student.hidden(corpus.tokens[span].long()[None])[0].detach(), _learned(corpus, i)
        for state, known in zip(states[[row - span.start for row in rows]], corpus.hidden[rows].float(), strict=True):
            p, q = (head @ known).softmax(0), (head[ids] @ state).softmax(0)
            found.append([torch.minimum(p[ids], q).sum(), float(ids[q.argmax()] == p.argmax()), p[ids].sum()])
    expected = torch.tensor(found).mean(0).tolist()
    assert list(task.held_out().values()) == pytest.approx(expected, abs=1e-4)


def test_the_same_seed_trains_the_same_draft(target, corpus, tmp_path: Path):
    short = dataclasses.replace(RECIPE, epochs=1)
    runs = [fitted(target, corpus, short, tmp_path / str(i)).student.state(torch.float32) for i in range(2)]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


def test_an_interrupted_draft_goes_on_to_the_very_same_weights(target, corpus, tmp_path: Path):
    short = dataclasses.replace(RECIPE, epochs=1)
    asked = iter([False] * 5 + [True])
    task = draft.Draft(target, corpus, short)
    list(loop.fit(task, corpus, short, tmp_path / "run", {}, lambda: next(asked)))
    one, other = (fitted(target, corpus, short, tmp_path / name).student.state(torch.float32) for name in ("run", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_target_stays_as_it_is(trained, target, tiny_folder: Path):
    fresh = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), target.parameters(), strict=True))


def test_the_student_is_the_model_that_its_checkpoint_loads(trained, target, tmp_path: Path):
    task = trained[0]
    task.save(tmp_path, {}, torch.float32)
    model, ids = load_draft(tmp_path, target)
    assert ids.tolist() == task.token_map.tolist() and model.config.num_hidden_layers == 2
    assert torch.equal(model.lm_head.weight, target.lm_head.weight[ids])
    assert model.model.embed_tokens.weight is target.model.embed_tokens.weight
    tokens = torch.randint(0, 100, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(model.model(input_ids=tokens).last_hidden_state, task.student.hidden(tokens), rtol=1e-4, atol=1e-4)


def test_only_what_the_assistant_says_is_learned(target, corpus):
    task, batch = draft.Draft(target, corpus, RECIPE), data.batch_of(corpus, [1, 2, 3])
    changed = dataclasses.replace(corpus, hidden=torch.where(corpus.learned[:, None], corpus.hidden, torch.randn_like(corpus.hidden)))
    other = draft.Draft(target, changed, RECIPE)
    assert task.losses(batch)["KL"][1].item() == other.losses(batch)["KL"][1].item()  # what stood beside the user's turn is not looked at
    assert sorted(batch.rows.tolist()) == [row for i in (1, 2, 3) for row in _learned(corpus, i)]


def _learned(corpus: Corpus, i: int) -> list[int]:
    """From the place before the answer on, but not the token that ends it."""
    span = corpus.conversation(i)
    return [row for row in range(span.start + corpus.answer(i) - 1, span.stop) if row + 1 < span.stop or corpus.hidden[row].any()]


def test_padding_behind_a_conversation_does_not_change_it(target):
    student = draft.Student(target, (1, 2))
    alone, padded = torch.tensor([[5, 6, 7]]), torch.tensor([[5, 6, 7, 0, 0], [9, 8, 7, 6, 5]])
    with torch.no_grad():
        torch.testing.assert_close(student.hidden(padded)[:1, :3], student.hidden(alone), rtol=1e-5, atol=1e-5)


def test_a_student_with_all_layers_is_the_target(target):
    ids = torch.randint(0, 100, (2, 300), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = target.model(input_ids=ids).last_hidden_state
        torch.testing.assert_close(draft.Student(target, (0, 1, 2, 3)).hidden(ids), expected, rtol=1e-4, atol=1e-4)


def test_a_draft_begins_where_another_ended_with_layers_between_that_add_nothing(trained, target, corpus, tmp_path: Path):
    task = trained[0]
    task.save(tmp_path, {}, torch.float32)
    deeper = draft.Draft(target, corpus, dataclasses.replace(RECIPE, layers=(0, 1, 3)), tmp_path)
    ids = torch.randint(0, 100, (1, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(deeper.student.hidden(ids), task.student.hidden(ids), rtol=1e-5, atol=1e-5)
    assert deeper.held_out() == pytest.approx(task.held_out(), abs=1e-4)


def test_a_start_that_does_not_fit_is_refused(trained, corpus, tmp_path: Path):
    config = LlamaConfig(
        vocab_size=100, hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=8
    )
    narrow = draft.Student(LlamaForCausalLM(config), (0, 3))
    with pytest.raises(Fault, match="no checkpoint"):
        narrow.start_from(tmp_path)
    with pytest.raises(Fault, match="has shape"):
        narrow.start_from(trained[1])


def test_a_target_of_another_family_is_refused_before_anything_is_learned(corpus):
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    biased = LlamaForCausalLM(LlamaConfig(vocab_size=9, attention_bias=True, **sizes))
    with pytest.raises(Fault, match="_proj.bias"):
        draft.Student(biased, (0,))
    with pytest.raises(Fault, match="gpt2"):
        draft.Student(GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)), (0,))
