"""Other people's conversations: read in both forms, rendered by the model's template, and learned exactly where the assistant speaks."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from specviz.engine.lm import Pair
from specviz.i18n import Fault
from specviz.training import chat
from specviz.training.corpus import Corpus, settings_of

ENDED = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}</s> {% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
END = frozenset([2])


def messages(*turns: str, roles: tuple[str, str] = ("user", "assistant")) -> list[dict[str, str]]:
    return [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]


def sharegpt(*turns: str, system: str | None = None) -> dict[str, Any]:
    found = [{"from": ("human", "gpt")[i % 2], "value": turn} for i, turn in enumerate(turns)]
    return {"id": "x", "conversations": ([{"from": "system", "value": system}] if system else []) + found}


def line(row: object) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


# A file for other tests: forty conversations in both forms, the answers long enough to judge heads by.
CHAT_LINES = "".join(
    line({"messages": messages(f"say {i}", f"the number {i} then the next one is {i + 1}")}) if i % 2 else
    line(sharegpt(f"count from {i}", f"{i} and {i + 1} and {i + 2}", "go on", f"{i + 3} and {i + 4} and more", system="Be brief."))
    for i in range(40)
)  # fmt: skip


@pytest.fixture
def ended(pair: Pair) -> Pair:
    """The tiny pair with a template that ends each turn with </s>, as chat models do."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(pair.target.info.source)
    tokenizer.chat_template = ENDED
    return dataclasses.replace(pair, tokenizer=tokenizer)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def learned_text(tokenizer: Any, ids: list[int], learned: list[bool]) -> list[str]:
    """The stretches of tokens that are learned, as text: those behind each mark."""
    stretches: list[list[int]] = [[]]
    for token, mark in zip([*ids[1:], None], learned, strict=True):
        if mark and token is not None:
            stretches[-1].append(token)
        elif stretches[-1]:
            stretches.append([])
    return [tokenizer.decode(stretch) for stretch in stretches if stretch]


# ---- reading ----------------------------------------------------------------------------------------------------------------------------


def test_both_forms_are_the_same_conversation(tmp_path: Path):
    rows = [{"messages": messages("a", "b", "c", "d")}, sharegpt("a", "b", "c", "d"), messages("a", "b", "c", "d")]
    expected = messages("a", "b", "c", "d")
    assert chat.read(written(tmp_path / "lines", "\n" + "\n".join(map(line, rows)) + "\n\n")) == [expected] * 3
    assert chat.read(written(tmp_path / "list", json.dumps(rows, indent=2))) == [expected] * 3
    assert chat.read(written(tmp_path / "lists", line(rows[2]) + line(rows[2]))) == [expected] * 2  # each line is a list


def test_sharegpt_with_a_system_turn_and_a_beginning_that_nobody_asked_for(tmp_path: Path):
    row = sharegpt("a", "b", system="be kind")
    row["conversations"].insert(1, {"from": "gpt", "value": "as I said"})
    assert chat.read(written(tmp_path / "c", line(row))) == [[{"role": "system", "content": "be kind"}, *messages("a", "b")]]
    assert chat.read(written(tmp_path / "d", line({"messages": messages("a", roles=("assistant", "user"))}))) == [[]]


def test_text_in_any_script_stays_what_it_is(tmp_path: Path):
    said = "e\u0301 中文 👨‍👩‍👧 \u2028 line \u0085 next"  # two of them are line breaks to Python, and none to JSON
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + (line({"messages": messages(said, said)}) * 2).encode("utf-8"))
    assert chat.read(path) == [messages(said, said)] * 2
    half = written(tmp_path / "d", '{"messages": [{"role": "user", "content": "a\\ud83d"}]}')
    assert chat.read(half) == [messages("a\ufffd")]


