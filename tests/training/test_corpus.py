import copy
import dataclasses
import json
from pathlib import Path

import pytest
import torch

from specviz.i18n import Fault
from specviz.models.load import load_local
from specviz.training import corpus as corpora
from specviz.training.corpus import ANSWER_TOKENS, HELD_EVERY, USER_TOKENS, Corpus, Settings, contiguous, write

SMALL = Settings(tokens=1200, rows=8, seed=3)


def written(pair, settings: Settings, folder: Path) -> Corpus:
    write(pair, settings, folder)
    return Corpus.load(folder)


def same(one: Corpus, other: Corpus) -> bool:
    return all(torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def begins_with(whole: Corpus, start: Corpus) -> bool:
    return same(whole.first(len(start)), start)


def turns(tokenizer) -> tuple[list[int], list[int]]:
    """The token ids before and behind a user's turn."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": "@"}], tokenize=False, add_generation_prompt=True)
    return tuple(tokenizer.encode(part, add_special_tokens=False) for part in text.split("@"))


@pytest.fixture(scope="module")
def small(pair, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return written(pair, SMALL, tmp_path_factory.mktemp("small"))


def test_the_same_seed_writes_the_same_corpus(pair, small, tmp_path: Path):
    assert same(small, written(pair, SMALL, tmp_path / "again"))
    other = written(pair, dataclasses.replace(SMALL, seed=4), tmp_path / "other")
    assert small.tokens.tolist() != other.tokens.tolist()


def test_a_larger_corpus_begins_with_the_smaller(pair, small, tmp_path: Path):
    larger = written(pair, dataclasses.replace(SMALL, tokens=2500), tmp_path)
    assert len(larger) > len(small) and begins_with(larger, small)
    assert len(small.tokens) >= 1200 > len(small.first(len(small) - 1).tokens)  # as many conversations as it takes, and no more


def test_an_interrupted_corpus_goes_on_as_if_nothing_had_happened(pair, tmp_path: Path, small, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpora, "PART", 3)
    seen: list[int] = []

    def interrupted_after(tokens: int) -> None:
        def progress(done: int) -> None:
            seen.append(done)
            if done > tokens:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write(pair, SMALL, tmp_path, progress)

    interrupted_after(300)
    interrupted_after(800)
    kept = max(seen)
    write(pair, SMALL, tmp_path, seen.append)
    assert seen[seen.index(kept) + 1] == kept > 800  # nothing that was finished is written again
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    assert same(Corpus.load(tmp_path), small)


def test_what_is_stopped_keeps_what_was_finished(pair, tmp_path: Path, small):
    seen: list[int] = []
    write(pair, SMALL, tmp_path, seen.append, stopped=lambda: bool(seen) and seen[-1] > 500)
    part = Corpus.load(tmp_path)
    assert 0 < len(part) < len(small) and begins_with(small, part)
    assert same(written(pair, SMALL, tmp_path), small)


def test_programs_that_share_the_work_write_one_corpus(pair, tmp_path: Path, small):
    for i in (2, 1):
        write(pair, dataclasses.replace(SMALL, rows=4), tmp_path, share=(i, 2))
    whole = Corpus.load(tmp_path)
    assert len(whole.tokens) > 600
    shorter, longer = sorted((whole, small), key=len)
    assert torch.equal(longer.first(len(shorter)).tokens, shorter.tokens)


def test_a_part_that_went_missing_is_written_again(pair, tmp_path: Path, small, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpora, "PART", 3)
    write(pair, SMALL, tmp_path)
    sorted(tmp_path.glob("*.safetensors"))[0].unlink()
    assert len(Corpus.load(tmp_path)) < len(small)
    assert same(written(pair, SMALL, tmp_path), small)


def test_the_users_own_prompts_are_asked_in_turn(pair, tokenizer, tmp_path: Path):
    prompts = ("the cat", "a mat", "the mat")
    texts = written(pair, dataclasses.replace(SMALL, prompts=(*prompts, "a mat")), tmp_path)
    prefix, turn_over = turns(tokenizer)
    for i, prompt in enumerate(("the cat", "a mat", "the mat", "a mat", "the mat")):
        asked = prefix + tokenizer.encode(prompt, add_special_tokens=False) + turn_over
        assert texts.tokens[texts.conversation(i)].tolist()[: texts.answer(i)] == asked


@pytest.mark.parametrize("count", [2, 3, 31, 49, 64, 143])
def test_of_the_users_own_prompts_some_are_held_out_and_most_are_learned_from(pair, count: int):
    writer = corpora._Writer(pair, dataclasses.replace(SMALL, prompts=tuple(f"{number} cats" for number in range(count))))
    asked = [tuple(writer._prompt(number)) for number in range(64 * count)]
    held, learned = set(asked[::HELD_EVERY]), {prompt for number, prompt in enumerate(asked) if number % HELD_EVERY}
    assert not held & learned and len(held | learned) == count and len(held) == max(1, count // HELD_EVERY)


def test_prompts_that_cannot_be_asked_are_refused_in_one_sentence(pair, tmp_path: Path):
    long = "the cat sat on the mat and then " * 40
    with pytest.raises(Fault, match="Prompt 2 .* at most"):
        write(pair, dataclasses.replace(SMALL, prompts=("a cat", long)), tmp_path)
    with pytest.raises(Fault, match="two prompts"):
        write(pair, dataclasses.replace(SMALL, prompts=("a cat", "a cat")), tmp_path)
    narrow = dataclasses.replace(pair, target=Narrow(pair.target))
    with pytest.raises(Fault, match="context of 200 tokens"):
        write(narrow, SMALL, tmp_path)


class Narrow:
    """A model with a context of 200 tokens."""

    max_context = 200

    def __init__(self, model: object):
        self.model = model

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)


def test_a_template_in_words_ends_no_turn_by_its_first_word(pair, tmp_path: Path):
    """As Vicuna's: what ends an answer is the model's EOS, not the first token behind the user's words."""
    pair = dataclasses.replace(pair, tokenizer=copy.deepcopy(pair.tokenizer))
    pair.tokenizer.chat_template = "{% for m in messages %}a mat {{ m['content'] }} the cat sat{% endfor %}"
    texts = written(pair, dataclasses.replace(SMALL, tokens=3000), tmp_path)
    prefix, turn_over = turns(pair.tokenizer)
    assert len(prefix) > 0 and len(turn_over) > 1
    inside = 0
    for i in range(len(texts)):
        ids, answer = texts.tokens[texts.conversation(i)].tolist(), texts.answer(i)
        assert ids[answer - len(turn_over) : answer] == turn_over
        assert ids[-1] in pair.eos_ids or len(ids) - answer == ANSWER_TOKENS
        inside += turn_over[0] in ids[: answer - len(turn_over)] + ids[answer:]
    assert inside > 0, "nobody said that word, so nothing was shown"
    pair.tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }}{% endfor %}"
    with pytest.raises(Fault, match="chat template"):
        write(pair, SMALL, tmp_path / "no")


