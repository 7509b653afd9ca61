from pathlib import Path

import torch

from specviz.training.corpus import ANSWER_TOKENS, USER_TOKENS, Corpus, write_corpus


def turns(tokenizer) -> tuple[list[int], list[int]]:
    """The token ids before and behind a user's turn."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": "@"}], tokenize=False, add_generation_prompt=True)
    return tuple(tokenizer.encode(part, add_special_tokens=False) for part in text.split("@"))


def test_the_same_seed_writes_the_same_corpus(target, tokenizer):
    first, again, other = (write_corpus(target, tokenizer, tokens=400, rows=4, seed=seed) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(vars(first).values(), vars(again).values(), strict=True))
    assert first.tokens.tolist() != other.tokens.tolist()


def test_offsets_point_at_conversations_and_answers(corpus, tokenizer):
    prefix, turn_over = turns(tokenizer)
    spans = [corpus.conversation(i) for i in range(len(corpus))]
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])] and spans[-1].stop == len(corpus.tokens)
    assert len(corpus.hidden) == len(corpus.tokens) >= 6000
    for span, answer in zip(spans, corpus.answers.tolist(), strict=True):
        ids = corpus.tokens[span].tolist()
        assert ids[: len(prefix)] == prefix
        assert ids[answer - len(turn_over) : answer] == turn_over
        assert answer <= len(prefix) + USER_TOKENS + len(turn_over) and len(ids) - answer <= ANSWER_TOKENS + USER_TOKENS
        assert turn_over[0] not in ids[answer:]  # the token that ends a turn ends the conversation


def test_hidden_states_are_those_of_the_whole_model(corpus, target):
    for i in (0, len(corpus) // 2, len(corpus) - 1):
        span = corpus.conversation(i)
        with torch.no_grad():
            expected = target.model(input_ids=corpus.tokens[span].long()[None]).last_hidden_state[0]
        torch.testing.assert_close(corpus.hidden[span], expected, rtol=1e-4, atol=1e-4)


def test_a_corpus_survives_its_file(corpus, tmp_path: Path):
    corpus.save(tmp_path / "folder" / "corpus.safetensors")
    read = Corpus.load(tmp_path / "folder" / "corpus.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(vars(corpus).values(), vars(read).values(), strict=True))
