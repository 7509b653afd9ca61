"""Medusa heads in the place of a pair's own: by file or folder, with an adapter and without, for every kind of pair."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

import specviz
from specviz.engine.lm import Pair
from specviz.i18n import Fault
from specviz.models import adapters, catalog, embedded, hub, own
from specviz.models import load as loading
from specviz.models.load import heads_at, trained_in
from specviz.models.medusa import MedusaHeads
from tests.models.test_adapters import write_adapter
from tests.models.test_checkpoints import write_draft
from tests.models.test_own import trained
from tests.models.test_tensors import write_shards
from tests.models.tiny import write_pair

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks transformers for it
WIDTH, TOKEN = 32, 7
LAYOUTS = ("medusa.safetensors", "medusa_lm_head.safetensors", "medusa_lm_head.pt", "model.safetensors", "model.safetensors.index.json")


def write_heads(folder: Path, name: str, target: Path, token: int = TOKEN) -> Path:
    """Two heads that can propose nothing but `token`, in the layout that files called `name` have; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(token)
    only = {"token_map": torch.tensor([token])}
    vllm = {f"blocks.{i}.layers.0.weight": torch.randn(WIDTH, WIDTH) for i in range(2)} | only
    v2: dict[str, Tensor] = {}
    for i in range(2):
        v2 |= {f"{i}.0.linear.weight": torch.randn(WIDTH, WIDTH), f"{i}.0.linear.bias": torch.randn(WIDTH)}
    v1 = v2 | {f"{i}.1.weight": torch.randn(1, WIDTH) for i in range(2)} | only
    match name:
        case "medusa.safetensors":
            save_file(vllm, folder / name)
        case "medusa_lm_head.safetensors":
            save_file(v2 | only, folder / name)
        case "medusa_lm_head.pt":
            torch.save(v1, folder / name)
        case "model.safetensors":
            save_file(vllm | {"lm_head.weight": torch.randn(1, WIDTH)}, folder / name)
        case _:
            base = load_file(target / "model.safetensors")
            write_shards(folder, base | {f"medusa_head.{key}": tensor for key, tensor in v1.items()})
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders: a target, a draft of its layers, heads of its own, and two of an adapter with its heads."""
    root = tmp_path_factory.mktemp("models")
    target, _ = write_pair(root)
    write_heads(root / "shipped", "medusa.safetensors", target, token=90)
    write_draft(root / "shipped", AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32), [0, 1])
    for seed, name in enumerate(("medusa2", "other2")):
        write_adapter(target, root / name, seed=seed)
        write_heads(root / name, "medusa.safetensors", target, token=91 + seed)
    return root


@pytest.fixture
def stand_in(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny target is the embedded one, and nothing is loaded yet; returns the folder of all of them."""
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(loading, "_instead", {})
    monkeypatch.setattr(loading, "SHIPPED", models / "shipped")
    monkeypatch.setattr(embedded, "fetch", lambda progress: models / "target")
    monkeypatch.setattr(embedded, "weights_sha256", lambda folder: "1" * 64)
    smol = catalog.find("embedded").target
    entries = {name: catalog.Entry(name, smol, hub=False) for name in ("embedded", "embedded-medusa2")}
    entries["embedded-medusa2"] = replace(entries["embedded-medusa2"], adapter=models / "medusa2")
    monkeypatch.setattr(catalog, "find", entries.__getitem__)
    return models


def only(heads: MedusaHeads) -> int:
    """The token that these heads propose."""
    scores = heads.logits(torch.randn(WIDTH, dtype=heads.lm_heads[0].dtype))
    assert scores.isfinite().sum(1).tolist() == [1, 1]
    return int(scores.argmax(-1).unique())


def ask(pair: Pair, **parameters: object) -> specviz.Trace:
    return specviz.run(pair, "Hello there", max_new_tokens=16, baseline=False, **parameters)


@pytest.mark.parametrize("name", LAYOUTS)
def test_heads_of_any_layout_propose_in_the_place_of_the_pairs_own(stand_in: Path, tmp_path: Path, name: str):
    folder = write_heads(tmp_path / "mine", name, stand_in / "target")
    before = specviz.load("embedded", "cpu", "float32")
    for place in (folder, str(folder / name)):
        pair = specviz.load("embedded", "cpu", "float32", heads=place)
        assert (only(before.medusa), only(pair.medusa)) == (90, TOKEN)
        assert pair.target.info == before.target.info and pair.draft.info == before.draft.info
        assert pair.medusa.info.name == f"mine/{Path(name).stem}", "the name would be another's"
        trace = ask(pair, method="medusa", tree="1x1")
        assert {node.token_id for step in trace.steps for node in step.tree[1:]} == {TOKEN}
        assert trace.token_ids == ask(before, method="plain").token_ids
    assert specviz.load("embedded", "cpu", "float32") is before, "the pair's own heads are gone"


