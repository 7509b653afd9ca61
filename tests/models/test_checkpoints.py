import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.i18n import Fault
from specviz.models.checkpoints import load_draft, load_medusa, pruned

WIDTH, VOCABULARY = 16, 40


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
        head_dim=8, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def blocks(names: str, biases: str | None, count: int = 2, layers: int = 1) -> dict[str, Tensor]:
    """Random residual blocks; {i} is the head, {j} the layer."""
    generator, found = torch.Generator().manual_seed(1), {}
    for i in range(count):
        for j in range(layers):
            found[names.format(i=i, j=j)] = 0.3 * torch.randn(WIDTH, WIDTH, generator=generator)
            if biases:
                found[biases.format(i=i, j=j)] = 0.3 * torch.randn(WIDTH, generator=generator)
    return found


def lm_head(seed: int, rows: int = VOCABULARY) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def v2(**more: Tensor) -> dict[str, Tensor]:
    return blocks("{i}.{j}.linear.weight", "{i}.{j}.linear.bias") | more


def v1(layers: int = 1) -> dict[str, Tensor]:
    heads = {f"{i}.{layers}.weight": lm_head(i) for i in range(2)}
    return blocks("{i}.{j}.linear.weight", "{i}.{j}.linear.bias", layers=layers) | heads


def vllm(layers: int = 1, bias: bool = False, **more: Tensor) -> dict[str, Tensor]:
    return blocks("blocks.{i}.layers.{j}.weight", "blocks.{i}.layers.{j}.bias" if bias else None, layers=layers) | more


def by_hand(tensors: dict[str, Tensor], names: list[list[tuple[str, str | None]]], heads: list[Tensor], hidden: Tensor) -> Tensor:
    """W₂(h + SiLU(W₁h + b)) head by head, from the formula."""
    rows = []
    for layers, head in zip(names, heads, strict=True):
        state = hidden
        for weight, bias in layers:
            inner = tensors[weight] @ state + (tensors[bias] if bias else 0)
            state = state + inner * torch.sigmoid(inner)
        rows.append(head @ state)
    return torch.stack(rows)


def linear(i: int, layers: int = 1) -> list[tuple[str, str | None]]:
    return [(f"{i}.{j}.linear.weight", f"{i}.{j}.linear.bias") for j in range(layers)]


def block(i: int, layers: int = 1, bias: bool = False) -> list[tuple[str, str | None]]:
    return [(f"blocks.{i}.layers.{j}.weight", f"blocks.{i}.layers.{j}.bias" if bias else None) for j in range(layers)]


ONE, TWO = lm_head(0), lm_head(1)
# name → (tensors, the residual blocks of each head, the LM head of each; None: the target's)
FORMATS: dict[str, tuple[dict[str, Tensor], list, list]] = {
    "v1": (v1(), [linear(0), linear(1)], [ONE, TWO]),
    "v1 with two layers": (v1(layers=2), [linear(0, 2), linear(1, 2)], [ONE, TWO]),
    "v2": (v2(), [linear(0), linear(1)], [None, None]),
    "v2 with two layers": (blocks("{i}.{j}.linear.weight", "{i}.{j}.linear.bias", layers=2), [linear(0, 2), linear(1, 2)], [None, None]),
    "vLLM": (vllm(**{"lm_heads.0.weight": ONE, "lm_heads.1.weight": TWO}), [block(0), block(1)], [ONE, TWO]),
    "vLLM with one LM head": (vllm(**{"lm_head.weight": TWO}), [block(0), block(1)], [TWO, TWO]),
    "vLLM, two layers, biases": (vllm(2, True, **{"lm_head.weight": ONE}), [block(0, 2, True), block(1, 2, True)], [ONE, ONE]),
}


@pytest.mark.parametrize("prefix", ["", "medusa_heads."])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_computes_the_formula(target, tmp_path: Path, name: str, prefix: str):
    tensors, names, heads = FORMATS[name]
    save_file({prefix + key: tensor for key, tensor in tensors.items()}, tmp_path / "model.safetensors")
    loaded, hidden = load_medusa(tmp_path, target), torch.randn(WIDTH)
    expected = by_hand(tensors, names, [target.lm_head.weight if head is None else head for head in heads], hidden)
    assert loaded.count == 2 and loaded.accuracies is None
    torch.testing.assert_close(loaded.logits(hidden), expected)
    torch.testing.assert_close(loaded.logits(torch.stack([hidden, 2 * hidden]))[:, 0], expected)


