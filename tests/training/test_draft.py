import dataclasses
from pathlib import Path

import pytest
import torch

from specviz.models.checkpoints import load_draft
from specviz.training import data, draft

RECIPE = draft.Recipe(layers=(0, 3), vocabulary=80, epochs=4, batch=512, peak=3e-3, warmup=5)


@pytest.fixture(scope="module")
def trained(target, corpus):
    *_, (student, token_map, figures) = draft.train(target, corpus, RECIPE, report=lambda line: None, every=1000)
    return student, token_map, figures


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
    student, token_map, figures = trained
    head, held = target.lm_head.weight, data.split(corpus)[1]
    before = draft.overlap(draft.Student(target, RECIPE.layers), corpus, held, head, token_map)
    assert figures["overlap"] > before["overlap"] + 0.05
    assert 0 < figures["overlap"] <= figures["covered"] <= 1.0001

    ids, places, rows = draft.padded(corpus, held, data.first_learned(corpus))
    small = head[token_map.long()]
    losses = [
        draft.kl_loss(model.hidden(ids).flatten(0, 1)[places], corpus.hidden[rows], small).item()
        for model in (draft.Student(target, RECIPE.layers), student)
    ]
    assert losses[1] < 0.8 * losses[0]


def test_the_same_seed_trains_the_same_draft(target, corpus):
    short = dataclasses.replace(RECIPE, epochs=1)
    runs = [list(draft.train(target, corpus, short, lambda line: None, every=1000))[-1][0].state(torch.float32) for _ in range(2)]
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


def test_the_target_stays_as_it_is(trained, target, tiny_folder: Path):
    from transformers import AutoModelForCausalLM

    fresh = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), target.parameters(), strict=True))


def test_the_student_is_the_model_that_its_checkpoint_loads(trained, target, tmp_path: Path):
    student, token_map, _ = trained
    draft.save(student, token_map, tmp_path, {}, torch.float32)
    model, ids = load_draft(tmp_path, target)
    assert ids.tolist() == token_map.tolist() and model.config.num_hidden_layers == 2
    assert (
        torch.equal(model.lm_head.weight, target.lm_head.weight[ids])
        and model.model.embed_tokens.weight is target.model.embed_tokens.weight
    )
    tokens = torch.randint(0, 100, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(model.model(input_ids=tokens).last_hidden_state, student.hidden(tokens), rtol=1e-4, atol=1e-4)


def test_padding_and_the_fixed_prefix_are_not_learned(corpus):
    first = data.first_learned(corpus)
    longest, shortest = (
        pick(range(len(corpus)), key=lambda i: corpus.conversation(i).stop - corpus.conversation(i).start) for pick in (max, min)
    )
    ids, places, rows = draft.padded(corpus, [shortest, longest], first)
    expected = [row for i in (shortest, longest) for row in range(corpus.conversation(i).start + first, corpus.conversation(i).stop)]
    assert rows.tolist() == expected
    assert torch.equal(ids.flatten()[places].to(torch.int32), corpus.tokens[rows])  # each place holds the token of its corpus row


def test_padding_behind_a_conversation_does_not_change_it(target):
    student = draft.Student(target, (1, 2))
    alone, padded = torch.tensor([[5, 6, 7]]), torch.tensor([[5, 6, 7, 0, 0], [9, 8, 7, 6, 5]])
    with torch.no_grad():
        torch.testing.assert_close(student.hidden(padded)[:1, :3], student.hidden(alone), rtol=1e-5, atol=1e-5)


def test_make_writes_a_draft_that_loads(target, corpus, tmp_path: Path):
    corpus.save(tmp_path / "corpus.safetensors")
    lines: list[str] = []
    draft.make(tmp_path / "corpus.safetensors", tmp_path, target, dataclasses.replace(RECIPE, epochs=1), lines.append, compiled=False)
    load_draft(tmp_path, target)
    assert any("held out" in line for line in lines) and not list(tmp_path.glob("*.part"))