GOOD = line({"messages": messages("a", "b")})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "\n" + '{"messages": [', "Line 3 of .* is no JSON"),
        (GOOD + "hello\n", "Line 2 of .* is no JSON"),
        ('[{"messages": []},\n\n oops]', "Line 3 of .* is no JSON"),
        (GOOD + GOOD + line({"text": "abc"}), "Conversation 3 of .* is no list of messages"),
        (GOOD + "17\n", "Conversation 2 of .* is no list"),
        (GOOD + line({"messages": "hello"}), "Conversation 2 of .* is no list"),
        (
            GOOD + line({"messages": [{"role": "tool", "content": "x"}]}),
            "Conversation 2 of .* a message .role “tool”. without text or of an unknown role.*one of the roles user",
        ),
        (line({"messages": [{"role": ["user"], "content": "x"}]}), r"Conversation 1 of .*role “.*user.*”"),
        (line({"messages": [{"role": "user", "content": None}]}), "Conversation 1 of .* .role “user”. without text"),
        (line({"messages": ["hello"]}), "Conversation 1 of .*role “None”"),
    ],
)
def test_what_is_not_understood_is_named_with_its_number(text: str, said: str, tmp_path: Path):
    with pytest.raises(Fault, match=said):
        chat.read(written(tmp_path / "c.jsonl", text))


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path):
    with pytest.raises(Fault, match="could not be read as conversations"):
        chat.read(tmp_path / "nothing")
    (tmp_path / "latin").write_bytes(b'{"messages": "\xe9"}')
    with pytest.raises(Fault, match="could not be read as conversations.*utf-8"):
        chat.read(tmp_path / "latin")


# ---- tokens -----------------------------------------------------------------------------------------------------------------------------


def test_learned_is_what_the_assistant_says_up_to_the_end_of_its_turn(ended: Pair):
    turns = [{"role": "system", "content": "be kind"}, *messages("hi there", "the cat", "and", "that mat", "bye")]
    ids, learned = chat.tokens_of(ended.tokenizer, turns, END)
    whole = "[system] be kind</s> [user] hi there</s> [assistant] the cat</s> [user] and</s> [assistant] that mat</s> "
    assert ended.tokenizer.decode(ids) == whole and len(ids) == len(learned)  # what nobody answers is left out
    assert learned_text(ended.tokenizer, ids, learned) == ["the cat</s>", "that mat</s>"]
    prompt = ended.tokenizer.encode(whole[: whole.index("the cat")], add_special_tokens=False)
    assert ids[: len(prompt)] == prompt  # as a run of the program begins


def test_a_template_without_an_end_token_is_learned_to_the_end_of_the_turn(pair: Pair):
    ids, learned = chat.tokens_of(pair.tokenizer, messages("a", "the b", "c", "d"), END)
    assert learned_text(pair.tokenizer, ids, learned) == ["the b ", "d "]


def test_an_empty_answer_is_its_end(ended: Pair):
    ids, learned = chat.tokens_of(ended.tokenizer, messages("a", ""), END)
    assert learned_text(ended.tokenizer, ids, learned) == ["</s>"]


def test_nothing_is_learned_where_the_assistant_says_nothing(ended: Pair):
    assert chat.tokens_of(ended.tokenizer, messages("a"), END) == ([], [])
    assert chat.tokens_of(ended.tokenizer, [], END) == ([], [])


def test_a_long_conversation_is_cut(ended: Pair):
    turns = messages("a", "b" * 50, "c", "d" * 50)
    ids, learned = chat.tokens_of(ended.tokenizer, turns, END)
    assert chat.tokens_of(ended.tokenizer, turns, END, 40) == (ids[:40], learned[:40])


def test_a_template_that_rewrites_history_is_refused(ended: Pair, tmp_path: Path):
    """As those of models that think: what was thought is shown in the last turn alone."""
    ended.tokenizer.chat_template = ENDED.replace("{{ m['content'] }}", "{% if loop.last %}(hm) {% endif %}{{ m['content'] }}")
    with pytest.raises(Fault, match="changes earlier turns"):
        chat.tokens_of(ended.tokenizer, messages("a", "b", "c", "d"), END)
    path = written(tmp_path / "c.jsonl", line({"messages": messages("a", "b", "c", "d")}))
    with pytest.raises(Fault, match=rf"conversation 1 of {re.escape(str(path))}"):
        chat.write(ended, path, tmp_path / "corpus")


# ---- the corpus -------------------------------------------------------------------------------------------------------------------------