@pytest.mark.parametrize("own_head", [True, False])
def test_a_token_map_leaves_the_others_at_minus_infinity(target, tmp_path: Path, own_head: bool):
    ids = torch.tensor([3, 7, 39, 11])
    small = lm_head(5, rows=4) if own_head else target.lm_head.weight[ids]
    save_file(vllm(token_map=ids, **({"lm_head.weight": small} if own_head else {})), tmp_path / "medusa.safetensors")
    loaded, hidden = load_medusa(tmp_path / "medusa.safetensors", target), torch.randn(WIDTH)
    logits = loaded.logits(hidden)
    assert logits.shape == (2, VOCABULARY) and set(logits[0].isfinite().nonzero()[:, 0].tolist()) == set(ids.tolist())
    torch.testing.assert_close(logits[:, ids], by_hand(vllm(), [block(0), block(1)], [small, small], hidden))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.uint16])
def test_a_token_map_may_hold_whole_numbers_of_any_size(target, tmp_path: Path, dtype: torch.dtype):
    save_file(v2(token_map=torch.tensor([3, 39]).to(dtype)), tmp_path / "medusa.safetensors")
    assert load_medusa(tmp_path, target).token_map.tolist() == [3, 39]


def test_numbers_that_the_targets_dtype_cannot_hold_are_not_the_files_fault(target, tmp_path: Path):
    save_file(v2() | {"0.0.linear.bias": torch.full((16,), 1e5)}, tmp_path / "medusa.safetensors")
    assert load_medusa(tmp_path, copy.deepcopy(target).half()).blocks[0][0][1].isinf().all()


