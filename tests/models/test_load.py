"""Loading: from folders in the hub's format, by name, and the embedded model itself."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import SentencePieceTrainer
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import specviz
from specviz.i18n import Fault
from specviz.models import catalog, embedded, hub
from specviz.models import load as loading
from specviz.models.checkpoints import published_name
from specviz.models.load import load_local
from tests.models.tiny import write_llama, write_pair, write_tokenizer


@pytest.fixture
def empty_shelf(monkeypatch):
    """No pair is loaded yet."""
    monkeypatch.setattr(loading, "_loaded", {})


def load_tiny(root: Path, **rows: int):
    target, draft = write_pair(root, **rows)
    return load_local(target, draft, device="cpu", dtype="float32")


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(100, 100), (104, 100), (100, 104), (128, 104)])
def test_padding_is_cut_off_whichever_side_has_it(tmp_path, target_rows, draft_rows):
    pair = load_tiny(tmp_path, target_rows=target_rows, draft_rows=draft_rows)
    assert pair.target.vocab_size == pair.draft.vocab_size == 100
    trace = specviz.run(pair, "the hat", rule="rejection", temperature=1.0, k=3, max_new_tokens=40, baseline=False)
    assert max(trace.token_ids) < 100
    assert all(token < 100 for step in trace.steps for row in step.rows for token in row.ids)


def test_cutting_off_padding_leaves_the_logits_of_all_tokens_as_they_are(tmp_path):
    target, _ = write_pair(tmp_path, target_rows=104)
    before = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    after = load_local(target, device="cpu", dtype="float32", engine="hf").target.model
    ids = torch.tensor([[5, 20, 99]])
    assert before(ids).logits.shape[-1] == 104
    assert torch.equal(before(ids).logits[..., :100], after(ids).logits)


def test_untied_heads_are_cut_too(tmp_path):
    write_tokenizer(tmp_path)
    write_llama(tmp_path, rows=112, tied=False)
    assert load_local(tmp_path, device="cpu", dtype="float32", engine="hf").target.model.lm_head.weight.shape == (100, 32)


def test_greedy_drafting_gives_the_text_of_plain_decoding(tmp_path):
    pair = load_tiny(tmp_path, target_rows=104)
    settings = {"temperature": 0.0, "max_new_tokens": 24, "baseline": False}
    drafted, plain = (specviz.run(pair, "Hello there", method=method, rule="greedy", **settings) for method in ("draft", "plain"))
    assert drafted.token_ids == plain.token_ids


def test_what_a_pair_says_of_itself(tmp_path):
    pair = load_tiny(tmp_path)
    weights = tmp_path / "target" / "model.safetensors"
    assert pair.target.info.sha256 == embedded.sha256(weights)
    assert pair.target.info.name == "target"
    model = load_local(tmp_path / "target", device="cpu", dtype="float32", engine="hf").target.model
    assert pair.target.info.parameters == sum(p.numel() for p in model.parameters())
    assert pair.target.info.sha256 != pair.draft.info.sha256
    assert pair.device_name
    assert pair.tokenizer.chat_template


def test_every_token_that_ends_a_text(tmp_path):
    write_tokenizer(tmp_path, eos="<unk>")
    write_llama(tmp_path, eos=[2, 7])
    assert load_local(tmp_path, device="cpu", dtype="float32").eos_ids == (0, 2, 7)


def test_the_hash_of_a_sharded_checkpoint_counts_every_file(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"one")
    hashes = {loading.weights_hash(tmp_path)}
    for content in (b"two", b"three"):
        (tmp_path / "b.safetensors").write_bytes(content)
        hashes.add(loading.weights_hash(tmp_path))
    assert len(hashes) == 3


def test_a_file_of_the_hubs_cache_is_named_by_its_hash(tmp_path):
    blob = tmp_path / "blobs" / ("ab" * 32)
    blob.parent.mkdir()
    blob.write_bytes(b"weights that are not read again")
    snapshot = tmp_path / "models--owner--tiny" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(blob)
    assert (loading.weights_hash(snapshot), published_name(snapshot, "0123")) == ("ab" * 32, "owner/tiny")


def test_the_fast_engine_is_chosen_where_it_serves(tmp_path):
    write_pair(tmp_path)
    made = {engine: load_local(tmp_path / "target", device="cpu", dtype="float32", engine=engine) for engine in (None, "fast", "hf")}
    assert [pair.target.engine for pair in made.values()] == ["fast", "fast", "hf"]
    texts = [specviz.run(pair, "Hello", method="plain", max_new_tokens=24, baseline=False).token_ids for pair in made.values()]
    assert texts[0] == texts[1] == texts[2]
    with pytest.raises(Fault, match="engine"):
        load_local(tmp_path / "target", device="cpu", dtype="float32", engine="turbo")


def test_an_architecture_that_only_the_reference_runs(tmp_path):
    write_tokenizer(tmp_path)
    GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=32, n_layer=1, n_head=2, n_positions=128)).save_pretrained(tmp_path)
    assert load_local(tmp_path, device="cpu", dtype="float32").target.engine == "hf"
    with pytest.raises(Fault, match="gpt2"):
        load_local(tmp_path, device="cpu", dtype="float32", engine="fast")


def test_no_memory_is_a_sentence(empty_shelf, monkeypatch):
    """Whatever torch raises when memory ends; other errors stay what they are."""
    for error in (MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
        monkeypatch.setattr(loading, "_load_embedded", Mock(side_effect=error))
        with pytest.raises(Fault, match="no memory left"):
            loading.load("embedded", "cpu", "float32")
    monkeypatch.setattr(loading, "_load_embedded", Mock(side_effect=RuntimeError("something else")))
    with pytest.raises(RuntimeError, match="something else"):
        loading.load("embedded", "cpu", "float32")


def test_a_draft_of_another_vocabulary_is_refused(tmp_path):
    target, draft = write_pair(tmp_path)
    write_tokenizer(draft, order=-1)
    with pytest.raises(Fault, match="draft cannot draft for target"):
        load_local(target, draft, device="cpu", dtype="float32")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_checkpoint(tmp_path, name):
    target, _ = write_pair(tmp_path)
    (target / name).write_bytes(b"{damaged")
    with pytest.raises(Fault, match="holds no model"):
        load_local(target, device="cpu", dtype="float32")


def test_code_in_a_checkpoint_is_never_run(tmp_path):
    target, _ = write_pair(tmp_path)
    config = (target / "config.json").read_text()
    (target / "config.json").write_text(
        config.replace('"model_type": "llama"', '"model_type": "x", "auto_map": {"AutoConfig": "evil.Evil"}')
    )
    (target / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(Fault, match="holds no model"):
        load_local(target, device="cpu", dtype="float32")
    assert not (tmp_path / "ran").exists()


def test_the_format_of_older_checkpoints(tmp_path):
    """Vicuna 1.3 has a sentencepiece model in place of tokenizer.json, and its weights are a pickle."""
    target, _ = write_pair(tmp_path)
    (tmp_path / "text").write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(target / "tokenizer"), vocab_size=48, model_type="bpe", minloglevel=2
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (target / name).unlink()
    names = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (target / "tokenizer_config.json").write_text(json.dumps(names))
    state = load_file(target / "model.safetensors")
    (target / "model.safetensors").unlink()
    torch.save(state, target / "pytorch_model.bin")
    pair = load_local(target, device="cpu", dtype="float32", engine="hf")
    assert pair.tokenizer.decode(pair.tokenizer.encode("the fox", add_special_tokens=False)) == "the fox"
    assert pair.target.vocab_size == 48
    asked = pair.tokenizer.apply_chat_template([{"role": "user", "content": "the fox"}], chat_template=catalog.VICUNA_CHAT, tokenize=False)
    with_bos, by_tokenizer = pair.tokenizer.encode(asked, add_special_tokens=False), pair.tokenizer.encode(asked.removeprefix("<s> "))
    assert with_bos[0] == pair.tokenizer.bos_token_id and with_bos[1:] == [id for id in by_tokenizer if id != with_bos[0]]
    assert torch.equal(pair.target.model.model.embed_tokens.weight, state["model.embed_tokens.weight"][:48])


def test_a_pickle_can_bring_nothing_but_tensors(tmp_path):
    target, _ = write_pair(tmp_path)
    (target / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Hostile(tmp_path / "ran")}, target / "pytorch_model.bin")
    with pytest.raises(Fault, match="more than tensors"):
        load_local(target, device="cpu", dtype="float32")
    assert not (tmp_path / "ran").exists()


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def test_an_unknown_name(empty_shelf):
    with pytest.raises(Fault, match="no pair called “gpt-5”; choose one of embedded"):
        specviz.load("gpt-5")


def test_a_pair_that_does_not_fit_says_so_and_loads_nothing(empty_shelf, monkeypatch):
    monkeypatch.setattr(loading, "free_memory", lambda where: 10**9)
    monkeypatch.setattr(hub, "fetch", lambda part: pytest.fail("it was fetched all the same"))
    with pytest.raises(Fault, match="needs .* GB of memory and 1.0 GB are free"):
        specviz.load("qwen2.5-7b", "cpu", "float32")


def test_a_pair_out_of_reach_says_so(empty_shelf, monkeypatch, offline):
    monkeypatch.setattr(loading, "free_memory", lambda where: 10**12)
    with pytest.raises(Fault, match="hub does not answer"):
        specviz.load("smollm2-1.7b", "cpu", "float32")


def test_a_hub_pair_from_its_snapshots(empty_shelf, monkeypatch, tmp_path):
    target, draft = write_pair(tmp_path, draft_rows=104)
    entry = replace(catalog.find("qwen2.5-1.5b"), chat_template="{{ messages[0]['content'] }}!")
    folders, stages = {entry.target.repo: target, entry.draft.repo: draft}, []
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    monkeypatch.setattr(hub, "fetch", lambda part: folders[part.repo])
    pair = loading.load("qwen2.5-1.5b", "cpu", "float32", lambda stage, done: stages.append(stage))
    assert (pair.name, pair.draft.vocab_size) == ("qwen2.5-1.5b", 100)
    assert pair.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "a!"
    assert set(stages) == {"models.fetching", "models.loading"}


def test_a_pair_is_loaded_once_even_when_two_ask(empty_shelf, monkeypatch, tmp_path):
    calls, started, pair = [], threading.Barrier(2), load_tiny(tmp_path)

    def load_embedded(entry, where, progress, engine, parts):
        calls.append(where)
        return replace(pair)

    monkeypatch.setattr(loading, "_load_embedded", load_embedded)
    found = []

    def ask() -> None:
        started.wait()
        found.append(loading.load("embedded", "cpu", "float32"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert found[0] is found[1]
    assert loading.load("embedded", "cpu", "bfloat16") is not found[0]


@pytest.mark.parametrize(
    ("cuda", "reachable", "name"), [(True, True, "smollm2-1.7b"), (True, False, "embedded"), (False, True, "embedded")]
)
def test_the_default(monkeypatch, cuda, reachable, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(hub, "answers", lambda entry: reachable if cuda else pytest.fail("no hub is asked without a GPU"))
    assert hub.default_name() == name


def test_the_embedded_model(embedded_pair, offline):
    assert embedded_pair.target.shape.layers == 30
    assert embedded_pair.target.vocab_size == 49_152
    assert 2 in embedded_pair.eos_ids
    assert 134_000_000 < embedded_pair.target.info.parameters < 135_000_000
    assert len(embedded_pair.target.info.sha256) == 64
    trace = specviz.run(embedded_pair, "What is gravity?", method="plain", rule="greedy", max_new_tokens=12, baseline=False)
    assert "ravity is a" in trace.text


def test_the_embedded_model_asks_the_network_for_nothing(embedded_pair, empty_shelf, offline):
    specviz.load("embedded", "cpu", "float32")
