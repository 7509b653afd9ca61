"""Medusa-2 on a tiny target: what it starts as, what it is pulled towards, and that it can be interrupted."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from specviz.i18n import Fault
from specviz.models.adapters import merge
from specviz.models.checkpoints import load_medusa
from specviz.training import data, loop, medusa2
from specviz.training.corpus import Corpus

RECIPE = medusa2.Recipe(
    heads=3, vocabulary=90, epochs=1, batch=512, peak=3e-3, rank=4, alpha=4, depth=2, labels="soft", lm="kl", share=0.5, seed=1
)
FUTURE = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks transformers for it


def fresh(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().requires_grad_(False)


def task_of(folder: Path, corpus: Corpus, **changes) -> medusa2.Medusa2:
    return medusa2.Medusa2(fresh(folder), corpus, dataclasses.replace(RECIPE, **changes))


def some(corpus: Corpus, count: int = 6) -> data.Batch:
    return data.batch_of(corpus, data.split(corpus)[0][:count])


@pytest.fixture(scope="module")
def trained(tiny_folder: Path, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[medusa2.Medusa2, Path]:
    task, folder = task_of(tiny_folder, corpus), tmp_path_factory.mktemp("trained")
    list(loop.fit(task, corpus, task.recipe, folder, {}))
    return task, folder


def weights(task: medusa2.Medusa2) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in task.parameters().items()}


# ---- teacher and student ----------------------------------------------------------------------------------------------------------------


def test_kl_is_of_the_teacher_from_the_student_and_not_the_reverse():
    p, s = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]]), torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
    found = medusa2.kl(p.log() + 3, s.log() - 2)  # logits, up to a constant
    torch.testing.assert_close(found, (p * (p / s).log()).sum(-1))
    assert abs(found[0] - (s * (s / p).log()).sum(-1)[0]) > 1e-2 and abs(found[1]) < 1e-6


def test_kl_of_two_normal_like_rows_has_its_closed_form():
    """Two tokens: p = σ(a), s = σ(b); KL = p·log(p/s) + (1−p)·log((1−p)/(1−s))."""
    a, b = torch.tensor(1.3), torch.tensor(-0.4)
    p, s = a.sigmoid(), b.sigmoid()
    rows = torch.stack([torch.stack([a, torch.zeros(())]), torch.stack([b, torch.zeros(())])])
    torch.testing.assert_close(medusa2.kl(rows[:1], rows[1:])[0], p * (p / s).log() + (1 - p) * ((1 - p) / (1 - s)).log())


def test_the_student_starts_exactly_as_the_teacher(tiny_folder: Path, corpus: Corpus):
    task, batch = task_of(tiny_folder, corpus), some(corpus)
    student = task.states(batch)
    with task.model.disable_adapter():
        assert torch.equal(task.states(batch), student)
    torch.testing.assert_close(corpus.hidden[batch.rows].float(), student, rtol=2**-8, atol=1e-3)
    assert task.held_out()["kl"] < 1e-3


def test_the_teacher_is_the_student_with_the_adapter_switched_off(trained, corpus: Corpus):
    """Its states are those that the corpus holds, up to the 8 bits of a bfloat16, however far the student went."""
    task, batch = trained[0], some(corpus)
    with task.model.disable_adapter():
        teacher = task.states(batch)
    torch.testing.assert_close(corpus.hidden[batch.rows].float(), teacher, rtol=2**-8, atol=1e-3)
    assert (task.states(batch) - teacher).abs().max() > 0.05


def test_only_the_adapter_and_the_heads_are_trained(trained, tiny_folder: Path):
    task, base = trained[0], dict(fresh(tiny_folder).named_parameters())
    for name, weight in task.model.get_base_model().named_parameters():
        if "lora" not in name:
            assert torch.equal(weight, base[name.replace(".base_layer", "")])
    adapted = {int(name.split(".layers.")[1].split(".")[0]) for name in task.adapter()}
    assert adapted == {2, 3} and len(task.adapter()) == 2 * 2 * len(medusa2.PROJECTIONS)


def test_the_target_is_what_it_was_when_the_adapter_is_taken_out(tiny_folder: Path, corpus: Corpus):
    target, ids = fresh(tiny_folder), torch.arange(20)[None]
    before, names = target(input_ids=ids).logits, [name for name, _ in target.named_parameters()]
    task = medusa2.Medusa2(target, corpus, RECIPE)
    with torch.no_grad():
        for weight in task.adapter().values():
            weight += 1
    assert not torch.equal(target(input_ids=ids).logits, before)
    task.release()
    assert torch.equal(target(input_ids=ids).logits, before) and [name for name, _ in target.named_parameters()] == names
    medusa2.Medusa2(target, corpus, RECIPE)  # it can be wrapped again


# ---- the loss ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lm", ["kl", "ce"])
def test_heads_weigh_a_fifth_of_what_they_weigh_alone(lm: str, tiny_folder: Path, corpus: Corpus):
    terms = task_of(tiny_folder, corpus, lm=lm).losses(some(corpus))
    assert list(terms) == ["LM", "head 1", "head 2", "head 3"]
    assert [weight for weight, _ in terms.values()] == pytest.approx([1, 0.2 * 0.8, 0.2 * 0.64, 0.2 * 0.512])


def test_heads_move_four_times_as_fast_as_the_backbone(tiny_folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task, rates, update = task_of(tiny_folder, corpus, untied=True), {}, torch.optim.AdamW.step

    def told(self: torch.optim.AdamW) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                rates.setdefault(id(weight), []).append(group["lr"])
        update(self)

    monkeypatch.setattr(torch.optim.AdamW, "step", told)
    list(loop.fit(task, corpus, task.recipe, tmp_path, {}))
    slow, fast = ([rates[id(weight)] for weight in part.values()] for part in (task.adapter(), task.blocks.parameters()))
    assert len(rates) == len(task.parameters()) and len(slow[0]) > 5
    assert all(rate == slow[0] for rate in slow) and all(rate == pytest.approx([4 * x for x in slow[0]]) for rate in fast)


@pytest.mark.parametrize("lm", ["kl", "ce"])
@pytest.mark.parametrize("labels", ["soft", "text"])
def test_the_gradient_reaches_what_is_trained_and_only_the_places_that_have_labels(lm: str, labels: str, tiny_folder: Path, corpus: Corpus):
    task, batch = task_of(tiny_folder, corpus, lm=lm, labels=labels, share=1.0), some(corpus)
    kept: list[torch.Tensor] = []

    def keep(module: torch.nn.Module, arguments: object, output: torch.Tensor) -> torch.Tensor:
        output.retain_grad()
        kept.append(output)
        return output

    hook = task.model.get_base_model().model.norm.register_forward_hook(keep)
    with torch.no_grad():
        for name, weight in task.adapter().items():
            if "lora_B" in name:  # zero at first, which would hide A
                weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    torch.stack([weight * term for weight, term in task.losses(batch).values()]).sum().backward()
    hook.remove()
    reached = kept[0].grad.flatten(0, 1).abs().sum(1) > 0
    learned = torch.zeros(batch.ids.numel(), dtype=torch.bool)
    learned[batch.places] = True
    assert not reached[~learned].any()  # what the user says, what is padding
    last = torch.isin(batch.rows, corpus.ends)  # its next token is not in the text, but the teacher has a distribution there
    assert reached[batch.places[~last]].all() and (lm == "kl" or not reached[batch.places[last]].any())
    for name, weight in task.parameters().items():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name
    assert (task.blocks.weight.grad.flatten(1).abs().sum(1) > 0).all()


def test_no_gradient_reaches_the_teacher(tiny_folder: Path, corpus: Corpus):
    states = dataclasses.replace(corpus, hidden=corpus.hidden.float().requires_grad_())
    task = medusa2.Medusa2(fresh(tiny_folder), states, RECIPE)
    torch.stack([term for _, term in task.losses(some(corpus)).values()]).sum().backward()
    assert states.hidden.grad is None or not states.hidden.grad.any()


def test_the_places_of_the_lm_term_are_drawn_from_the_step(tiny_folder: Path, corpus: Corpus):
    """The same step draws the same places, whenever it comes: a resumed run has no generator to restore."""
    task, batch = task_of(tiny_folder, corpus, lm="ce", share=0.1), some(corpus)
    values = [task.losses(dataclasses.replace(batch, number=number))["LM"][1].item() for number in (3, 4, 3)]
    assert values[0] == values[2] != values[1]
    whole = task_of(tiny_folder, corpus, lm="ce", share=1.0)
    assert whole.losses(batch)["LM"][1].item() == whole.losses(dataclasses.replace(batch, number=9))["LM"][1].item()


def test_on_samples_cross_entropy_makes_the_student_drift_where_kl_does_not(tiny_folder: Path, corpus: Corpus, tmp_path: Path):
    """The corpus is the teacher's own text, half of it drawn, at several temperatures; everything but L_LM is the same."""
    drift = {}
    for lm in ("kl", "ce"):
        task = task_of(tiny_folder, corpus, lm=lm, share=1.0, epochs=4, peak=1e-2, rank=16, alpha=16, depth=4)
        drift[lm] = list(loop.fit(task, corpus, task.recipe, tmp_path / lm, {}))[-1].held_out["kl"]
    assert 0 < 3 * drift["kl"] < drift["ce"]


