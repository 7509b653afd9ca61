"""Other people's conversations as a corpus: the recipe of Medusa takes the data that a model was tuned on, where that exists.

A file of JSON lines (or one JSON list). A conversation is {"messages": [{"role": "user", "content": "…"}, …]}, as in chat interfaces, or
{"conversations": [{"from": "human", "value": "…"}, …]}, as ShareGPT wrote it. It is rendered by the model's own chat template; what the
assistant said is learned, up to and with the token that ends its turn. The target then reads it, so that its states stand beside it.

ShareGPT has conversations that begin in their middle: what the assistant says before anybody asked is left out.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from specviz.engine.lm import LanguageModel, Pair, Tokenizer
from specviz.i18n import Fault
from specviz.models.files import writing
from specviz.training.corpus import PART, Corpus
from specviz.training.parts import claim, sizes_of

ROLES = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bard": "assistant",
         "system": "system"}  # fmt: skip
LONGEST = 2048  # tokens of a conversation; what is longer is cut
CHUNK = 256  # tokens read in one pass
Message = dict[str, str]
Progress = Callable[[int, int], None]  # tokens read, and of how many


def read(path: Path) -> list[list[Message]]:
    """The conversations of a file; raises Fault, naming the place, where one is not understood."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Fault("training.chat_unreadable", path=path, reason=error.strerror or error) from error
    except UnicodeDecodeError as error:
        raise Fault("training.chat_unreadable", path=path, reason=error) from error
    return [_messages(row, path, number) for number, row in enumerate(_rows(text, path), start=1)]


def _rows(text: str, path: Path) -> list[object]:
    """What stands on the lines of a file, or in the one list that it is."""
    if text.lstrip().startswith("["):
        try:
            whole: list[object] = json.loads(text)
            return whole
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":  # otherwise it goes on behind the list: each line is one
                raise Fault("training.chat_line", path=path, line=error.lineno, reason=error.msg) from error
    found: list[object] = []
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would also split at U+2028, which may stand in a JSON string
        try:
            found += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise Fault("training.chat_line", path=path, line=number, reason=error.msg) from error
    return found


def _messages(row: object, path: Path, number: int) -> list[Message]:
    lists = [row.get(name) for name in ("messages", "conversations")] if isinstance(row, dict) else [row]
    turns = next((found for found in lists if isinstance(found, list)), None)
    if turns is None:
        raise Fault("training.chat_row", path=path, number=number)
    found = [_message(turn, path, number) for turn in turns]
    asked = next((i for i, message in enumerate(found) if message["role"] == "user"), len(found))
    return [message for i, message in enumerate(found) if i >= asked or message["role"] == "system"]


def _message(turn: object, path: Path, number: int) -> Message:
    told = turn if isinstance(turn, dict) else {}
    role, said = told.get("role", told.get("from")), told.get("content", told.get("value"))
    if not isinstance(role, str) or role not in ROLES or not isinstance(said, str):
        raise Fault("training.chat_turn", path=path, number=number, role=str(role)[:40], roles=", ".join(ROLES))
    whole = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # JSON can hold half of a character, no tokenizer can
    return {"role": ROLES[role], "content": whole}


def tokens_of(tokenizer: Tokenizer, messages: list[Message], end: frozenset[int], longest: int = LONGEST) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and after which of them the assistant speaks on (its next token is to be learned).

    Raises Fault where the template changes what was said before: no answer has a place of its own then.
    """
    ids: list[int] = []
    learned: list[bool] = []
    shown = ""
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        asked = tokenizer.apply_chat_template(messages[:i], tokenize=False, add_generation_prompt=True)
        said = tokenizer.apply_chat_template(messages[: i + 1], tokenize=False, add_generation_prompt=False)
        if not (asked.startswith(shown) and said.startswith(asked)):
            raise Fault("training.template_rewrites")
        before = _added(tokenizer, asked, shown, ids)
        answer = _added(tokenizer, said, asked, ids + before)
        stop = next((at + 1 for at, token in enumerate(answer) if token in end), len(answer))
        learned += [False] * len(before) + [at < stop - 1 for at in range(len(answer))]
        ids += before + answer
        if stop and len(learned) > len(answer):
            learned[len(ids) - len(answer) - 1] = True
        shown = said
    return ids[:longest], learned[:longest]


def _added(tokenizer: Tokenizer, text: str, before: str, ids: list[int]) -> list[int]:
    """The tokens behind `ids`, those of `before`, in the whole text; where a token spans the border, those of the rest alone."""
    whole = tokenizer.encode(text, add_special_tokens=False)
    return whole[len(ids) :] if whole[: len(ids)] == ids else tokenizer.encode(text[len(before) :], add_special_tokens=False)


@torch.inference_mode()
def states(model: LanguageModel, ids: list[int]) -> Float[Tensor, "n d"]:
    """The model's last hidden state after every token of a text."""
    cache, found = model.new_cache(), []
    for chunk in torch.tensor(ids).split(CHUNK):
        causal = torch.ones(len(chunk), len(chunk), dtype=torch.bool).tril()
        found.append(model.forward(cache, chunk, torch.arange(cache.length, cache.length + len(chunk)), causal).hidden.cpu())
    return torch.cat(found)


