"""A tree pass says what each of its paths would say alone, on a real attention and on both engines; fp32, within rounding."""

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from specviz.engine.fast import FastModel, suits
from specviz.engine.graphs import TOKENS, WINDOW, Body
from specviz.engine.hf import HFModel
from specviz.engine.lm import LanguageModel, Output
from specviz.engine.tree import TokenTree
from specviz.trace import ModelInfo

VOCAB = 97
COMMON = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.2, "max_position_embeddings": 1024,
}  # fmt: skip
PROMPT = [5, 17, 3, 60, 44, 8, 9]
FAMILIES = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128)),
    "llama": (LlamaForCausalLM, LlamaConfig(**COMMON)),
    "mistral": (MistralForCausalLM, MistralConfig(**COMMON, head_dim=16, sliding_window=None)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**COMMON)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**COMMON, head_dim=16)),
}


class Subject(NamedTuple):
    """A model on one of our engines, and the transformers model that it must agree with."""

    model: LanguageModel
    reference: PreTrainedModel

    def from_scratch(self, ids: list[int]) -> torch.Tensor:
        """Logits of every position, without cache, mask or tree."""
        with torch.inference_mode():
            return self.reference(torch.tensor([ids])).logits[0]


def subject(engine: str, family: str) -> Subject:
    torch.manual_seed(0)
    kind, config = FAMILIES[family]
    reference = kind(config).eval()
    with torch.no_grad():  # a norm of ones or a bias of zeros could be forgotten without anybody seeing it
        for name, parameter in reference.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn(parameter.shape) * 0.2)
    made = {"hf": HFModel, "fast": FastModel, "replayed": partial(FastModel, record=repeated)}[engine]
    return Subject(made(copy.deepcopy(reference), ModelInfo(name=family, sha256="0", parameters=0)), reference)


def repeated(body: Body) -> tuple[Callable[[], object], Output]:
    """Records as a GPU does, but for a CPU: a replay reads the same inputs, and fills the same outputs, as the first run."""
    output = body()

    def replay() -> None:
        again = body()
        output.logits.copy_(again.logits)
        output.hidden.copy_(again.hidden)

    return replay, output


SERVED = ("llama", "mistral", "qwen2", "qwen3")
ENGINES = [("hf", "gpt2"), ("hf", "llama"), ("hf", "qwen2"), *((engine, family) for engine in ("fast", "replayed") for family in SERVED)]


@pytest.fixture(scope="module", params=ENGINES, ids=" ".join)
def model(request: pytest.FixtureRequest) -> Subject:
    return subject(*request.param)


def tree_logits(model: LanguageModel, tree: TokenTree) -> torch.Tensor:
    cache = model.new_cache()
    model.prefill(cache, torch.tensor(PROMPT))
    return model.forward(cache, torch.tensor(tree.tokens), cache.length + torch.tensor(tree.depths), tree.mask()).logits


parents = st.lists(st.integers(0, 10**6), min_size=0, max_size=20).map(lambda raw: (-1, *(value % (i + 1) for i, value in enumerate(raw))))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(parents=parents, seed=st.integers(0, 1000))
def test_tree_equals_path_by_path(model: Subject, parents: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    tree = TokenTree(tuple(rng.randrange(VOCAB) for _ in parents), parents)
    logits = tree_logits(model.model, tree)
    for node in range(len(tree)):
        alone = model.from_scratch([*PROMPT, tree.tokens[0], *tree.text(node)])[-1]
        torch.testing.assert_close(logits[node], alone, atol=1e-4, rtol=0)


def test_the_order_of_siblings_is_irrelevant(model: Subject) -> None:
    tree = TokenTree((1, 10, 20, 30, 11, 12, 21), (-1, 0, 0, 0, 1, 1, 2))
    turned = TokenTree((1, 30, 20, 10, 21, 12, 11), (-1, 0, 0, 0, 2, 3, 3))
    same = [0, 3, 2, 1, 6, 5, 4]
    torch.testing.assert_close(tree_logits(model.model, tree), tree_logits(model.model, turned)[same], atol=1e-5, rtol=0)


def test_another_branch_changes_nothing(model: Subject) -> None:
    tree = TokenTree((1, 10, 20, 11), (-1, 0, 0, 1))
    other = TokenTree((1, 10, 77, 11), (-1, 0, 0, 1))
    torch.testing.assert_close(tree_logits(model.model, tree)[[0, 1, 3]], tree_logits(model.model, other)[[0, 1, 3]], atol=0, rtol=0)


def test_keeping_a_path_equals_never_having_branched(model: Subject) -> None:
    tree = TokenTree((1, 10, 20, 21, 11, 22), (-1, 0, 0, 2, 1, 3))
    cache = model.model.new_cache()
    model.model.prefill(cache, torch.tensor(PROMPT))
    start = cache.length
    model.model.forward(cache, torch.tensor(tree.tokens), start + torch.tensor(tree.depths), tree.mask())
    cache.keep(start, (0, 2, 3, 5))
    assert cache.length == start + 4
    after = model.model.forward(cache, torch.tensor([50]), torch.tensor([cache.length]), torch.ones(1, 1, dtype=torch.bool)).logits[0]
    torch.testing.assert_close(after, model.from_scratch([*PROMPT, 1, 20, 21, 22, 50])[-1], atol=1e-4, rtol=0)


@torch.inference_mode()
def test_hidden_is_what_the_head_reads(model: Subject) -> None:
    head = model.reference.get_output_embeddings()
    cache = model.model.new_cache()
    last = model.model.prefill(cache, torch.tensor(PROMPT))
    torch.testing.assert_close(head(last), model.from_scratch(PROMPT)[-1], atol=1e-4, rtol=0)
    output = model.model.forward(cache, torch.tensor([3]), torch.tensor([len(PROMPT)]), torch.ones(1, 1, dtype=torch.bool))
    torch.testing.assert_close(head(output.hidden), output.logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "gpt2"])
