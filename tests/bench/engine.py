"""The engine: every method beside transformers' own decoding, passes by their size and context, the cost of recording.

Everything that is compared runs in one process, on the same models and prompts, turn by turn: what disturbs the machine disturbs all.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean, median
from typing import Any, TypeVar

import torch
from transformers import GenerationConfig

from specviz.analysis.hardware import peaks
from specviz.analysis.roofline import point
from specviz.config import DecodeConfig
from specviz.engine.lm import LanguageModel, Pair
from specviz.engine.loop import Decoding, encode
from specviz.engine.timings import sized, timings
from specviz.trace import Pass
from specviz.ui.text import PRESETS

PROMPTS = ("fact", "python", "rewrite", "story")
K = 5  # of the draft that is held against transformers' with the same draft
OURS: dict[str, dict[str, Any]] = {
    "plain": {"method": "plain"},
    f"draft {K}": {"method": "draft", "k": K},
    "draft 3": {"method": "draft", "k": 3},
    "draft 2": {"method": "draft", "k": 2},
    "n-gram 8": {"method": "ngram", "k": 8},
    "Medusa": {"method": "medusa"},
}
LOSSLESS = tuple(name for name in OURS if name != "plain")  # by the rule that they run under: rejection, and the argmax at T = 0
SIZES = (1, 2, 4, 8, 16, 32, 64)
CONTEXT, SHORT, LONG = 128, 100, 2000  # cached tokens
WARM = 16  # tokens of a run that only warms up

Key = TypeVar("Key")
Row = dict[str, Any]
Contender = Callable[[str, int], "Timing"]


@dataclass(frozen=True)
class Timing:
    """Wall seconds of one run, its prompt's pass included; `steps` is None where nobody counted them."""

    seconds: float
    tokens: int
    steps: int | None = None


def speeds(pair: Pair, reference: Pair, tokens: int, repeats: int, temperature: float) -> list[Row]:
    """A row for each prompt and contender: median milliseconds a token, and how many times as fast as our plain decoding."""
    contenders = _contenders(replace(pair, eos_ids=()), reference, tokens, temperature)
    rows = []
    for name in PROMPTS:
        taken = _in_turns({key: partial(run, PRESETS[name]) for key, run in contenders.items()}, repeats)
        plain = median(run.seconds for run in taken["plain"])
        for key, runs in taken.items():
            seconds = median(run.seconds for run in runs)
            steps = [run.tokens / run.steps for run in runs if run.steps]
            rows.append({
                "prompt": name, "temperature": temperature, "contender": key, "ms_per_token": 1000 * seconds / tokens,
                "times_plain": plain / seconds, "tokens_per_step": mean(steps) if steps else None, "repeats": repeats,
            })  # fmt: skip
    return rows


def _in_turns(runs: dict[Key, Callable[[int], Any]], repeats: int) -> dict[Key, list[Any]]:
    """Each run `repeats` times, in an order that rotates, after one round that only warms up."""
    names = list(runs)
    taken: dict[Key, list[Any]] = {name: [] for name in names}
    for turn in range(repeats + 1):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            result = runs[name](turn)
            taken[name] += [result] if turn else []
    return taken


def _contenders(pair: Pair, reference: Pair, tokens: int, temperature: float) -> dict[str, Contender]:
    """transformers' two, on the reference engine's models, and ours."""
    assistant = _assistant(reference)
    found: dict[str, Contender] = {
        "transformers": lambda prompt, turn: _transformers(reference, prompt, tokens if turn else WARM, temperature, turn),
        f"transformers, assistant {K}": lambda prompt, turn: _transformers(
            reference, prompt, tokens if turn else WARM, temperature, turn, assistant
        ),
    }
    for name, parameters in OURS.items():
        config = DecodeConfig(**parameters, max_new_tokens=tokens, temperature=temperature)
        config = sized(config, timings(pair, "medusa")) if name == "Medusa" else config
        found[name] = lambda prompt, turn, config=config: _ours(
            pair, prompt, replace(config, seed=turn, max_new_tokens=tokens if turn else WARM)
        )
    return found