def test_an_adapter_beside_the_heads_makes_another_target(stand_in: Path):
    pair, plain = (specviz.load("embedded", "cpu", "float32", heads=heads) for heads in (stand_in / "other2", None))
    assert pair.target.info.name == "SmolLM2-135M-Instruct + other2" and only(pair.medusa) == 92
    assert pair.target.info.sha256 == adapters.merged_hash("1" * 64, stand_in / "other2")
    text = ask(pair, method="plain").token_ids
    assert text != ask(plain, method="plain").token_ids
    assert text == ask(pair, method="medusa", tree="1x1").token_ids == ask(pair, method="draft").token_ids
    by_file = specviz.load("embedded", "cpu", "float32", heads=stand_in / "other2" / "medusa.safetensors")
    assert by_file.target.info == plain.target.info and only(by_file.medusa) == 92


def test_a_pair_with_an_adapter_keeps_it_unless_the_heads_have_one(stand_in: Path, monkeypatch: pytest.MonkeyPatch):
    pair = specviz.load("embedded-medusa2", "cpu", "float32")
    kept, other = (specviz.load("embedded-medusa2", "cpu", "float32", heads=stand_in / name) for name in ("shipped", "other2"))
    assert pair.target.info.name == "SmolLM2-135M-Instruct + Medusa-2"
    assert kept.target.info == pair.target.info and [only(one.medusa) for one in (pair, kept, other)] == [91, 90, 92]
    monkeypatch.chdir(stand_in)
    again = loading.load("embedded-medusa2", "cpu", "float32", parts=trained_in(Path("medusa2")))
    assert again.target.info.name == pair.target.info.name, "a card would name another model"
    assert other.target.info.name == "SmolLM2-135M-Instruct + other2"
    assert other.target.info.sha256 == adapters.merged_hash("1" * 64, stand_in / "other2")


def test_heads_that_are_none_or_of_another_width_are_refused(stand_in: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        with pytest.raises(Fault, match=f"no checkpoint at .*{name}; give a file, or a folder that holds one of these: medusa"):
            specviz.load("no pair is looked for", heads=tmp_path / name)
    save_file({"0.0.linear.weight": torch.zeros(16, 16), "0.0.linear.bias": torch.zeros(16)}, tmp_path / "narrow.safetensors")
    with pytest.raises(Fault, match="narrow.safetensors has shape 16×16, and this target needs 32×32"):
        specviz.load("embedded", "cpu", "float32", heads=tmp_path / "narrow.safetensors")


def test_a_hub_pair_keeps_its_draft_and_does_not_fetch_the_heads_that_are_replaced(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target, draft = write_pair(tmp_path, target_rows=104)
    heads = {"0.0.linear.weight": torch.randn(32, 32), "0.0.linear.bias": torch.randn(32), "0.1.weight": torch.randn(104, 32)}
    torch.save(heads, tmp_path / "medusa_lm_head.pt")  # made for all rows of the target's LM head, its padding included
    entry = replace(catalog._ALL[-1], draft=catalog.Part("owner/draft", 1, "MIT"))
    folders = {entry.target.repo: target, entry.draft.repo: draft}
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    monkeypatch.setattr(hub, "fetch", lambda part: folders[part.repo])
    monkeypatch.setattr(loading, "free_memory", lambda where: 10**12)
    with pytest.raises(KeyError):
        specviz.load("vicuna-7b", "cpu", "float32")  # its own heads are asked for
    pair = specviz.load("vicuna-7b", "cpu", "float32", heads=tmp_path)
    assert pair.draft.vocab_size == pair.medusa.vocab_size == 100 and pair.medusa.count == 1
    assert pair.medusa.lm_heads[0].shape == (100, 32)


def test_heads_of_the_train_tab_are_replaced_too(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own, "folder", lambda: tmp_path / "training")
    name = "embedded+20261130-000001"
    trained(tmp_path / "training" / name)
    given = specviz.load(name, "cpu", "float32", heads=stand_in / "shipped")
    assert only(given.medusa) == 90 and specviz.load(name, "cpu", "float32").medusa.accuracies == ((0.5, 0.1), (0.2, 0.1))


def test_what_is_loaded_instead_is_the_pair_from_then_on(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """For the page, which names neither device nor dtype; heads of the Train tab were trained on the true pair, and stay with it."""
    monkeypatch.setattr(own, "folder", lambda: tmp_path / "training")
    trained(tmp_path / "training" / "embedded+20261130-000001")
    with pytest.raises(KeyError):
        loading.load_instead("unknown", heads_at(stand_in / "other2"))
    pair = loading.load_instead("embedded", heads_at(stand_in / "other2"))
    assert loading.load("embedded") is pair and only(pair.medusa) == 92
    true = loading.load("embedded", "cpu", "float32")
    assert only(true.medusa) == 90 and true.target.info.sha256 == "1" * 64
    assert loading.load("embedded+20261130-000001").target.info == true.target.info


def test_the_parts_in_a_folder_are_found_whatever_the_heads_are_called(models: Path, tmp_path: Path):
    assert trained_in(None) == trained_in(tmp_path) == (None, None, None)
    assert trained_in(models / "shipped") == (models / "shipped", models / "shipped", None)
    assert trained_in(models / "other2") == (None, models / "other2", models / "other2")
    for name in LAYOUTS:
        folder = write_heads(tmp_path / name, name, models / "target")
        assert trained_in(folder) == (None, folder, None)
