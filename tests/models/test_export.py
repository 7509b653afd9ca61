"""Heads written in the formats of other programs, and read back."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner, Result

from specviz.cli import app
from specviz.i18n import Fault
from specviz.models import load as loading
from specviz.models.checkpoints import load_medusa, read_medusa
from specviz.models.export import FORMATS, Export
from tests.models.test_checkpoints import FORMATS as KEPT
from tests.models.test_checkpoints import _refused as refused
from tests.models.test_checkpoints import lm_head, v1, v2, vllm
from tests.models.test_checkpoints import target as target  # a fixture
from tests.models.tiny import write_llama, write_tokenizer

MAP = torch.tensor([3, 7, 39, 11])
SMALL = lm_head(5, rows=4)
KNOWN = {name: tensors for name, (tensors, _, _) in KEPT.items()} | {
    "a token map": v2(token_map=MAP),
    "a token map and LM heads": {**v2(token_map=MAP), "0.1.weight": SMALL, "1.1.weight": SMALL * 2},
    "a token map and one LM head": vllm(token_map=MAP, **{"lm_head.weight": SMALL}),
}
MAPPED = {name for name in KNOWN if "token map" in name}
DEEP = {name for name in KNOWN if "two layers" in name}
OWN = {name for name, tensors in KNOWN.items() if any("lm_head" in key or key.endswith((".1.weight", ".2.weight")) for key in tensors)}
REFUSED = {(name, "v2") for name in OWN | MAPPED | DEEP} | {(name, "v1") for name in MAPPED}


def write(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "medusa.safetensors")
    (folder / "medusa.json").write_text(json.dumps({"name": "mine", "accuracies": [[0.5, 0.2], [0.4, 0.1]], "recipe": 3}))
    return folder


def export(target, source: Path, form: str, out: Path, every: bool = False) -> list[Path]:
    return Export(read_medusa(source, target), target.lm_head.weight, "owner/base", every).write(form, out)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", KNOWN)
def test_heads_come_back_bit_for_bit_or_are_refused(target, tmp_path: Path, name: str, form: str):
    source, out = write(tmp_path / "in", KNOWN[name]), tmp_path / "out"
    if (name, form) in REFUSED:
        refused(lambda: export(target, source, form, out), "(score 4 of 40 tokens|LM heads of their own|these have 2)")
        assert not out.exists()
        return
    files = export(target, source, form, out)
    before, hidden = load_medusa(source, target), torch.randn(7, 16)
    assert {path.name for path in out.iterdir()} == {path.name for path in files}
    for path in [out, *(path for path in files if path.suffix != ".json")]:
        after = load_medusa(path, target)
        assert torch.equal(after.logits(hidden), before.logits(hidden))
        assert (after.count, after.accuracies, after.info.name) == (2, before.accuracies, "mine")


def test_every_head_can_be_written_somewhere():
    assert all((name, "vllm") not in REFUSED for name in KNOWN)
    assert {name for name in KNOWN if (name, "v1") not in REFUSED} >= {"v1", "v2", "vLLM"}


def test_what_other_programs_read_of_the_configuration(target, tmp_path: Path):
    configs = {}
    for form in FORMATS:
        export(target, write(tmp_path / "in", KNOWN["v2"]), form, tmp_path / form)
        configs[form] = json.loads((tmp_path / form / "config.json").read_text())
    numbers = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "owner/base", "hidden_size": 16, "vocab_size": 40}
    assert configs["v1"] == numbers
    assert configs["v2"] == numbers | {"version": "2"}
    assert configs["vllm"] == {
        "model_type": "medusa", "architectures": ["MedusaModel"], "num_heads": 2, "num_hidden_layers": 1, "hidden_size": 16,
        "vocab_size": 40, "truncated_vocab_size": 40, "medusa_fc_bias": True, "original_lm_head": True,
    }  # fmt: skip
    counts = [key for key in configs["vllm"] if "num" in key and ("heads" in key or "layers" in key)]
    assert counts == ["num_heads", "num_hidden_layers"], "vLLM renames every such key, so another would overwrite them"


def test_the_names_that_other_programs_ask_for(target, tmp_path: Path):
    for name, form, keys in (
        ("v1 with two layers", "v1", {"0.0.linear.weight", "0.1.linear.bias", "1.2.weight"}),
        ("v2", "v2", {"0.0.linear.weight", "0.0.linear.bias", "1.0.linear.weight", "1.0.linear.bias"}),
        ("v1", "vllm", {"blocks.0.layers.0.weight", "blocks.1.layers.0.bias", "lm_heads.1.weight"}),
        ("a token map", "vllm", {"blocks.0.layers.0.weight", "lm_head.weight", "token_map"}),
    ):
        files = export(target, write(tmp_path / "in", KNOWN[name]), form, tmp_path / name / form)
        assert keys <= set(load_file(files[0])), (name, form)
    assert set(load_file(files[0])["token_map"].tolist()) == set(MAP.tolist()) and load_file(files[0])["lm_head.weight"].shape == (4, 16)
    config = json.loads((files[0].parent / "config.json").read_text())
    assert (config["truncated_vocab_size"], config["vocab_size"], config["medusa_fc_bias"]) == (4, 40, True)


def test_v1_is_a_pickle_that_the_medusa_repository_opens(target, tmp_path: Path):
    files = export(target, write(tmp_path / "in", v1()), "v1", tmp_path / "out")
    assert [path.name for path in files[:2]] == ["medusa_lm_head.safetensors", "medusa_lm_head.pt"]
    state = torch.load(tmp_path / "out" / "medusa_lm_head.pt", weights_only=True)
    assert all(torch.equal(tensor, v1()[name]) for name, tensor in state.items()) and state.keys() == v1().keys()


def test_no_pickle_is_written_where_the_medusa_repository_would_repeat_one_block(target, tmp_path: Path):
    out = tmp_path / "out"
    export(target, write(tmp_path / "in", v1(layers=2)), "v1", out)
    assert (out / "medusa_lm_head.safetensors").exists() and not (out / "medusa_lm_head.pt").exists()
    first = {name: tensor for name, tensor in v1(layers=2).items() if ".0.linear" in name}
    repeated = {name.replace(".0.linear", ".1.linear"): tensor for name, tensor in first.items()}
    export(target, write(tmp_path / "in", v1(layers=2) | repeated), "v1", out)
    state, hidden = torch.load(out / "medusa_lm_head.pt", weights_only=True), torch.randn(3, 16)
    block = torch.nn.Linear(16, 16)  # one object in two places, as there
    head = torch.nn.Sequential(Residual(block), Residual(block), torch.nn.Linear(16, 40, bias=False))
    head.load_state_dict({name.removeprefix("1."): tensor for name, tensor in state.items() if name.startswith("1.")})
    torch.testing.assert_close(head(hidden), load_medusa(out, target).logits(hidden)[1])


class Residual(torch.nn.Module):
    """x + SiLU(Wx + b)."""

    def __init__(self, linear: torch.nn.Linear):
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.nn.functional.silu(self.linear(x))


def test_heads_that_score_a_part_of_the_vocabulary_can_be_let_score_all_of_it(target, tmp_path: Path):
    source, hidden = write(tmp_path / "in", KNOWN["a token map"]), torch.randn(3, 16)
    small = load_medusa(source, target).logits(hidden)
    for form in FORMATS:
        export(target, source, form, tmp_path / form, every=True)
        loaded = load_medusa(tmp_path / form, target)
        logits = loaded.logits(hidden)
        assert logits.isfinite().all() and loaded.accuracies is None
        torch.testing.assert_close(logits[..., MAP], small[..., MAP])
    own = write(tmp_path / "own", KNOWN["a token map and LM heads"])
    refused(lambda: export(target, own, "v1", tmp_path / "no", every=True), "lack the weights")


def test_a_narrower_format_of_the_target_s_numbers_is_taken_where_it_loses_nothing(target, tmp_path: Path):
    source = write(tmp_path / "in", {name: tensor.bfloat16() for name, tensor in v2().items()})
    files = export(target, source, "vllm", tmp_path / "out")
    assert (
        load_file(files[0])["lm_head.weight"].dtype == torch.float32
        and load_file(files[0])["blocks.0.layers.0.weight"].dtype == torch.bfloat16
    )
    rounded = target.lm_head.weight.bfloat16().float()
    files = Export(read_medusa(source, target), rounded, "x").write("vllm", tmp_path / "out")
    assert load_file(files[0])["lm_head.weight"].dtype == torch.bfloat16


def test_where_nothing_can_be_written_it_says_so(target, tmp_path: Path):
    source = write(tmp_path / "in", v2())
    (tmp_path / "file").write_text("in the way")
    refused(lambda: export(target, source, "v2", tmp_path / "file"), "cannot be written")
    with pytest.raises(Fault, match="v1, v2, vllm"):
        export(target, source, "gguf", tmp_path / "out")


def test_the_command_line_writes_heads_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = tmp_path / "model"
    model.mkdir()
    write_tokenizer(model)
    write_llama(model)
    pair = loading.load_local(model, device="cpu", dtype="float32")
    monkeypatch.setattr(loading, "load", lambda name, device, dtype, progress, engine, parts: pair)
    (tmp_path / "in").mkdir()
    heads = {"0.0.linear.weight": torch.randn(32, 32), "0.0.linear.bias": torch.randn(32)}
    save_file({**heads, "token_map": MAP}, tmp_path / "in" / "medusa.safetensors")

    def run(form: str, *more: str) -> Result:
        options = ["--format", form, "--heads", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *more]
        return CliRunner().invoke(app, ["train", "export", *options])

    refused_run, unknown = run("v2"), run("gguf")
    assert refused_run.exit_code == unknown.exit_code == 2 and not (tmp_path / "out").exists()
    assert "4 of 100 tokens" in refused_run.output and "v1, v2, vllm" in unknown.output
    deep = {name.replace(".0.", ".1."): tensor + 1 for name, tensor in heads.items()}
    save_file({**heads, **deep}, tmp_path / "in" / "medusa.safetensors")
    deeper = run("v1")
    assert deeper.exit_code == 0 and "2 different ones" in deeper.output and "medusa_lm_head.pt was not written" in deeper.output
    save_file({**heads, "token_map": MAP}, tmp_path / "in" / "medusa.safetensors")
    done = run("v2", "--whole-vocabulary")
    assert done.exit_code == 0 and "medusa_lm_head.safetensors" in done.output, done.output
    written = load_file(tmp_path / "out" / "medusa_lm_head.safetensors")
    assert all(torch.equal(written[name], tensor) for name, tensor in heads.items()) and written.keys() == heads.keys()
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct" and config["medusa_num_heads"] == 1
