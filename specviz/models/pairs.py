"""Whether one model can draft for another: the same tokens under the same ids.

The size of the LM head need not be equal. Vocabularies are padded to a round number of rows, often a different one in each size of a
family; the rows behind the last token stand for nothing and are cut off when a pair is loaded.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from specviz.i18n import Fault, t
from specviz.models import catalog, embedded, hub


@dataclass(frozen=True)
class Fit:
    """The answer: whether they fit, and why: locale keys with their values, one a sentence."""

    fits: bool
    reasons: tuple[tuple[str, dict[str, str]], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The locale keys of the reasons."""
        return tuple(key for key, _ in self.reasons)

    def sentence(self, lang: str = "en") -> str:
        """The reasons in words."""
        return " ".join(t(lang, key, **values) for key, values in self.reasons)


@dataclass(frozen=True)
class Vocabulary:
    """What the comparison needs of a model. `rows` is the size of its LM head, padding included."""

    name: str
    ids: dict[str, int]
    merges: list
    specials: dict[str, int]
    rows: int

    @property
    def size(self) -> int:
        """One more than the largest token id."""
        return max(self.ids.values(), default=-1) + 1


def check_pair(target: str, draft: str) -> Fit:
    """Compare two models, given as catalogue names, folders or hub ids; raises Fault when one cannot be had."""
    return compare(vocabulary(target), vocabulary(draft))


def compare(target: Vocabulary, draft: Vocabulary) -> Fit:
    """Whether `draft` can propose for `target`."""
    names = {"target": target.name, "draft": draft.name}
    for model in (target, draft):
        if model.size > model.rows:
            return _no("pair.too_few_rows", model=model.name, rows=model.rows, size=model.size)
    if target.ids != draft.ids:
        return _no("pair.vocabulary_differs", **names, **_first_difference(target, draft))
    if target.merges != draft.merges:
        return _no("pair.merges_differ", **names)
    numbers = {"size": str(target.size), "rows": str(target.rows), "others": str(draft.rows)}
    reasons = [("pair.same" if target.rows == draft.rows else "pair.padding_differs", {**names, **numbers})]
    roles = sorted(role for role in target.specials.keys() | draft.specials.keys() if target.specials.get(role) != draft.specials.get(role))
    if roles:  # the target alone decides where a text begins and ends
        reasons.append(("pair.roles_differ", {**names, "roles": ", ".join(roles)}))
    return Fit(True, tuple(reasons))


def vocabulary(name: str) -> Vocabulary:
    """Read the tokenizer and the size of the LM head of a model: a catalogue name, a folder or a hub id."""
    return read_vocabulary(_folder(name), name)


def read_vocabulary(folder: Path, name: str | None = None) -> Vocabulary:
    """The vocabulary of the model in `folder`."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fault("models.not_a_model", folder=folder, reason=str(error).splitlines()[0][:160]) from error
    specials = {key: int(tokenizer.convert_tokens_to_ids(str(token))) for key, token in tokenizer.special_tokens_map.items() if token}
    return Vocabulary(name or folder.name, tokenizer.get_vocab(), _merges(tokenizer), specials, config.vocab_size)


def _folder(name: str) -> Path:
    if name in catalog.NAMES:
        entry = catalog.find(name)
        return hub.fetch(entry.target, weights=False) if entry.hub else embedded.fetch()
    if Path(name).is_dir():
        return Path(name)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return hub.fetch(catalog.Part(name, 0, ""), weights=False)
    raise Fault("pair.unknown_model", name=name[:80], choices=", ".join(catalog.NAMES))


def _merges(tokenizer: PreTrainedTokenizerBase) -> list:
    """The merge rules of a BPE tokenizer; [] for other kinds, whose vocabulary says everything."""
    if not hasattr(tokenizer, "backend_tokenizer"):
        return []
    return json.loads(tokenizer.backend_tokenizer.to_str())["model"].get("merges", [])


def _first_difference(target: Vocabulary, draft: Vocabulary) -> dict[str, str]:
    tokens = [token for token in target.ids.keys() | draft.ids.keys() if target.ids.get(token) != draft.ids.get(token)]
    first = min(tokens, key=lambda token: (target.ids.get(token, 2**31), draft.ids.get(token, 2**31), token))
    ids = {"target_id": target.ids.get(first, "–"), "draft_id": draft.ids.get(first, "–")}
    return {"count": f"{len(tokens)}", "token": repr(first)[:60], **{key: str(value) for key, value in ids.items()}}


def _no(key: str, **values: object) -> Fit:
    return Fit(False, ((key, {name: str(value) for name, value in values.items()}),))