def _transformers(pair: Pair, prompt: str, tokens: int, temperature: float, seed: int, assistant: Any = None) -> Timing:
    model: Any = pair.target.model
    ids = torch.tensor([encode(pair, prompt, DecodeConfig(max_new_tokens=tokens))])
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {"do_sample": False}
    config = GenerationConfig(max_new_tokens=tokens, eos_token_id=None, pad_token_id=0, use_cache=True, **sampling)
    extra = {"assistant_model": assistant} if assistant is not None else {}
    torch.manual_seed(seed)
    before = time.perf_counter()
    out = model.generate(ids.to(model.device), attention_mask=torch.ones_like(ids).to(model.device), generation_config=config, **extra)
    seconds = time.perf_counter() - before
    return Timing(seconds * tokens / (out.shape[1] - ids.shape[1]), tokens)


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


def _ours(pair: Pair, prompt: str, config: DecodeConfig, record: bool = False) -> Timing:
    before = time.perf_counter()
    decoding = Decoding(pair, encode(pair, prompt, config), config)
    done = list(decoding.steps() if record else decoding.rounds())
    return Timing(time.perf_counter() - before, sum(len(step.emitted) for step in done), len(done))


def recording(pair: Pair, tokens: int, repeats: int) -> list[Row]:
    """Tokens a second with every step recorded, divided by tokens a second without."""
    endless, rows = replace(pair, eos_ids=()), []
    for name in ("plain", f"draft {K}", "n-gram 8", "Medusa"):
        for temperature in (0.0, 1.0):
            config = DecodeConfig(**OURS[name], max_new_tokens=tokens, temperature=temperature)
            config = sized(config, timings(endless, "medusa")) if name == "Medusa" else config
            runs = {record: partial(_recorded, endless, config, record) for record in (True, False)}
            taken = {record: median(run.seconds for run in found) for record, found in _in_turns(runs, repeats).items()}
            rows.append({
                "contender": name, "temperature": temperature, "ms_per_token": 1000 * taken[False] / tokens,
                "recorded_ms_per_token": 1000 * taken[True] / tokens, "with_by_without": taken[False] / taken[True],
            })  # fmt: skip
    return rows


def _recorded(pair: Pair, config: DecodeConfig, record: bool, turn: int) -> Timing:
    return _ours(pair, PRESETS["python"], replace(config, seed=turn), record)


def passes(pair: Pair, repeats: int) -> list[Row]:
    """The time of a target pass by its tokens: what verifying more candidates at once costs, and how close to the roof it comes."""
    roofs = peaks(str(pair.target.device), str(pair.target.dtype).removeprefix("torch."))
    taken = _pass_seconds(pair.target, CONTEXT, SIZES, repeats)
    rows = []
    for size, seconds in taken.items():
        work = _work(pair.target, size, CONTEXT, seconds)
        placed = point(work, roofs)
        rows.append({
            "tokens": size, "ms": 1000 * seconds, "times_one": seconds / taken[1], "intensity": placed.intensity,
            "gflops": placed.achieved / 1e9, "gbytes": work.bytes / seconds / 1e9, "share_of_roof": placed.share,
        })  # fmt: skip
    return rows


def contexts(pair: Pair, repeats: int) -> list[Row]:
    """The time of a plain pass over a long context, beside what the bytes of its keys and values predict."""
    taken = {context: _pass_seconds(pair.target, context, (1,), repeats)[1] for context in (SHORT, LONG)}
    moved = {context: pair.target.shape.bytes(1, context) for context in taken}
    return [
        {"context": context, "ms": 1000 * taken[context], "times_short": taken[context] / taken[SHORT],
         "predicted": moved[context] / moved[SHORT]} for context in taken
    ]  # fmt: skip


def _work(model: LanguageModel, size: int, context: int, seconds: float) -> Pass:
    counts = {"flops": model.shape.flops(size, context), "bytes": model.shape.bytes(size, context)}
    return Pass(kind="plain" if size == 1 else "verify", tokens=size, context=context, **counts, seconds=seconds)


def _pass_seconds(model: LanguageModel, context: int, sizes: tuple[int, ...], repeats: int) -> dict[int, float]:
    cache = model.new_cache()
    model.prefill(cache, torch.arange(context) % 1000)

    def once(size: int, turn: int) -> float:
        mask = torch.ones(size, size, dtype=torch.bool).tril()
        before = time.perf_counter()
        output = model.forward(cache, torch.arange(size) % 1000, context + torch.arange(size), mask)
        float(output.logits[-1, 0])  # wait for the device
        seconds = time.perf_counter() - before
        cache.keep(context, [])
        return seconds

    taken = _in_turns({size: partial(once, size) for size in sizes}, repeats)
    return {size: median(taken[size]) for size in sizes}
