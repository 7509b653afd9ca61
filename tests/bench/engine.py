"""The engine: plain and speculative decoding beside transformers' own, passes by their size, the cost of recording.

Everything that is compared runs in one process, on one model, on the same prompt, turn by turn: what disturbs the machine disturbs all.
"""

import copy
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from transformers import GenerationConfig

import specviz
from specviz.analysis.hardware import peaks
from specviz.analysis.roofline import point
from specviz.config import DecodeConfig
from specviz.engine.lm import Pair
from specviz.engine.loop import encode
from specviz.trace import Pass

PROMPTS = {
    "easy to guess": "Repeat this paragraph word for word: The old mill stands by the river. Every morning the miller opens the gate and "
    "the great wheel begins to turn. Farmers from the whole valley bring their grain to it.",
    "hard to guess": "Write a short story about a clockmaker who finds a letter inside an old clock.",
}
K = 5
SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTEXT = 128


@dataclass(frozen=True)
class Timing:
    """One run: `seconds` of decoding with the prompt's pass; `record` seconds on top, for writing steps down (ours only)."""

    seconds: float
    token_ids: tuple[int, ...]
    record: float = 0.0
    steps: int = 0


Contender = Callable[[str], Timing]


def against_transformers(pair: Pair, tokens: int, repeats: int) -> list[dict[str, Any]]:
    """A row for each prompt and contender: median milliseconds a token, and how many times as fast as transformers' plain decoding."""
    endless = replace(pair, eos_ids=())
    rows = []
    for kind, prompt in PROMPTS.items():
        contenders = _contenders(endless, tokens)
        timings: dict[str, list[Timing]] = {name: [run(prompt)] for name, run in contenders.items()}  # the first round warms up
        for turn in range(repeats):
            for name in _rotated(list(contenders), turn):
                timings[name].append(contenders[name](prompt))
        rows += [_row(kind, name, timings) for name in timings]
    return rows


def _row(kind: str, name: str, timings: dict[str, list[Timing]]) -> dict[str, Any]:
    runs = timings[name][1:]
    reference = median(run.seconds for run in timings["transformers plain"][1:])
    seconds = median(run.seconds for run in runs)
    ids, expected = runs[0].token_ids, timings["transformers plain"][0].token_ids
    return {
        "prompt": kind,
        "contender": name,
        "tokens": len(ids),
        "ms_per_token": 1000 * seconds / len(ids),
        "times_as_fast": reference / seconds,
        "record_share": median(run.record / run.seconds for run in runs),
        "tokens_per_step": len(ids) / runs[0].steps if runs[0].steps else None,
        "same_until": next((i for i, (a, b) in enumerate(zip(ids, expected, strict=False)) if a != b), len(ids)),
        "repeats": len(runs),
    }


def _contenders(pair: Pair, tokens: int) -> dict[str, Contender]:
    """transformers first, ours after; speculative ones only where the pair has what proposes."""
    found: dict[str, Contender] = {"transformers plain": lambda prompt: _transformers(pair, prompt, tokens)}
    if pair.draft is not None:
        assistant = _assistant(pair)
        found["transformers assisted"] = lambda prompt: _transformers(pair, prompt, tokens, assistant)
    methods = {"plain": True, "draft": pair.draft is not None, "medusa": pair.medusa is not None}
    for method in (name for name, there in methods.items() if there):
        found[f"ours {method}"] = lambda prompt, method=method: _ours(pair, prompt, tokens, method=method)
    return found


def _transformers(pair: Pair, prompt: str, tokens: int, assistant: Any = None) -> Timing:
    model: Any = pair.target.model
    ids = torch.tensor([encode(pair, prompt, DecodeConfig(max_new_tokens=tokens))])
    config = GenerationConfig(do_sample=False, max_new_tokens=tokens, eos_token_id=None, pad_token_id=0, use_cache=True)
    extra = {"assistant_model": assistant} if assistant is not None else {}
    before = time.perf_counter()
    out = model.generate(ids.to(model.device), attention_mask=torch.ones_like(ids).to(model.device), generation_config=config, **extra)
    produced = out[0, ids.shape[1] :].tolist()
    return Timing(time.perf_counter() - before, tuple(produced))


