"""Tokens as text: one token for a label, and a growing sequence for the page.

A token is not a piece of text. Byte-level tokenizers split one character over several tokens, and some tokenizers drop the space in front
of a token that is decoded alone. So a label is decoded beside a neighbour, and running text is the difference of two decodings.
"""

from collections.abc import Sequence

from specviz.engine.lm import Tokenizer

_INCOMPLETE = "\ufffd"  # what a decoder writes for bytes that are no character yet


class TokenTexts:
    """Labels of single tokens, remembered."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._anchor = tokenizer.encode("a", add_special_tokens=False)
        self._anchor_text = tokenizer.decode(self._anchor)
        self._known: dict[int, str] = {}

    def __getitem__(self, token: int) -> str:
        """The token's text with its leading space; bytes that are no character alone come as ⟨token id⟩."""
        if token not in self._known:
            text = self._tokenizer.decode([*self._anchor, token]).removeprefix(self._anchor_text)
            self._known[token] = f"⟨{token}⟩" if _INCOMPLETE in text else text
        return self._known[token]


class RunningText:
    """The text that each new token adds; the bytes of an unfinished character are held back until it is complete."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]):
        self._tokenizer = tokenizer
        self._window = list(prompt[-8:])  # enough for the tokenizer to know what stands in front
        self._shown = self._safe()

    def add(self, token: int) -> str:
        """Append a token; returns the text that became complete with it."""
        self._window.append(token)
        text = self._safe()
        new = text[len(self._shown) :]
        if new and len(self._window) > 64:  # start a new window at a character's end, so that each decode stays short
            self._window = self._window[-8:]
            text = self._safe()
        self._shown = text
        return new

    def finish(self) -> str:
        """What is still held back at the end of a run (an unfinished character)."""
        return self._tokenizer.decode(self._window)[len(self._shown) :]

    def _safe(self) -> str:
        text = self._tokenizer.decode(self._window)
        return text.rstrip(_INCOMPLETE)


_HERE = "\0"  # stands for the prompt in a chat template


def prompt_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, ...]:
    """What each token of a prompt adds to the text, the tokens of the chat template included."""
    running = RunningText(tokenizer, [])
    return tuple(running.add(token) for token in ids)


def prompt_start(tokenizer: Tokenizer, texts: Sequence[str], prompt: str, chat: bool) -> int | None:
    """How many characters of `texts` stand in front of the prompt; None where it does not stand there as it was written."""
    message = [{"role": "user", "content": _HERE}]
    around = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True) if chat else _HERE
    written, behind = "".join(texts), around.rpartition(_HERE)[2]
    return len(written) - len(prompt) - len(behind) if written.endswith(prompt + behind) else None