def test_the_targets_states_stand_beside_every_token(ended: Pair, target, tmp_path: Path):
    long = messages("a", "the cat sat on the mat and then " * 20)  # more than this model reads
    path = written(tmp_path / "c.jsonl", CHAT_LINES + line({"messages": long}))
    told: list[tuple[int, int]] = []
    chat.write(ended, path, tmp_path / "corpus", progress=lambda done, of: told.append((done, of)))
    texts = Corpus.load(tmp_path / "corpus")
    assert texts.numbers.tolist() == list(range(41)) and told[-1] == (len(texts.tokens), len(texts.tokens)) and told == sorted(told)
    last = texts.conversation(40)
    assert last.stop - last.start == 512 == ended.target.max_context
    for i in (0, 7, 40):
        ids = texts.tokens[texts.conversation(i)].long()
        with torch.no_grad():
            expected = target.model(input_ids=ids[None]).last_hidden_state[0]
        torch.testing.assert_close(texts.hidden[texts.conversation(i)].float(), expected, rtol=2**-8, atol=1e-3)
    assert texts.hidden.dtype == torch.bfloat16
    for i in (0, 1):
        span = texts.conversation(i)
        said = [["0 and 1 and 2</s>", "3 and 4 and more</s>"], ["the number 1 then the next one is 2</s>"]][i]
        assert learned_text(ended.tokenizer, texts.tokens[span].tolist(), texts.learned[span].tolist()) == said
    known = settings_of(tmp_path / "corpus")
    assert known["source"] == "chat" and len(known["data"]) == 64 and known["target"] == ended.target.info.sha256


def test_as_many_conversations_are_read_as_have_so_many_tokens(ended: Pair, tmp_path: Path):
    path = written(tmp_path / "c.jsonl", CHAT_LINES)
    chat.write(ended, path, tmp_path / "few", 300)
    chat.write(ended, path, tmp_path / "all")
    few, everything = Corpus.load(tmp_path / "few"), Corpus.load(tmp_path / "all")
    assert len(few.tokens) >= 300 > int(few.starts[-1]) and len(few) < len(everything)
    chat.write(ended, path, tmp_path / "few", 600)  # and later more of them
    more = Corpus.load(tmp_path / "few")
    assert len(more.tokens) >= 600 and torch.equal(more.tokens, everything.tokens[: len(more.tokens)])


def test_an_interrupted_reading_goes_on(ended: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chat, "PART", 3)
    path = written(tmp_path / "c.jsonl", CHAT_LINES)
    chat.write(ended, path, tmp_path / "whole")
    read = chat.states
    count = 0

    def counted(model: object, ids: list[int]) -> torch.Tensor:
        nonlocal count
        count += 1
        if count in (5, 18):
            raise KeyboardInterrupt
        return read(model, ids)

    monkeypatch.setattr(chat, "states", counted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            chat.write(ended, path, tmp_path / "corpus")
    chat.write(ended, path, tmp_path / "corpus")
    assert count == 40 + 2  # nothing is read twice
    one, other = Corpus.load(tmp_path / "corpus"), Corpus.load(tmp_path / "whole")
    assert all(torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def test_conversations_without_an_answer_are_left_out(ended: Pair, tmp_path: Path):
    rows = [{"messages": messages("a")}, {"messages": []}, {"messages": messages("a", "b")}, sharegpt("c")]
    chat.write(ended, written(tmp_path / "c", "".join(map(line, rows))), tmp_path / "corpus")
    assert len(Corpus.load(tmp_path / "corpus")) == 1
    with pytest.raises(Fault, match="Nothing can be learned"):
        chat.write(ended, written(tmp_path / "d", line(rows[0])), tmp_path / "other")
    with pytest.raises(Fault, match="Nothing can be learned"):
        chat.write(ended, written(tmp_path / "e", ""), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_folder_holds_one_corpus(ended: Pair, tmp_path: Path):
    path = written(tmp_path / "c.jsonl", CHAT_LINES)
    chat.write(ended, path, tmp_path / "corpus", 100)
    with pytest.raises(Fault, match="another corpus"):
        chat.write(ended, written(tmp_path / "d.jsonl", CHAT_LINES + CHAT_LINES), tmp_path / "corpus", 100)
    chat.write(ended, written(tmp_path / "moved.jsonl", CHAT_LINES), tmp_path / "corpus", 100)  # it is what is in it that counts


def test_a_model_that_cannot_render_a_conversation_says_so(ended: Pair, tmp_path: Path):
    path = written(tmp_path / "c.jsonl", GOOD + line({"messages": [{"role": "system", "content": "x"}, *messages("a", "b")]}))
    ended.tokenizer.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn') }}{% endif %}" + ENDED
    with pytest.raises(Fault, match="refuses conversation 2 of .*no system turn"):
        chat.write(ended, path, tmp_path / "corpus")
    ended.tokenizer.chat_template = None
    with pytest.raises(Fault, match="no chat template"):
        chat.write(ended, path, tmp_path / "corpus")


def test_a_folder_that_cannot_be_written_is_said(ended: Pair, tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(Fault, match="could not be written"):
        chat.write(ended, written(tmp_path / "c.jsonl", GOOD), tmp_path / "taken" / "corpus")
