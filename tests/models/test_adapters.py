"""LoRA adapters: merged as the formula says, and refused where they were made for another model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

import specviz
from specviz.engine.lm import Pair
from specviz.models import adapters, catalog, embedded
from specviz.models import load as loading
from specviz.models.load import load_local
from tests.models.test_checkpoints import _refused as refused
from tests.models.tiny import write_llama, write_pair, write_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks transformers for it
LAYERS, ALPHA, RANK = [1], 6, 3
TEXT = torch.tensor([[5, 20, 99, 7, 41, 3]])


def write_adapter(target: Path, folder: Path, seed: int = 0, **changes: object) -> Path:
    """An adapter that peft made for the model in `target`: B is drawn too, so that it changes something."""
    options = {"r": RANK, "lora_alpha": ALPHA, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": LAYERS}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32), LoraConfig(**(options | changes)))
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data.normal_(std=0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A target, a draft for it, an adapter for it."""
    root = tmp_path_factory.mktemp("adapted")
    target, draft = write_pair(root)
    return target, draft, write_adapter(target, root / "adapter")


def model_of(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def test_merging_adds_the_scaled_product(folders: tuple[Path, Path, Path]) -> None:
    target, _, adapter = folders
    before, merged = model_of(target).state_dict(), adapters.merge(model_of(target), adapter).state_dict()
    tensors = {name.removeprefix("base_model.model."): tensor for name, tensor in load_file(adapter / adapters.WEIGHTS).items()}
    assert merged.keys() == before.keys()
    for name, weight in before.items():
        stem = name.removesuffix(".weight")
        if f"{stem}.lora_A.weight" in tensors:
            wanted = weight + ALPHA / RANK * tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
            torch.testing.assert_close(merged[name], wanted)
            assert not torch.equal(merged[name], weight)
        else:
            assert torch.equal(merged[name], weight), name


def test_a_merged_model_runs_on_both_engines_as_peft_runs_it(folders: tuple[Path, Path, Path]) -> None:
    from peft import PeftModel

    target, _, adapter = folders
    wanted = PeftModel.from_pretrained(model_of(target), adapter)(input_ids=TEXT).logits[0]
    assert not torch.allclose(model_of(target)(input_ids=TEXT).logits[0], wanted, atol=0.05), "the adapter changes nothing"
    for engine in ("fast", "hf"):
        model = load_local(target, device="cpu", dtype="float32", engine=engine, adapter=adapter).target
        mask = torch.ones(6, 6, dtype=torch.bool).tril()
        logits = model.forward(model.new_cache(), TEXT[0], torch.arange(6), mask).logits
        torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=0)


def test_a_merged_pair_says_that_it_is_not_the_original(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    target, _, adapter = folders
    plain, merged = (load_local(target, device="cpu", dtype="float32", adapter=one).target.info for one in (None, adapter))
    assert (plain.name, merged.name) == ("target", "target + adapter")
    assert plain.parameters == merged.parameters
    hashes = {plain.sha256, merged.sha256, adapters.merged_hash("0" * 64, adapter)}
    louder = shutil.copytree(adapter, tmp_path / "louder")
    config = json.loads((louder / adapters.CONFIG).read_text())
    (louder / adapters.CONFIG).write_text(json.dumps(config | {"lora_alpha": 2 * ALPHA}))
    hashes.add(adapters.merged_hash(plain.sha256, louder))
    assert len(hashes) == 4, "target, adapter and scale each count"
    assert merged.sha256 == adapters.merged_hash(embedded.sha256(target / "model.safetensors"), adapter)


def texts(pair: Pair, **parameters: object) -> list[int]:
    return specviz.run(pair, "Hello there", max_new_tokens=32, baseline=False, **parameters).token_ids


def test_a_draft_for_the_original_is_lossless_for_the_merged_model(folders: tuple[Path, Path, Path]) -> None:
    target, draft, adapter = folders
    pair = load_local(target, draft, device="cpu", dtype="float32", adapter=adapter)
    plain = texts(pair, method="plain")
    assert plain != texts(load_local(target, device="cpu", dtype="float32"), method="plain"), "the adapter changes no text"
    for settings in ({"k": 4}, {"tree": "3x2"}, {"tree": "[[0],[2],[0,1]]"}):
        assert texts(pair, method="draft", rule="rejection", **settings) == plain


def damaged(adapter: Path, folder: Path, **changes: object) -> Path:
    """A copy with other tensors (None: without it) or other entries of the description."""
    copy = shutil.copytree(adapter, folder)
    tensors = load_file(copy / adapters.WEIGHTS)
    for name, tensor in changes.items():
        key = next((key for key in tensors if key.endswith(name)), name)
        tensors[key] = tensor
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, copy / adapters.WEIGHTS)
    return copy


