import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specviz.config import DecodeConfig
from specviz.engine.loop import decode
from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa
from specviz.models.load import load_local
from specviz.training import calibrate
from specviz.training.data import split


def test_ranks_are_counted_as_by_hand():
    tokens = torch.tensor([4, 5, 6, 7, 8, 9, 5, 6])
    guesses = [[6, 9], [8, 6]]  # each head says the same everywhere, most probable first

    def best(hidden: torch.Tensor, ranks: int) -> torch.Tensor:
        return torch.tensor(guesses)[:, None, :ranks].expand(-1, len(hidden), -1)

    # Spans 4 5 6 7 8 and 9 5 6. Head 0 is judged by the tokens two ahead: 6 7 8 | 6; head 1 by those three ahead: 7 8 | nothing.
    found = calibrate.rank_accuracies(best, 2, tokens, torch.zeros(8, 3), [(0, 5), (5, 8)], ranks=2)
    assert found == [[0.5, 0.0], [0.5, 0.0]]
    guesses[1] = [1, 7]
    assert calibrate.rank_accuracies(best, 2, tokens, torch.zeros(8, 3), [(0, 5), (5, 8)], ranks=2)[1] == [0.0, 0.5]


def test_a_depth_counts_only_where_the_first_candidates_above_were_right():
    walks = [[0, 0, 2], [0, 1], [1], [calibrate.MISSED], [0, 0]]
    accuracies, cases = calibrate.conditional_accuracies(walks, ranks=3)
    assert cases == [5, 3, 1]
    assert accuracies == [[0.6, 0.2, 0.0], [0.66667, 0.33333, 0.0], [0.0, 0.0, 1.0]]
    assert calibrate.conditional_accuracies([]) == ([], [])