def test_a_folder_holds_one_corpus(pair, tiny_folder: Path, tmp_path: Path):
    few = dataclasses.replace(SMALL, tokens=100)
    write(pair, few, tmp_path)
    for other in (dataclasses.replace(few, seed=9), dataclasses.replace(few, prompts=("a cat", "a mat"))):
        with pytest.raises(Fault, match="another corpus"):
            write(pair, other, tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    (tmp_path / "settings.json").write_text(json.dumps({**settings, "target": "0" * 64}))
    with pytest.raises(Fault, match="another corpus"):
        write(pair, few, tmp_path)
    with pytest.raises(Fault, match="no corpus"):
        Corpus.load(tmp_path / "elsewhere")


def test_learned_is_what_the_assistant_says(corpus, tokenizer, pair):
    prefix, turn_over = turns(tokenizer)
    spans = [corpus.conversation(i) for i in range(len(corpus))]
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])] and spans[-1].stop == len(corpus.tokens)
    assert corpus.numbers.tolist() == list(range(len(corpus))) and len(corpus.hidden) == len(corpus.tokens) >= 6000
    for i, span in enumerate(spans):
        ids, answer = corpus.tokens[span].tolist(), corpus.answer(i)
        assert ids[: len(prefix)] == prefix
        assert ids[answer - len(turn_over) : answer] == turn_over
        ended = ids[-1] in pair.eos_ids
        assert corpus.learned[span].tolist() == [answer - 1 <= at < len(ids) - ended for at in range(len(ids))]
        assert answer <= len(prefix) + USER_TOKENS + len(turn_over)
        assert len(ids) - ended - answer == ANSWER_TOKENS if not ended else len(ids) - answer <= ANSWER_TOKENS
        assert not set(pair.eos_ids) & set(ids[answer:-1])  # the token that ends a turn ends the conversation
        assert not ended or not corpus.hidden[span][-1].any()
    assert any(corpus.tokens[span][-1] in pair.eos_ids for span in spans)