def _assistant(pair: Pair) -> Any:
    """The draft as transformers can use it: scoring the whole vocabulary, with the target's LM head, where ours scores a part of it."""
    draft: Any = copy.deepcopy(pair.draft.model)
    if getattr(pair.draft, "token_map", None) is not None:
        target: Any = pair.target.model
        draft.lm_head = target.lm_head
        draft.config.vocab_size = target.config.vocab_size
    wanted = {"num_assistant_tokens": K, "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0}
    for name, value in wanted.items():
        setattr(draft.generation_config, name, value)
    return draft


def _ours(pair: Pair, prompt: str, tokens: int, **parameters: Any) -> Timing:
    before = time.perf_counter()
    steps = list(specviz.decode(pair, prompt, k=K, max_new_tokens=tokens, temperature=0.0, **parameters))
    record = sum(step.seconds.record for step in steps)
    ids = tuple(token.token_id for step in steps for token in step.emitted)
    return Timing(time.perf_counter() - before - record, ids, record, len(steps))


def recording(pair: Pair, tokens: int) -> list[dict[str, Any]]:
    """What writing the steps down costs, as a share of decoding, by method and temperature."""
    methods = [name for name, there in (("plain", pair), ("draft", pair.draft), ("medusa", pair.medusa)) if there is not None]
    rows = []
    for method in methods:
        for temperature in (0.0, 0.7):
            parameters = {"method": method, "temperature": temperature, "max_new_tokens": tokens, "k": K}
            steps = list(specviz.decode(replace(pair, eos_ids=()), PROMPTS["hard to guess"], **parameters))[1:]
            rows.append({
                "method": method,
                "temperature": temperature,
                "nodes": median(len(step.tree) for step in steps),
                "decode_ms": 1000 * median(step.seconds.decode for step in steps),
                "record_ms": 1000 * median(step.seconds.record for step in steps),
                "record_share": sum(step.seconds.record for step in steps) / sum(step.seconds.decode for step in steps),
            })  # fmt: skip
    return rows


def passes(pair: Pair, repeats: int) -> list[dict[str, Any]]:
    """The time of a target pass by its tokens: what verifying more candidates at once costs, and how close to the roof it comes."""
    target = pair.target
    roofs = peaks(str(target.device), str(target.dtype).removeprefix("torch."))
    cache = target.new_cache()
    target.prefill(cache, torch.arange(CONTEXT) % 1000)
    rows, alone = [], None
    for size in SIZES:
        seconds = median(_chain_seconds(target, cache, size) for _ in range(repeats))
        alone = alone or seconds
        work = Pass(kind="verify", tokens=size, context=CONTEXT, flops=target.shape.flops(size, CONTEXT),
                    bytes=target.shape.bytes(size, CONTEXT), seconds=seconds)  # fmt: skip
        placed = point(work, roofs)
        rows.append({
            "tokens": size, "ms": 1000 * seconds, "times_one": seconds / alone, "intensity": placed.intensity,
            "gflops": placed.achieved / 1e9, "share_of_roof": placed.share, "above_roof": placed.above_roof,
        })  # fmt: skip
    return rows


def _chain_seconds(target: Any, cache: Any, size: int) -> float:
    tokens, positions = torch.arange(size) % 1000, CONTEXT + torch.arange(size)
    mask = torch.ones(size, size, dtype=torch.bool).tril()
    before = time.perf_counter()
    output = target.forward(cache, tokens, positions, mask)
    float(output.logits[-1, 0])  # wait for the device
    seconds = time.perf_counter() - before
    cache.keep(CONTEXT, [])
    return seconds


def _rotated(names: list[str], turn: int) -> Iterable[str]:
    start = turn % len(names)
    return names[start:] + names[:start]
