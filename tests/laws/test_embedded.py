"""The laws on the real model, in fp32: what a method writes at temperature 0 is what plain decoding writes."""

import pytest

import specviz
from specviz.engine.lm import Pair
from specviz.trace import Trace

PROMPTS = [
    "Why is the sky blue?",
    "Write a Python function that reverses a string.",
    "Name three rivers in Europe.",
    "Rewrite this sentence in the past tense: She walks to the market and buys bread.",
    "Tell me a very short story about a fox.",
    "请用中文介绍一下北京。",
    "What is 12 times 12?",
    "List the planets of the solar system.",
    "Translate to French: good morning, my friend.",
    "Say something with emoji 🎉 and é.",
]
METHODS = [
    {"method": "ngram", "rule": "greedy", "k": 5},
    {"method": "ngram", "rule": "rejection", "tree": "4x2x1x1", "ngram_min": 1},
    {"method": "draft", "rule": "greedy", "k": 5},
    {"method": "draft", "rule": "rejection", "tree": "3x2x1"},
    {"method": "medusa", "rule": "typical"},
    {"method": "medusa", "rule": "match", "tree": "4x2"},
]


@pytest.fixture(scope="module")
def plain(embedded_pair: Pair) -> dict[str, Trace]:
    return {prompt: specviz.run(embedded_pair, prompt, method="plain", max_new_tokens=48, baseline=False) for prompt in PROMPTS}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: " ".join(map(str, method.values())))
def test_greedy_text_is_plain_text(embedded_pair: Pair, plain: dict[str, Trace], method: dict) -> None:
    for prompt in PROMPTS:
        trace = specviz.run(embedded_pair, prompt, max_new_tokens=48, baseline=False, **method)
        assert trace.token_ids == plain[prompt].token_ids, f"{prompt}: {_first_difference(trace, plain[prompt])}"
        assert trace.text == plain[prompt].text


def _first_difference(trace: Trace, plain: Trace) -> str:
    """Where two texts part, and how close the target's two best tokens were there."""
    place = next(i for i, (a, b) in enumerate(zip(trace.token_ids, plain.token_ids, strict=False)) if a != b)
    best, second = plain.steps[place].rows[0].p[:2]
    return f"token {place}: plain had p = {best:.6f} for its first and {second:.6f} for its second choice"


def test_plain_text_is_what_transformers_generates(reference_pair: Pair, plain: dict[str, Trace]) -> None:
    import torch

    model = reference_pair.target.model
    for prompt in PROMPTS[:3]:
        ids = torch.tensor([plain[prompt].header.prompt_ids])
        output = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=48)
        assert output[0, ids.shape[1] :].tolist() == plain[prompt].token_ids


def test_a_draft_equal_to_the_target_is_accepted_at_temperature_1(embedded_pair: Pair) -> None:
    from dataclasses import replace

    twin = replace(embedded_pair, draft=embedded_pair.target)
    trace = specviz.run(twin, PROMPTS[0], k=4, temperature=1.0, max_new_tokens=40, baseline=False)
    tests = [node for step in trace.steps for node in step.tree[1:]]
    refused = [node for node in tests if node.verdict == "refused"]
    assert len(refused) <= len(tests) * 0.01, "only rounding may tell p from q"


def test_the_text_is_the_tokenizer_s(embedded_pair: Pair, plain: dict[str, Trace]) -> None:
    for prompt in PROMPTS:
        ids = [token for token in plain[prompt].token_ids if token not in embedded_pair.eos_ids]
        text = embedded_pair.tokenizer.decode(ids)
        assert plain[prompt].text == text or text.startswith(plain[prompt].text), "an unfinished character may be held back at the end"


def test_the_fast_engine_agrees_with_the_reference(embedded_pair: Pair, reference_pair: Pair, plain: dict[str, Trace]) -> None:
    """fp32 logits of a prefill, a chain and a tree, and the text."""
    import torch

    from specviz.engine.tree import TokenTree

    tree = TokenTree((28, 30, 42, 253, 339, 28, 198, 30), (-1, 0, 0, 0, 1, 1, 2, 6))
    assert (embedded_pair.target.engine, embedded_pair.draft.engine) == ("fast", "fast")
    for fast, reference in ((embedded_pair.target, reference_pair.target), (embedded_pair.draft, reference_pair.draft)):
        for prompt in PROMPTS[:4]:
            ids = torch.tensor([*plain[prompt].header.prompt_ids, *plain[prompt].token_ids])
            caches = fast.new_cache(), reference.new_cache()
            hidden = [model.prefill(cache, ids[:-8]) for model, cache in zip((fast, reference), caches, strict=True)]
            torch.testing.assert_close(*hidden, atol=1e-4, rtol=1e-5)
            chain = torch.ones(8, 8, dtype=torch.bool).tril()
            for tokens, depths, mask in ((ids[-8:], range(8), chain), (torch.tensor(tree.tokens), tree.depths, tree.mask())):
                start = len(ids) - 8
                args = tokens, start + torch.tensor(depths), mask
                logits = [model.forward(cache, *args).logits for model, cache in zip((fast, reference), caches, strict=True)]
                torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-5)
                for cache in caches:
                    cache.keep(start, [])
    for prompt in PROMPTS[:3]:
        trace = specviz.run(reference_pair, prompt, method="plain", max_new_tokens=48, baseline=False)
        assert trace.token_ids == plain[prompt].token_ids