def test_greedy_answers_are_among_the_answers_and_are_the_targets(corpus, target):
    """About half of the answers are greedy; those are the target's own, token by token, and the others are not all."""
    greedy = 0
    for i in range(24):
        ids, answer = corpus.tokens[corpus.conversation(i)].long(), corpus.answer(i)
        if len(ids) - answer > 8:
            with torch.no_grad():
                best = target(input_ids=ids[None]).logits[0].argmax(-1)
            greedy += torch.equal(best[answer - 1 : -1], ids[answer:])
    assert greedy >= 3


def test_hidden_states_are_those_of_the_whole_model(corpus, target, pair):
    for i in (0, len(corpus) // 2, len(corpus) - 1):
        span = corpus.conversation(i)
        with torch.no_grad():
            expected = target.model(input_ids=corpus.tokens[span].long()[None]).last_hidden_state[0]
        if corpus.tokens[span][-1] in pair.eos_ids:
            expected[-1] = 0
        assert corpus.hidden.dtype == torch.bfloat16
        torch.testing.assert_close(corpus.hidden[span].float(), expected, rtol=2**-8, atol=1e-3)  # a bfloat16 has 8 bits


def test_the_row_by_row_decoder_writes_the_same_text(pair, tiny_folder: Path, tmp_path: Path):
    few = Settings(tokens=300, rows=4, seed=2)
    slow = load_local(tiny_folder, device="cpu", dtype="float32", engine="hf")
    one, other = written(pair, few, tmp_path / "fast"), written(slow, few, tmp_path / "slow")
    assert torch.equal(one.tokens, other.tokens) and torch.equal(one.starts, other.starts)
    torch.testing.assert_close(one.hidden.float(), other.hidden.float(), rtol=2**-7, atol=1e-2)


def test_a_model_without_a_chat_template_is_refused(pair, tmp_path: Path):
    class Bare:
        chat_template = None

        def __getattr__(self, name: str):
            return getattr(pair.tokenizer, name)

    with pytest.raises(Fault, match="chat template"):
        write(dataclasses.replace(pair, tokenizer=Bare()), SMALL, tmp_path)


def test_a_corpus_survives_its_file(corpus, tmp_path: Path):
    corpus.save(tmp_path / "folder" / "corpus.safetensors")
    assert same(Corpus.load(tmp_path / "folder" / "corpus.safetensors"), corpus)


def test_conversations_count_up_to_the_first_that_is_missing():
    assert [contiguous(numbers) for numbers in ([], [0], [1, 2], [2, 0, 1], [0, 1, 3])] == [0, 1, 0, 3, 2]