def test_heads_are_called_as_their_card_says_or_by_folder_and_file(target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine").mkdir()
    save_file(v2(), tmp_path / "mine" / "medusa.safetensors")
    assert load_medusa(tmp_path / "mine", target).info.name == "mine/medusa"
    monkeypatch.chdir(tmp_path / "mine")
    assert load_medusa(Path("medusa.safetensors"), target).info.name == "mine/medusa"
    (tmp_path / "mine" / "medusa.json").write_text('{"name": "my heads"}')
    assert load_medusa(Path(), target).info.name == "my heads"


def test_heads_take_the_targets_dtype_and_carry_their_accuracies(target, tmp_path: Path):
    save_file({name: tensor.half() for name, tensor in v2().items()}, tmp_path / "medusa.safetensors")
    (tmp_path / "medusa.json").write_text(json.dumps({"accuracies": [[0.5, 0.25], [0.3, 0.1]], "medusa_num_heads": 9}))
    loaded = load_medusa(tmp_path, target)
    assert loaded.logits(torch.randn(WIDTH)).dtype == torch.float32
    assert loaded.accuracies == ((0.5, 0.25), (0.3, 0.1)) and loaded.count == 2  # the tensors decide, not the number in the JSON file


@pytest.mark.parametrize("accuracies", [[], "x", [[]], [[0.5], [0.5], [0.5]], [["a"]], [[1.5]], [[-0.1]], [0.5]], ids=str)
def test_accuracies_that_are_none_are_refused(target, tmp_path: Path, accuracies: object):
    save_file(v2(), tmp_path / "medusa.safetensors")
    (tmp_path / "medusa.json").write_text(json.dumps({"accuracies": accuracies}))
    _refused(lambda: load_medusa(tmp_path, target), "accuracies in medusa.json")


def test_the_padding_of_an_lm_head_is_cut_off_with_the_targets(target, tmp_path: Path):
    """A target of 48 rows, 8 of them padding: heads made for it have as many."""
    padded = {**v2(), "0.1.weight": lm_head(0, 48), "1.1.weight": lm_head(1, 48)}
    save_file(padded, tmp_path / "medusa.safetensors")
    loaded, hidden = load_medusa(tmp_path, target, padded=48), torch.randn(WIDTH)
    torch.testing.assert_close(
        loaded.logits(hidden), by_hand(padded, [linear(0), linear(1)], [lm_head(0, 48), lm_head(1, 48)], hidden)[:, :40]
    )
    _refused(lambda: load_medusa(tmp_path, target), "0.1.weight of .*48×16.*40×16")
    _refused(lambda: load_medusa(tmp_path, target, padded=44), "0.1.weight of .*48×16.*40×16")


def test_costs_count_each_weight_once(target, tmp_path: Path):
    save_file(v2(), tmp_path / "medusa.safetensors")
    shared = load_medusa(tmp_path, target)
    assert shared.flops() == 2 * 2 * (WIDTH * WIDTH + VOCABULARY * WIDTH)
    assert shared.bytes() == 4 * (2 * (WIDTH * WIDTH + WIDTH) + VOCABULARY * WIDTH + 2 * VOCABULARY)
    assert shared.info.parameters == 2 * (WIDTH * WIDTH + WIDTH)
    save_file(v1(), tmp_path / "medusa.safetensors")
    own = load_medusa(tmp_path, target)
    assert own.flops() == shared.flops() and own.bytes() == shared.bytes() + 4 * VOCABULARY * WIDTH
    assert own.info.parameters == shared.info.parameters + 2 * VOCABULARY * WIDTH


def without(tensors: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name != key}


MISFITS: dict[str, tuple[dict[str, Tensor], str]] = {
    "another width": ({name: torch.zeros([24 if side == 16 else side for side in t.shape]) for name, t in v2().items()}, "24×24.*16×16"),
    "another vocabulary": (v1() | {"0.1.weight": lm_head(0, 41), "1.1.weight": lm_head(1, 41)}, "41×16.*40×16"),
    "a head of another vocabulary": (v1() | {"1.1.weight": lm_head(1, 41)}, "41×16.*40×16"),
    "no bias": (without(v2(), "1.0.linear.bias"), "lacks the tensor 1.0.linear.bias"),
    "no weight": (without(v2(), "0.0.linear.weight"), "lacks the tensor 0.0.linear.weight"),
    "no second LM head": (without(v1(), "1.1.weight"), "lacks the tensor 1.1.weight"),
    "an LM head too many": (v1() | {"2.1.weight": ONE}, "tensor 2.1.weight"),
    "an LM head behind a block that is not there": (v2() | {"0.2.weight": ONE, "1.2.weight": ONE}, "tensor 0.2.weight"),
    "a head with a block too few": (v1(layers=2) | {"2.0.linear.weight": ONE[:16], "2.0.linear.bias": ONE[0]}, "lacks.*2.1.linear.weight"),
    "two layouts at once": (vllm() | v2(), "tensor 0.0.linear"),
    "one head twice": (v2() | {f"medusa_head.{name}": tensor for name, tensor in v2().items()}, "tensor medusa_head.0.0.linear"),
    "only one of vLLM's biases": (vllm(**{"blocks.0.layers.0.bias": ONE[0]}), "lacks the tensor blocks.1.layers.0.bias"),
    "vLLM without its second LM head": (vllm(**{"lm_heads.0.weight": ONE}), "lacks the tensor lm_heads.1.weight"),
    "an LM head as large as the vocabulary beside a token map": (
        vllm(token_map=torch.tensor([1, 3]), **{"lm_head.weight": ONE}),
        "lm_head.weight of .*40×16.*2×16",
    ),
    "whole numbers": (v2() | {"0.0.linear.weight": torch.zeros(16, 16, dtype=torch.int64)}, "0.0.linear.weight of .* int64"),
    "a token map of fractions": (v2(token_map=torch.tensor([1.0, 2.0])), "different ids"),
    "a weight that is no number": (v2() | {"1.0.linear.bias": torch.full((16,), torch.nan)}, "1.0.linear.bias of .* not finite"),
    "one weight without an end": (v1() | {"0.1.weight": ONE.index_fill(0, torch.tensor(39), torch.inf)}, "0.1.weight of .* not finite"),
    "eight bits that are no number": (
        v2() | {"0.0.linear.weight": torch.full((16, 16), torch.nan).to(torch.float8_e4m3fn)},
        "0.0.linear.weight of .* not finite",
    ),
    "a foreign tensor": (v2(strange=ONE), "tensor strange"),
    "no heads": ({"lm_head.weight": ONE}, "no Medusa heads"),
    "a token map of complex numbers": (v2(token_map=torch.tensor([1j, 2j])), "different ids"),
    "a token map out of range": (v2(token_map=torch.tensor([1, VOCABULARY])), "below 40"),
    "a token map with a token twice": (v2(token_map=torch.tensor([1, 1])), "different ids"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_refused_in_one_sentence(target, tmp_path: Path, name: str):
    tensors, sentence = MISFITS[name]
    save_file({key: tensor.clone() for key, tensor in tensors.items()}, tmp_path / "medusa.safetensors")
    _refused(lambda: load_medusa(tmp_path, target), sentence)


def test_files_that_are_none_are_refused(target, tmp_path: Path):
    _refused(lambda: load_medusa(tmp_path, target), "no checkpoint at")
    _refused(lambda: load_draft(tmp_path, target), "no checkpoint at.*draft.safetensors")
    _refused(lambda: load_medusa(tmp_path / ("x" * 300), target), "no checkpoint at")
    (tmp_path / "medusa.safetensors").write_bytes(b"\x10")
    _refused(lambda: load_medusa(tmp_path, target), "cannot be read")
    (tmp_path / "heads.pt").write_bytes(b"not a pickle")
    _refused(lambda: load_medusa(tmp_path / "heads.pt", target), "cannot be read")


def write_draft(folder: Path, target: LlamaForCausalLM, layers: list[int], **changes: Tensor | None) -> None:
    """A draft of unchanged copies of the target's layers."""
    state = {"model.norm.weight": target.model.norm.weight.clone(), "token_map": torch.tensor([0, 5, 9])}
    for i, layer in enumerate(layers):
        state |= {f"model.layers.{i}.{name}": tensor.clone() for name, tensor in target.model.layers[layer].state_dict().items()}
    state = {name: tensor for name, tensor in (state | changes).items() if tensor is not None}
    save_file(state, folder / "draft.safetensors")
    (folder / "draft.json").write_text(json.dumps({"layers": layers}))


def test_a_draft_of_all_layers_is_the_target(target, tmp_path: Path):
    write_draft(tmp_path, target, [0, 1, 2])
    model, token_map = load_draft(tmp_path, target)
    tokens = torch.randint(0, VOCABULARY, (1, 12))
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=tokens).logits, target(input_ids=tokens).logits[..., [0, 5, 9]])
    assert token_map.tolist() == [0, 5, 9]


def test_a_draft_shares_the_embeddings_and_scores_its_tokens_as_the_target_does(target, tmp_path: Path):
    write_draft(tmp_path, target, [2])
    model, _ = load_draft(tmp_path, target)
    assert model.config.num_hidden_layers == 1 and target.config.num_hidden_layers == 3
    assert torch.equal(model.get_output_embeddings().weight, target.get_output_embeddings().weight[[0, 5, 9]])
    assert model.get_input_embeddings().weight is target.get_input_embeddings().weight
    assert not any(parameter.is_meta or parameter.requires_grad for parameter in model.parameters())
    state = target.model.layers[2].state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.model.layers[0].state_dict().items())