# ---- a run ------------------------------------------------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on_to_the_very_same_weights(trained, tiny_folder: Path, corpus: Corpus, tmp_path: Path):
    class Interrupted(medusa2.Medusa2):
        stop = 0

        def losses(self, batch: data.Batch) -> dict[str, tuple[float, torch.Tensor]]:
            terms = super().losses(batch)
            if batch.number == self.stop:
                raise KeyboardInterrupt
            return terms

    for stop in (1, 6):
        task = Interrupted(fresh(tiny_folder), corpus, RECIPE)
        task.stop = stop
        with pytest.raises(KeyboardInterrupt):
            list(loop.fit(task, corpus, RECIPE, tmp_path, {}))
    task = task_of(tiny_folder, corpus)
    list(loop.fit(task, corpus, RECIPE, tmp_path, {}))
    assert all(torch.equal(a, b) for a, b in zip(weights(task).values(), weights(trained[0]).values(), strict=True))


def test_the_seed_is_all_that_is_random(trained, tiny_folder: Path, corpus: Corpus, tmp_path: Path):
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    task = task_of(tiny_folder, corpus)
    assert torch.equal(torch.random.get_rng_state(), before)
    list(loop.fit(task, corpus, RECIPE, tmp_path, {}))
    assert all(torch.equal(a, b) for a, b in zip(weights(task).values(), weights(trained[0]).values(), strict=True))
    one, other = (next(iter(task_of(tiny_folder, corpus, seed=seed).adapter().values())) for seed in (1, 2))
    assert not torch.equal(one, other)


