"""Running text over a byte-level tokenizer: characters split over tokens come whole, and nothing is lost."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from specviz.engine.text import RunningText, TokenTexts

TEXTS = [
    "plain words",
    "naïve café",
    "👩‍👩‍👧‍👦 family",
    "e\u0301 combining",
    "中文也可以",
    "עברית and العربية",
    "${x} <script>alert(1)</script>",
    "\u200bzero\u200dwidth",
    "a\ufffdb",
]


class Bytes:
    """A byte-level tokenizer without merges: one token a byte."""

    chat_template = None

    def __init__(self) -> None:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        self._tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()

    def apply_chat_template(self, conversation: list, *, tokenize: bool, add_generation_prompt: bool) -> str:
        raise AssertionError

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._tokenizer.encode(text).ids

    def decode(self, token_ids: list[int]) -> str:
        return self._tokenizer.decode(token_ids)


@pytest.mark.parametrize("text", [*TEXTS, "".join(TEXTS) * 20])
def test_the_pieces_are_the_text(text: str) -> None:
    tokenizer = Bytes()
    running = RunningText(tokenizer, tokenizer.encode("prompt: "))
    pieces = [running.add(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


def test_half_a_character_waits_for_the_other_half() -> None:
    tokenizer = Bytes()
    running = RunningText(tokenizer, [])
    pieces = [running.add(token) for token in tokenizer.encode("é!")]
    assert pieces == ["", "é", "!"]


def test_a_label_is_never_a_broken_character() -> None:
    tokenizer = Bytes()
    labels = TokenTexts(tokenizer)
    first, second = tokenizer.encode("é")
    assert labels[first] == f"⟨{first}⟩" and labels[second] == f"⟨{second}⟩"
    assert labels[tokenizer.encode(" ")[0]] == " "
