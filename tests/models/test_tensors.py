"""Checkpoint files: whole, in shards, as pickles, damaged."""

import io
import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaForCausalLM

from specviz.i18n import Fault
from specviz.models.checkpoints import load_medusa, read_medusa
from specviz.models.load import load_local
from tests.models.test_checkpoints import _refused as refused
from tests.models.test_checkpoints import target as target  # a fixture
from tests.models.test_checkpoints import v1, v2
from tests.models.tiny import write_llama, write_tokenizer


def whole_model(target: LlamaForCausalLM, **more: Tensor) -> dict[str, Tensor]:
    """The base's own tensors, and the heads among them."""
    base = {name: tensor.clone() for name, tensor in target.state_dict().items() if name != "lm_head.weight"}
    return base | {f"medusa_head.{name}": tensor for name, tensor in v1().items()} | more


def write_shards(folder: Path, tensors: dict[str, Tensor], count: int = 3) -> dict[str, str]:
    """The tensors dealt out to `count` files, with an index; returns the file of each."""
    files = {name: f"model-{1 + place % count:05d}-of-{count:05d}.safetensors" for place, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return files


def same(a: Path, b: Path, target: LlamaForCausalLM) -> bool:
    hidden = torch.randn(5, 16)
    return torch.equal(load_medusa(a, target).logits(hidden), load_medusa(b, target).logits(hidden))


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    """The same heads in a file of their own."""
    save_file(v1(), tmp_path / "own.safetensors")
    return tmp_path / "own.safetensors"


def test_heads_are_read_from_among_the_tensors_of_a_whole_model(target, tmp_path: Path, heads: Path):
    save_file(whole_model(target), tmp_path / "model.safetensors")
    assert same(tmp_path, heads, target)
    save_file(whole_model(target, **{"lm_head.weight": torch.zeros(3)}), tmp_path / "model.safetensors")  # the base's, whatever it is
    assert same(tmp_path, heads, target)


def test_of_shards_only_those_with_heads_are_opened(target, tmp_path: Path, heads: Path):
    files = write_shards(tmp_path, whole_model(target), count=12)
    holding = {file for name, file in files.items() if name.startswith("medusa_head.")}
    for file in set(files.values()) - holding:
        (tmp_path / file).unlink()
    assert len(holding) < 12 and same(tmp_path, heads, target)
    assert same(tmp_path / "model.safetensors.index.json", heads, target)


def test_the_hash_of_heads_in_shards_is_that_of_the_shards_that_hold_them(target, tmp_path: Path):
    files = write_shards(tmp_path, whole_model(target), count=12)
    before = load_medusa(tmp_path, target).info.sha256
    others = sorted(set(files.values()) - {file for name, file in files.items() if name.startswith("medusa_head.")})
    (tmp_path / others[0]).write_bytes(b"changed")
    assert load_medusa(tmp_path, target).info.sha256 == before
    write_shards(tmp_path, whole_model(target, **{"medusa_head.0.0.linear.bias": torch.ones(16)}), count=12)
    assert load_medusa(tmp_path, target).info.sha256 != before


def test_a_whole_model_is_target_and_heads_at_once(tmp_path: Path):
    write_tokenizer(tmp_path)
    write_llama(tmp_path)
    state = {name: tensor for name, tensor in LlamaForCausalLM.from_pretrained(tmp_path).state_dict().items() if name != "lm_head.weight"}
    grown = {"medusa_head.0.0.linear.weight": torch.randn(32, 32), "medusa_head.0.0.linear.bias": torch.randn(32)}
    save_file({**state, **grown, "medusa_head.0.1.weight": torch.randn(100, 32)}, tmp_path / "model.safetensors", {"format": "pt"})
    pair = load_local(tmp_path, medusa=tmp_path, device="cpu", dtype="float32")
    assert pair.medusa.count == 1 and pair.target.vocab_size == 100


DAMAGED: dict[str, tuple[dict[str, Tensor], str]] = {
    "a tensor of neither": ({"strange.weight": torch.ones(2)}, "tensor strange.weight"),
    "a head of another width": ({"medusa_head.1.0.linear.weight": torch.zeros(24, 24)}, "medusa_head.1.0.linear.weight of .*24×24.*16×16"),
    "a head of another vocabulary": ({"medusa_head.1.1.weight": torch.zeros(41, 16)}, "medusa_head.1.1.weight of .*41×16.*40×16"),
    "something that is no head": ({"medusa_head.2.0.norm.weight": torch.ones(16)}, "tensor medusa_head.2.0.norm.weight"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("sharded", [False, True])
def test_damaged_heads_in_a_whole_model_are_refused(target, tmp_path: Path, name: str, sharded: bool):
    more, sentence = DAMAGED[name]
    if sharded:
        write_shards(tmp_path, whole_model(target, **more))
    else:
        save_file(whole_model(target, **more), tmp_path / "model.safetensors")
    refused(lambda: load_medusa(tmp_path, target), sentence)


def test_damaged_shards_are_refused(target, tmp_path: Path):
    files = write_shards(tmp_path, whole_model(target))
    shard = tmp_path / files["medusa_head.0.0.linear.weight"]
    index, sound = tmp_path / "model.safetensors.index.json", shard.read_bytes()
    shard.write_bytes(sound[: len(sound) // 2])
    refused(lambda: load_medusa(tmp_path, target), f"{shard.name} cannot be read")
    save_file({"other": torch.ones(1)}, shard)
    refused(lambda: load_medusa(tmp_path, target), "lacks the tensor medusa_head.0")
    shard.unlink()
    refused(lambda: load_medusa(tmp_path, target), f"names the file {shard.name}")
    shard.write_bytes(sound)
    elsewhere = json.dumps({"weight_map": {name: f"../{file}" for name, file in files.items()}})
    for text in ("{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}', elsewhere, "[" * 100_000):
        index.write_text(text)
        refused(lambda: load_medusa(tmp_path, target), "model.safetensors.index.json cannot be read")


def test_a_whole_model_without_heads_has_none(target, tmp_path: Path):
    save_file({name: tensor for name, tensor in whole_model(target).items() if "medusa" not in name}, tmp_path / "model.safetensors")
    refused(lambda: load_medusa(tmp_path, target), "holds no Medusa heads")


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def test_a_pickle_of_plain_tensors_is_read_and_no_other(target, tmp_path: Path, heads: Path):
    path = tmp_path / "medusa_lm_head.pt"
    torch.save(v1(), path)
    assert same(path, heads, target)
    whole, mark = path.read_bytes(), tmp_path / "ran"
    more: list[object] = [Hostile(mark), Path("a path"), 3, "text", {"0.0.linear.bias": torch.ones(16)}, torch.eye(16).to_sparse()]
    for value in more:
        torch.save(v1() | {"0.0.linear.weight": value}, path)
        refused(lambda: load_medusa(path, target), "more than plain tensors")
    torch.save([torch.ones(2)], path)
    refused(lambda: load_medusa(path, target), "more than plain tensors")
    for content in (b"", b"no pickle", whole[: len(whole) // 2], pickle.dumps({"a": Hostile(mark)}, protocol=2)):
        path.write_bytes(content)
        refused(lambda: load_medusa(path, target), "cannot be read")
    assert not mark.exists()


def mutated(data: bytes, seed: int) -> bytes:
    """A pickle cut short, with some bytes changed, or with some exchanged for others; most often where its structure stands."""
    draw, changed = random.Random(seed), bytearray(data)

    def place() -> int:
        return draw.choice((draw.randrange(2000), len(data) - 1 - draw.randrange(3000), draw.randrange(len(data))))

    match draw.randrange(3):
        case 0:
            del changed[draw.randrange(len(data)) :]
        case 1:
            for _ in range(draw.randrange(1, 9)):
                changed[place()] = draw.randrange(256)
        case _:
            start = place()
            changed[start : start + draw.randrange(1, 40)] = draw.randbytes(draw.randrange(40))
    return bytes(changed)


def pickled(value: object, zipped: bool) -> bytes:
    """As torch writes it: a zip file, or the format before it."""
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_whatever_is_wrong_with_a_pickle_it_is_one_sentence(target, tmp_path: Path, zipped: bool, recwarn: pytest.WarningsRecorder):
    """Of 500 damaged files every one is refused or read; of what Python raises for their bytes, and torch warns of, nothing is seen.

    Not all of it is the same each time: the older format names tensors by their addresses.
    """
    data, path, seen = pickled(v1() | {"token_map": torch.arange(40)}, zipped), tmp_path / "medusa_lm_head.pt", dict[str, str]()
    for seed in range(500):
        path.write_bytes(mutated(data, seed))
        try:
            load_medusa(path, target)
        except Fault as fault:
            seen[fault.key] = str(fault)
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in seen.values())
    assert "error.checkpoint_unreadable" in seen
    assert all(key.startswith("error.checkpoint_") for key in seen)  # a name, a shape or a weight may have become another
    assert not (zipped and "error.checkpoint_pickle" in seen), "what is damaged is taken for something else"
    assert not recwarn.list


def test_the_checksums_of_a_pickle_are_looked_at(target, tmp_path: Path):
    """torch itself reads weights of which a bit has turned, and calls names with one more than plain tensors."""
    path, data = tmp_path / "medusa_lm_head.pt", pickled(v1(), True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in ("archive/data.pkl", "archive/data/0"):
        changed = bytearray(data)
        changed[data.index(members[name]) + len(members[name]) // 2] ^= 1
        path.write_bytes(changed)
        refused(lambda: load_medusa(path, target), "cannot be read")


def test_the_number_of_heads_is_that_of_the_tensors(target, tmp_path: Path):
    save_file(v2(), tmp_path / "medusa_lm_head.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"medusa_num_heads": 5, "medusa_num_layers": 3}))
    assert len(read_medusa(tmp_path, target).blocks) == 2
