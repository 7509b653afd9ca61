"""FLOPs against torch's own counter, bytes against the stated formula by hand."""

from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.engine.costs import ModelShape
from specviz.engine.hf import HFModel
from specviz.engine.tree import TokenTree, full_shape, parents_of
from specviz.trace import ModelInfo

SMOLLM = ModelShape(layers=30, width=576, heads=9, kv_heads=3, head_dim=64, ffn=1536, head_rows=49152, bytes_per_value=2)
LLAMA_8B = ModelShape(layers=32, width=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, head_rows=128256, bytes_per_value=2)

CHAIN = TokenTree((5, 6, 7, 8, 9), (-1, 0, 1, 2, 3))
TREE = TokenTree(tuple(range(3, 20)), parents_of(full_shape((4, 2, 1)))[:17])
PLAIN = TokenTree((5,), (-1,))


@pytest.fixture(scope="module")
def tiny() -> HFModel:
    """A random Llama with grouped queries, wide enough that its linear maps outweigh what the formula leaves out."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=512, attn_implementation="sdpa",
    )  # fmt: skip
    return HFModel(LlamaForCausalLM(config), ModelInfo(name="tiny", sha256="0" * 64, parameters=0))


def counted(run) -> int:
    """FLOPs by torch's counter. It does not know the fused attention of the CPU, so attention runs as its two products."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def forward_flops(model: HFModel, tree: TokenTree, context: int) -> int:
    cache = model.new_cache()
    if context:
        model.prefill(cache, torch.arange(context) % 50)
    positions = cache.length + torch.tensor(tree.depths)
    return counted(lambda: model.forward(cache, torch.tensor(tree.tokens), positions, tree.mask()))


@pytest.mark.parametrize("context", [0, 7, 200])
@pytest.mark.parametrize("tree", [PLAIN, CHAIN, TREE], ids=["plain", "chain", "tree"])
def test_flops_of_a_pass(tiny: HFModel, tree: TokenTree, context: int):
    assert tiny.shape.flops(len(tree), context) == pytest.approx(forward_flops(tiny, tree, context), rel=0.01)


def test_flops_of_a_prefill_which_scores_nothing(tiny: HFModel):
    measured = counted(lambda: tiny.prefill(tiny.new_cache(), torch.arange(60)))
    assert tiny.shape.flops(60, 0, scored=0) == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("tree", [PLAIN, CHAIN, TREE], ids=["plain", "chain", "tree"])
def test_flops_of_the_embedded_model(reference_pair, tree: TokenTree):
    for model in filter(None, (reference_pair.target, reference_pair.draft)):
        assert model.shape.flops(len(tree), 40) == pytest.approx(forward_flops(model, tree, 40), rel=0.01)


def test_weights_of_the_layers_by_hand():
    # SmolLM2-135M: q and o 576·576 each, k and v 576·192 each, gate, up and down 576·1536 each, 30 layers
    assert SMOLLM.layer_weights == 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536) == 106_168_320


def test_keys_and_values_by_hand():
    assert SMOLLM.kv_bytes_per_token == 2 * 30 * 3 * 64 * 2 == 23_040
    assert LLAMA_8B.kv_bytes_per_token == 131_072
    assert replace(SMOLLM, kv_heads=9).kv_bytes_per_token == 3 * 23_040  # grouped queries save bytes …
    saved = SMOLLM.flops(1, 1000) - SMOLLM.flops(1, 0)
    whole = replace(SMOLLM, kv_heads=9)
    assert whole.flops(1, 1000) - whole.flops(1, 0) == saved == 4 * 1000 * 9 * 64 * 30  # … not the attention's arithmetic


def test_bytes_of_a_plain_pass_by_hand():
    weights = (106_168_320 + 49_152 * 576) * 2
    embedding_and_logits = (576 + 49_152) * 2
    assert SMOLLM.bytes(1, 100) == weights + embedding_and_logits + 101 * 23_040


def test_weights_are_read_once_however_many_tokens():
    assert SMOLLM.bytes(64, 100) - SMOLLM.bytes(1, 100) == 63 * (23_040 + (576 + 49_152) * 2)


def test_a_prefill_reads_no_lm_head():
    assert SMOLLM.bytes(10, 0) - SMOLLM.bytes(10, 0, scored=0) == (49_152 * 576 + 10 * 49_152) * 2


def test_a_draft_that_scores_fewer_tokens_reads_fewer_rows():
    short = replace(SMOLLM, head_rows=8_000)
    assert SMOLLM.bytes(1, 0) - short.bytes(1, 0) == 41_152 * (576 + 1) * 2
    assert SMOLLM.flops(1, 0) - short.flops(1, 0) == 2 * 41_152 * 576


def test_a_plain_pass_reads_about_two_bytes_for_each_two_flops():
    """In bf16 a token costs 2 FLOPs and 2 bytes a weight: intensity 1, far left of every ridge."""
    assert SMOLLM.flops(1, 0) / SMOLLM.bytes(1, 0) == pytest.approx(1, abs=0.01)
    assert 16 < SMOLLM.flops(17, 0) / SMOLLM.bytes(17, 0) < 17