A = "layers.1.self_attn.q_proj.lora_A.weight"
DAMAGED: dict[str, tuple[torch.Tensor | None, str]] = {
    "a tensor missing": (None, "other layers than this one.*layers.1.self_attn.q_proj"),
    "another width": (torch.zeros(3, 24), "lora_A.weight of .*3×24.*3×32"),
    "another rank": (torch.zeros(4, 32), "lora_A.weight of .*4×32.*3×32"),
    "no numbers": (torch.full((3, 32), torch.nan), "not finite"),
    "whole numbers": (torch.zeros(3, 32, dtype=torch.int32), "holds int32"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_adapters_are_refused(folders: tuple[Path, Path, Path], tmp_path: Path, name: str) -> None:
    target, _, adapter = folders
    tensor, sentence = DAMAGED[name]
    copy = damaged(adapter, tmp_path / "damaged", **{A: tensor})
    refused(lambda: load_local(target, device="cpu", dtype="float32", adapter=copy), sentence)


def test_adapters_of_other_models_are_refused(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    target, _, _ = folders
    deep = tmp_path / "deep"
    deep.mkdir()
    write_tokenizer(deep)
    write_llama(deep, layers=4)
    for name, options in (("all layers", {"layers_to_transform": None}), ("a deeper layer", {"layers_to_transform": [3]})):
        adapter = write_adapter(deep, tmp_path / name, **options)
        refused(lambda adapter=adapter: load_local(target, device="cpu", dtype="float32", adapter=adapter), "other layers than this one")
    shallow = write_adapter(target, tmp_path / "shallow", layers_to_transform=None)
    refused(lambda: load_local(deep, device="cpu", dtype="float32", adapter=shallow), "other layers than this one")


def test_folders_that_hold_no_adapter_are_refused(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    target, _, adapter = folders

    def load(folder: Path) -> None:
        load_local(target, device="cpu", dtype="float32", adapter=folder)

    refused(lambda: load(tmp_path), "no checkpoint at .*adapter_model.safetensors")
    copy = damaged(adapter, tmp_path / "copy")
    (copy / adapters.WEIGHTS).write_bytes(b"\x10")
    refused(lambda: load(copy), "adapter_model.safetensors cannot be read")
    shutil.copy(adapter / adapters.WEIGHTS, copy / adapters.WEIGHTS)
    config = json.loads((copy / adapters.CONFIG).read_text())
    for text, sentence in (
        ("{", "adapter_config.json .*not valid JSON"),
        ("[]", "adapter_config.json"),
        (json.dumps(config | {"peft_type": "IA3"}), "“IA3”"),
        (json.dumps(config | {"target_modules": ["no_such_module"]}), "other layers than this one"),
        (json.dumps(config | {"r": 0}), "other layers than this one"),
        (json.dumps(config | {"invented_later": True}), "installed peft does not know"),
    ):
        (copy / adapters.CONFIG).write_text(text)
        refused(lambda: load(copy), sentence)
    (copy / adapters.CONFIG).unlink()
    refused(lambda: load(copy), "no checkpoint at .*adapter_config.json")


def test_the_pair_is_offered_where_its_files_are(tmp_path: Path) -> None:
    entry = next(entry for entry in catalog._ALL if entry.name == "embedded-medusa2")
    assert entry.label == "SmolLM2-135M-Instruct + Medusa-2" and not entry.hub and entry.licences == ("Apache-2.0",)
    assert (entry in catalog.ENTRIES) == entry.here == (entry.name in catalog.NAMES)
    here = catalog.Entry(entry.name, entry.target, hub=False, adapter=tmp_path)
    for name in catalog.ADAPTED_FILES:
        assert not here.here
        (tmp_path / name).write_bytes(b"x")
    assert here.here and all(other.here for other in catalog.ENTRIES)


def test_the_embedded_pair_with_an_adapter(folders: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny target stands in for the embedded one: heads come from the adapter's folder, the draft only where it was shipped."""
    target, _, adapter = folders
    copy = shutil.copytree(adapter, tmp_path / "medusa2")
    save_file({"0.0.linear.weight": torch.zeros(32, 32), "0.0.linear.bias": torch.zeros(32)}, copy / "medusa.safetensors")
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "nothing")
    monkeypatch.setattr(embedded, "fetch", lambda progress: target)
    monkeypatch.setattr(embedded, "weights_sha256", lambda folder: "1" * 64)
    smol = catalog.find("embedded").target
    monkeypatch.setattr(catalog, "find", lambda name: catalog.Entry(name, smol, hub=False, adapter=copy))
    pair = loading.load("embedded-medusa2", "cpu", "float32")
    assert (pair.name, pair.target.info.name) == ("embedded-medusa2", "SmolLM2-135M-Instruct + Medusa-2")
    assert pair.target.info.sha256 == adapters.merged_hash("1" * 64, copy) and pair.medusa.count == 1 and pair.draft is None
    assert texts(pair, method="medusa") == texts(pair, method="plain")