def write(pair: Pair, path: Path, folder: Path, tokens: int | None = None, progress: Progress = lambda done, of: None) -> None:
    """Let the target read the conversations of `path` into the corpus `folder`: all of them, or as many as have `tokens` tokens.

    What is there already is kept. Raises Fault as `read` does, where the folder holds another corpus, where the model has no chat
    template or its template refuses a conversation, where the file holds no answer, or where the folder cannot be written.
    """
    if not pair.tokenizer.chat_template:
        raise Fault("training.no_template")
    texts = list(_texts(pair, path, tokens))
    if not texts:
        raise Fault("training.nothing_to_learn")
    with writing(folder):
        data = hashlib.sha256(path.read_bytes()).hexdigest()
        claim(folder, {"source": "chat", "target": pair.target.info.sha256, "data": data, "tokens": tokens})
        have = sizes_of(folder)
        done, of, waiting = sum(have.values()), sum(len(ids) for ids, _ in texts), _Waiting(folder)
        progress(done, of)
        try:
            for number, (ids, learned) in enumerate(texts):
                if number not in have:
                    waiting.add((number, ids, learned, states(pair.target, ids).bfloat16()))
                    done += len(ids)
                    progress(done, of)
        finally:
            waiting.save()


def _texts(pair: Pair, path: Path, tokens: int | None) -> Iterator[tuple[list[int], list[bool]]]:
    """The conversations that have an answer, as tokens: all, or as many as have `tokens` tokens."""
    total, longest = 0, min(LONGEST, pair.target.max_context)
    for number, messages in enumerate(read(path), start=1):
        try:
            ids, learned = tokens_of(pair.tokenizer, messages, frozenset(pair.eos_ids), longest)
        except Fault as fault:
            raise Fault(fault.key, path=path, number=number) from fault
        except Exception as error:  # a template is a program of its own, and says no in its own way
            raise Fault("training.template_refuses", path=path, number=number, reason=str(error)[:120]) from error
        if any(learned):
            yield ids, learned
            total += len(ids)
            if tokens is not None and total >= tokens:
                return


class _Waiting:
    """Conversations that were read and are not written yet."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.texts: list[tuple[int, list[int], list[bool], Tensor]] = []

    def add(self, text: tuple[int, list[int], list[bool], Tensor]) -> None:
        """One more; a whole part is written."""
        self.texts.append(text)
        if len(self.texts) == PART:
            self.save()

    def save(self) -> None:
        """Write them."""
        if self.texts:
            _save(self.texts, self.folder)
            self.texts = []


def _save(texts: list[tuple[int, list[int], list[bool], Tensor]], folder: Path) -> None:
    Corpus(
        tokens=torch.tensor([token for _, ids, _, _ in texts for token in ids], dtype=torch.int32),
        hidden=torch.cat([hidden for *_, hidden in texts]),
        learned=torch.tensor([mark for _, _, learned, _ in texts for mark in learned]),
        starts=torch.tensor([0, *accumulate(len(ids) for _, ids, _, _ in texts)][:-1]),
        numbers=torch.tensor([number for number, *_ in texts]),
    ).save(folder / f"{texts[0][0]:07d}.safetensors")
