"""A tree pass says what each of its paths would say alone, on a real attention; fp32, within rounding."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from specviz.engine.hf import HFModel
from specviz.engine.tree import TokenTree
from specviz.trace import ModelInfo

VOCAB = 97
COMMON = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
PROMPT = [5, 17, 3, 60, 44, 8, 9]


def _model(family: str) -> HFModel:
    torch.manual_seed(0)
    if family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128))
    elif family == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**COMMON, num_key_value_heads=2))
    else:
        model = LlamaForCausalLM(LlamaConfig(**COMMON, num_key_value_heads=2))
    return HFModel(model, ModelInfo(name=family, sha256="0", parameters=0))


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def model(request: pytest.FixtureRequest) -> HFModel:
    return _model(request.param)


def tree_logits(model: HFModel, tree: TokenTree) -> torch.Tensor:
    cache = model.new_cache()
    model.prefill(cache, torch.tensor(PROMPT))
    return model.forward(cache, torch.tensor(tree.tokens), cache.length + torch.tensor(tree.depths), tree.mask()).logits


def path_logits(model: HFModel, tree: TokenTree, node: int) -> torch.Tensor:
    """From scratch, without cache, mask or tree."""
    ids = torch.tensor([[*PROMPT, tree.tokens[0], *tree.text(node)]])
    with torch.inference_mode():
        return model.model(ids).logits[0, -1]


parents = st.lists(st.integers(0, 10**6), min_size=0, max_size=20).map(lambda raw: (-1, *(value % (i + 1) for i, value in enumerate(raw))))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(parents=parents, seed=st.integers(0, 1000))
def test_tree_equals_path_by_path(model: HFModel, parents: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    tree = TokenTree(tuple(rng.randrange(VOCAB) for _ in parents), parents)
    logits = tree_logits(model, tree)
    for node in range(len(tree)):
        torch.testing.assert_close(logits[node], path_logits(model, tree, node), atol=1e-4, rtol=0)


def test_the_order_of_siblings_is_irrelevant(model: HFModel) -> None:
    tree = TokenTree((1, 10, 20, 30, 11, 12, 21), (-1, 0, 0, 0, 1, 1, 2))
    turned = TokenTree((1, 30, 20, 10, 21, 12, 11), (-1, 0, 0, 0, 2, 3, 3))
    same = [0, 3, 2, 1, 6, 5, 4]
    torch.testing.assert_close(tree_logits(model, tree), tree_logits(model, turned)[same], atol=1e-5, rtol=0)


def test_another_branch_changes_nothing(model: HFModel) -> None:
    tree = TokenTree((1, 10, 20, 11), (-1, 0, 0, 1))
    other = TokenTree((1, 10, 77, 11), (-1, 0, 0, 1))
    torch.testing.assert_close(tree_logits(model, tree)[[0, 1, 3]], tree_logits(model, other)[[0, 1, 3]], atol=0, rtol=0)


def test_keeping_a_path_equals_never_having_branched(model: HFModel) -> None:
    tree = TokenTree((1, 10, 20, 21, 11, 22), (-1, 0, 0, 2, 1, 3))
    cache = model.new_cache()
    model.prefill(cache, torch.tensor(PROMPT))
    start = cache.length
    model.forward(cache, torch.tensor(tree.tokens), start + torch.tensor(tree.depths), tree.mask())
    cache.keep(start, (0, 2, 3, 5))
    assert cache.length == start + 4
    after = model.forward(cache, torch.tensor([50]), torch.tensor([cache.length]), torch.ones(1, 1, dtype=torch.bool)).logits[0]
    with torch.inference_mode():
        scratch = model.model(torch.tensor([[*PROMPT, 1, 20, 21, 22, 50]])).logits[0, -1]
    torch.testing.assert_close(after, scratch, atol=1e-4, rtol=0)


@torch.inference_mode()
def test_hidden_is_what_the_head_reads(model: HFModel) -> None:
    head = model.model.get_output_embeddings()
    cache = model.new_cache()
    last = model.prefill(cache, torch.tensor(PROMPT))
    torch.testing.assert_close(head(last), model.model(torch.tensor([PROMPT])).logits[0, -1], atol=1e-4, rtol=0)
    output = model.forward(cache, torch.tensor([3]), torch.tensor([len(PROMPT)]), torch.ones(1, 1, dtype=torch.bool))
    torch.testing.assert_close(head(output.hidden), output.logits, atol=1e-4, rtol=0)