def test_the_fast_engine_says_the_same_in_a_long_text(family: str) -> None:
    """Past the first growth of its buffers, where attention takes its other form, for few rows and for many."""
    fast = subject("fast", family)
    text = torch.randint(0, VOCAB, (700,), generator=torch.Generator().manual_seed(1)).tolist()
    whole, cache = fast.from_scratch(text), fast.model.new_cache()
    fast.model.prefill(cache, torch.tensor(text[:300]))
    for start, stop in ((300, 301), (301, 309), (309, 310), (310, 510), (510, 700)):
        n = stop - start
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        logits = fast.model.forward(cache, torch.tensor(text[start:stop]), torch.arange(start, stop), causal).logits
        torch.testing.assert_close(logits, whole[start:stop], atol=1e-4, rtol=0)
    assert cache.length == 700 and cache.capacity == 768


def test_a_recorded_pass_serves_every_pass_of_its_bucket() -> None:
    """One recording for each bucket of tokens and each buffer; the next conversation takes the buffer over, and the recordings with it."""
    made: list[int] = []

    def record(body: Body) -> tuple[Callable[[], object], Output]:
        replay, output = repeated(body)
        made.append(len(output.logits))
        return replay, output

    plain = subject("fast", "llama")
    model = FastModel(copy.deepcopy(plain.reference), plain.model.info, record=record)
    text = torch.randint(0, VOCAB, (600,), generator=torch.Generator().manual_seed(2)).tolist()
    for _ in range(2):
        cache = model.new_cache()
        model.prefill(cache, torch.tensor(text[:200]))
        for start, stop in ((200, 201), (201, 204), (204, 208), (208, 211), (211, 256), (256, 320), (320, 321), (321, 600)):
            n = stop - start
            args = torch.tensor(text[start:stop]), torch.arange(start, stop), torch.ones(n, n, dtype=torch.bool).tril()
            torch.testing.assert_close(model.forward(cache, *args).logits, plain.from_scratch(text)[start:stop], atol=1e-4, rtol=0)
        assert cache.length == 600
        del cache
    # 1, 4 (three times) and, as the padding to 64 rows no longer fits, 64 (twice) and 1 in the next larger buffer
    assert made == [1, 4, 64, 1]


def test_a_pass_too_large_for_a_recording_is_run_as_it_is() -> None:
    graphs = subject("replayed", "llama").model.graphs
    assert graphs.serves(torch.ones(TOKENS[-1], WINDOW, dtype=torch.bool))
    assert not graphs.serves(torch.ones(TOKENS[-1] + 1, TOKENS[-1] + 1, dtype=torch.bool))
    assert not graphs.serves(torch.ones(1, WINDOW + 1, dtype=torch.bool))


def test_a_batch_is_many_conversations() -> None:
    """Sequences of different lengths in one pass say what each says alone, and their caches grow by one token each."""
    fast = subject("fast", "llama")
    texts = [PROMPT, PROMPT[:3], [*PROMPT, 4, 4, 90]]
    caches = [fast.model.new_cache() for _ in texts]
    for cache, text in zip(caches, texts, strict=True):
        fast.model.prefill(cache, torch.tensor(text))
    logits = fast.model.forward_batch(caches, torch.tensor([7, 8, 9])).logits
    for row, text, token in zip(logits, texts, (7, 8, 9), strict=True):
        torch.testing.assert_close(row, fast.from_scratch([*text, token])[-1], atol=1e-4, rtol=0)
    assert [cache.length for cache in caches] == [len(text) + 1 for text in texts]


def test_only_what_the_fast_engine_computes_rightly_suits_it() -> None:
    assert all(suits(config) == (family != "gpt2") for family, (_, config) in FAMILIES.items())
    unfit = [
        MistralConfig(**COMMON, sliding_window=64),
        Qwen2Config(**COMMON, use_sliding_window=True, sliding_window=64, max_window_layers=1),
        LlamaConfig(**COMMON, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}),
        LlamaConfig(**COMMON, hidden_act="gelu"),
    ]
    assert not any(suits(config) for config in unfit)