@FUTURE
def test_what_is_saved_is_the_student_and_its_heads(trained, tiny_folder: Path, corpus: Corpus):
    task, folder = trained
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "log.jsonl", "medusa.json", "medusa.safetensors",
    ]  # fmt: skip
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA" and (config["r"], config["lora_alpha"]) == (4, 4) and config["base_model_name_or_path"] is None
    batch = some(corpus)
    with torch.no_grad():
        for core in (PeftModel.from_pretrained(fresh(tiny_folder), folder).get_base_model().model, merge(fresh(tiny_folder), folder).model):
            states = core(input_ids=batch.ids).last_hidden_state.flatten(0, 1)[batch.places]
            torch.testing.assert_close(states, task.states(batch), rtol=1e-4, atol=1e-4)
    heads = load_medusa(folder, fresh(tiny_folder))
    assert heads.count == 3 and json.loads((folder / "medusa.json").read_text())["held_out"]["kl"] > 0


# ---- nearer to the original -------------------------------------------------------------------------------------------------------------


def test_a_softened_adapter_keeps_its_kl_in_its_files_and_merged(tiny_folder: Path, corpus: Corpus, trained, tmp_path: Path):
    task, folder = trained
    shutil.copytree(folder, tmp_path / "softened")
    tried: list[tuple[float, float]] = []
    again, facts = medusa2.load(fresh(tiny_folder), corpus, folder)
    kl = task.held_out()["kl"]
    assert again.held_out()["kl"] == pytest.approx(kl, rel=0.02)
    found = medusa2.soften(again, kl / 2, lambda *one: tried.append(one))
    assert found["kl"] <= kl / 2 and [alpha for alpha, _ in tried] == sorted((alpha for alpha, _ in tried), reverse=True)
    assert kl / 4 < found["kl"], "no further than it must"
    again.save(tmp_path / "softened", facts | {"softened": {"alpha": again.alpha}})
    batch = some(corpus)
    merged = merge(fresh(tiny_folder), tmp_path / "softened")
    states = merged.model(input_ids=batch.ids).last_hidden_state.flatten(0, 1)[batch.places]
    torch.testing.assert_close(states, again.states(batch), rtol=1e-4, atol=1e-4)
    third, _ = medusa2.load(fresh(tiny_folder), corpus, tmp_path / "softened")
    assert third.alpha == again.alpha and torch.allclose(third.states(batch), states, atol=1e-4)


def test_nothing_is_changed_where_the_kl_holds(tiny_folder: Path, corpus: Corpus, trained):
    _, folder = trained
    task, _ = medusa2.load(fresh(tiny_folder), corpus, folder)
    medusa2.soften(task, 1e3)
    assert task.alpha == RECIPE.alpha


def test_a_kl_below_what_rounding_leaves_is_refused_after_three_measurements(tiny_folder: Path, corpus: Corpus, trained):
    """The corpus holds the original's states in bfloat16: with the adapter off the KL is small, but not 0."""
    tried: list[tuple[float, float]] = []
    task, _ = medusa2.load(fresh(tiny_folder), corpus, trained[1])
    with pytest.raises(Fault) as fault:
        medusa2.soften(task, 1e-9, lambda *one: tried.append(one))
    alphas, (*_, (_, floor)) = [alpha for alpha, _ in tried], tried
    assert (len(tried), alphas[-1], fault.value.key) == (3, 0.0, "training.kl_floor") and floor > 1e-9
    assert f"leaves {floor:.3g} nats" in str(fault.value) and f"more than {floor:.3g} (--most-kl)" in str(fault.value)
    for most in (1.02 * floor, 2 * floor):
        tried.clear()
        task.alpha = RECIPE.alpha
        found = medusa2.soften(task, most, lambda *one: tried.append(one))
        assert floor < found["kl"] <= most and len(tried) <= 6 and 0 < task.alpha == tried[-1][0] < alphas[0]


def test_a_folder_without_an_adapter_is_named(tiny_folder: Path, corpus: Corpus, trained, tmp_path: Path):
    shutil.copy(trained[1] / "medusa.safetensors", tmp_path)
    with pytest.raises(Fault, match=r"medusa\.json"):
        medusa2.load(fresh(tiny_folder), corpus, tmp_path)