def test_a_pruned_model_has_no_memory_of_its_own_yet(target):
    assert {p.device.type for p in pruned(target, (0, 2)).model.layers.parameters()} == {"meta"}


DRAFT_MISFITS: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "another width": ({"model.norm.weight": torch.zeros(24)}, "24, and this target needs 16"),
    "a tensor missing": ({"model.layers.1.mlp.up_proj.weight": None}, "lacks the tensor model.layers.1.mlp.up_proj.weight"),
    "no token map": ({"token_map": None}, "lacks the tensor token_map"),
    "a tensor too many": ({"model.layers.2.mlp.up_proj.weight": torch.zeros(2)}, "tensor model.layers.2.mlp.up_proj.weight"),
    "a weight that is no number": ({"model.norm.weight": torch.full((16,), torch.nan)}, "model.norm.weight of .* not finite"),
    "a token that the target lacks": ({"token_map": torch.tensor([VOCABULARY])}, "below 40"),
}


@pytest.mark.parametrize("name", DRAFT_MISFITS)
def test_drafts_that_do_not_fit_are_refused_in_one_sentence(target, tmp_path: Path, name: str):
    changes, sentence = DRAFT_MISFITS[name]
    write_draft(tmp_path, target, [0, 2], **changes)
    _refused(lambda: load_draft(tmp_path, target), sentence)


def test_the_layers_of_a_draft_must_exist(target, tmp_path: Path):
    write_draft(tmp_path, target, [0, 2])
    for text, sentence in (('{"layers": [0, 3]}', "layers 0, 3.*3 layers"), ("[]", "not valid JSON"), ("{", "not valid JSON")):
        (tmp_path / "draft.json").write_text(text)
        _refused(lambda: load_draft(tmp_path, target), sentence)


def _refused(load: Callable[[], object], sentence: str) -> None:
    with pytest.raises(Fault, match=sentence) as caught:
        load()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and "{" not in text