def test_greedy_answers_are_the_models_own(pair, target):
    prompts, length = [[5, 9, 30], [8, 60, 61, 62, 63, 12], [40]], 12
    with torch.no_grad():
        expected = []
        for prompt in prompts:
            ids = list(prompt)
            for _ in range(length):
                ids.append(int(target(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
            expected.append(ids)
    eos = expected[1][8]  # a token that ends the second answer early
    stopped = [
        ids[: ids.index(eos, len(prompt)) + 1] if eos in ids[len(prompt) :] else ids for ids, prompt in zip(expected, prompts, strict=True)
    ]
    answers = calibrate.greedy_answers(dataclasses.replace(pair, eos_ids=(eos,)), prompts, length)
    spans = [answers.conversation(i) for i in range(3)]
    assert [answers.tokens[span].tolist() for span in spans] == stopped and len(stopped[1]) < len(expected[1])
    assert [answers.answer(i) for i in range(3)] == [3, 6, 1]
    with torch.no_grad():
        hidden = target.model(input_ids=torch.tensor([stopped[1]])).last_hidden_state[0]
    torch.testing.assert_close(answers.hidden[spans[1]], hidden, rtol=1e-4, atol=1e-4)


def test_prompts_are_the_held_out_ones_up_to_the_answer_and_each_once(pair, corpus, monkeypatch: pytest.MonkeyPatch):
    held = split(corpus)[1]
    prompts = calibrate.held_out_prompts(corpus)
    assert prompts == [corpus.tokens[corpus.conversation(i)].tolist()[: corpus.answer(i)] for i in held]
    monkeypatch.setattr(calibrate, "held_out_prompts", lambda corpus: prompts[:1] * 3)
    assert len(calibrate.held_out_answers(pair, corpus)) == 1
    monkeypatch.setattr(calibrate, "LONGEST_PROMPT", 1)
    with pytest.raises(Fault, match="1 tokens"):
        calibrate.held_out_answers(pair, corpus)


def test_a_draft_that_is_the_target_is_always_right(pair, corpus):
    answers = calibrate.held_out_answers(pair, corpus)
    walks = [walk for text, answer in calibrate.texts(answers) for walk in calibrate.draft_walks(pair.target, text, answer)]
    accuracies, cases = calibrate.conditional_accuracies(walks)
    assert len(accuracies) == calibrate.DEPTHS and all(row == [1.0] + [0.0] * 9 for row in accuracies)
    assert cases[0] == sum(len(text) - answer for text, answer in calibrate.texts(answers))


@pytest.mark.parametrize("method", ["draft", "ngram"])
def test_walks_are_what_a_real_run_accepts(method: str, pair, tiny_folder: Path, tmp_path: Path):
    """A run at temperature 0 and the walk from the same root agree, step by step."""
    shutil.copytree(tiny_folder, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    noisy = {name: tensor * (1 + 0.3 * torch.randn(tensor.shape, generator=generator)) for name, tensor in weights.items()}
    save_file(noisy, tmp_path / "model.safetensors", {"format": "pt"})
    both = load_local(tiny_folder, tmp_path, device="cpu", dtype="float32")
    config = DecodeConfig(method=method, tree="4x2x1", temperature=0.0, max_new_tokens=150, ngram_min=1, chat=False)
    prompt = both.tokenizer.encode("the cat on the mat the cat on the")
    steps = list(decode(both, both.tokenizer.decode(prompt), config))
    text = prompt + [token.token_id for step in steps for token in step.emitted]
    walks = list(
        calibrate.draft_walks(both.draft, text, len(prompt))
        if method == "draft"
        else calibrate.ngram_walks(both, config, text, len(prompt))
    )
    root, kinds = 0, set()
    for step in steps[:-1]:
        ranks = [step.tree[token.node].rank for token in step.emitted if token.node is not None]
        firsts = next((i + 1 for i, rank in enumerate(ranks) if rank), len(ranks))
        assert walks[root][:firsts] == ranks[:firsts]
        if step.emitted[-1].kind == "recovered" and not any(ranks):  # the run met no candidate that was right: nor may the walk
            width = sum(node.parent == step.stopped_at for node in step.tree)
            assert walks[root][len(ranks)] not in range(width)
        kinds |= {tuple(ranks[:1])}
        root += len(step.emitted)
    assert {(), (0,), (1,)} <= kinds


def test_lookup_counts_a_place_without_a_match_as_a_miss(pair):
    config = DecodeConfig(method="ngram", ngram_min=1)
    walks = list(calibrate.ngram_walks(pair, config, [3, 4, 5, 3, 4, 6, 9], 4))
    # After "… 3" stood 4 before; then it goes on with 5, but the text says 6. After "3 4" stood 5. Nothing follows 6 anywhere.
    assert walks == [[0, calibrate.MISSED], [calibrate.MISSED], [calibrate.MISSED]]


def heads_in(folder: Path, pair, seed: int = 0) -> Path:
    generator = torch.Generator().manual_seed(seed)
    width = pair.target.shape.width
    tensors = {f"{i}.0.linear.weight": torch.randn(width, width, generator=generator) / width for i in range(3)}
    tensors |= {f"{i}.0.linear.bias": torch.zeros(width) for i in range(3)}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "medusa.safetensors")
    (folder / "medusa.json").write_text('{"note": "stays"}')
    return folder


def test_each_method_writes_its_accuracies_beside_its_weights(pair, target, tiny_folder: Path, corpus, tmp_path: Path):
    folder = heads_in(tmp_path / "heads", pair)
    whole = dataclasses.replace(load_local(tiny_folder, tiny_folder, device="cpu", dtype="float32"), medusa=load_medusa(folder, target))
    shutil.copy(tiny_folder / "model.safetensors", folder / "draft.safetensors")  # the weights of the draft, as their hash knows them
    done: list[float] = []
    answers = calibrate.held_out_answers(whole, corpus)
    spoken = sum(len(text) - answer for text, answer in calibrate.texts(answers))
    for name, heads in (("medusa", 3), ("draft", calibrate.DEPTHS), ("ngram", None)):
        found = getattr(calibrate, name)(whole, corpus, folder, done.append)
        facts = json.loads((folder / f"{name}.json").read_text())
        assert facts["accuracies"] == found and (heads is None or len(found) == heads)
        assert all(len(row) == calibrate.RANKS and 0 <= sum(row) <= 1.0001 for row in found)
        assert (facts["calibration"]["prompts"], facts["calibration"]["answer_tokens"]) == (len(answers), spoken)
    assert json.loads((folder / "medusa.json").read_text())["note"] == "stays"
    assert done == sorted(done[: len(done) // 3]) * 3 and done[-1] == 1.0


def test_numbers_never_land_beside_other_weights(pair, target, corpus, tmp_path: Path):
    heads = load_medusa(heads_in(tmp_path / "one", pair), target)
    other = heads_in(tmp_path / "other", pair, seed=1)
    with pytest.raises(Fault, match="not the ones that are loaded"):
        calibrate.medusa(dataclasses.replace(pair, medusa=heads), corpus, other)
    with pytest.raises(Fault, match="no draft"):
        calibrate.draft(pair, corpus, other)
    assert "accuracies" not in (other / "medusa.json").read_text()


def test_what_a_head_does_not_score_is_no_candidate():
    logits = torch.full((1, 6), -torch.inf)
    logits[0, 4], logits[0, 2] = 1.0, 2.0
    assert calibrate.candidates(logits, 4).tolist() == [[2, 4, calibrate.MISSED, calibrate.MISSED]]
