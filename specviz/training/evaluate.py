"""Acceptance of the trained parts on prompts that they never saw, measured with the engine itself, and the cards that say so.

tokens per step = committed tokens ÷ target passes          (the recovered or bonus token included)
acceptance      = accepted candidates ÷ tested candidates
"""

import json
from collections.abc import Sequence
from pathlib import Path

import specviz
from specviz.analysis.acceptance import Acceptance, acceptance
from specviz.config import DecodeConfig, Method
from specviz.engine.lm import Pair
from specviz.training.card import write_card
from specviz.training.data import Clock, Report

# Written by hand for this file: none is in the corpus, whose user turns the model wrote itself.
PROMPTS = (
    "Why do leaves change colour in autumn?",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Tell me a short story about a lighthouse keeper who finds a letter.",
    "What is the boiling point of water at sea level?",
    "Give me three tips for sleeping better.",
    "Explain photosynthesis to a ten-year-old.",
    "Copy this sentence twice: The quick brown fox jumps over the lazy dog.",
    "Write a polite email that asks for a day off.",
    "List five animals that live in the desert.",
    "What is the difference between a list and a tuple in Python?",
)
LENGTH, SEED, K = 128, 0, 5


def measure(
    pair: Pair, method: Method, temperature: float, prompts: Sequence[str] = PROMPTS, length: int = LENGTH, seed: int = SEED
) -> Acceptance:
    """Counts over all prompts under the rejection rule; a draft proposes chains of K, Medusa its default tree."""
    chat = bool(pair.tokenizer.chat_template)
    config = DecodeConfig(method=method, rule="rejection", k=K, temperature=temperature, max_new_tokens=length, seed=seed, chat=chat)
    total = Acceptance()
    for prompt in prompts:
        total += acceptance(specviz.decode(pair, prompt, **vars(config)), config)
    return total


def make(pair: Pair, folder: Path, report: Report = print, methods: Sequence[Method] = ("draft", "medusa")) -> None:
    """Measure the draft and the heads of `pair` at temperature 0 and 1, write the counts into their JSON files, and their cards anew."""
    for method in methods:
        path, found = folder / f"{method}.json", []
        for temperature in (0.0, 1.0):
            clock, counts = Clock(), measure(pair, method, temperature)
            row = {name: getattr(counts, name) for name in ("steps", "tokens", "drafted", "tested", "accepted")}
            found.append({"temperature": temperature, **row})
            report(f"{method} T={temperature:g}: {row} in {clock}")
        facts = json.loads(path.read_text(encoding="utf-8"))
        dtype = str(pair.target.dtype).removeprefix("torch.")
        facts["acceptance"] = {"prompts": len(PROMPTS), "longest": LENGTH, "seed": SEED, "k": K, "dtype": dtype, "runs": found}
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        write_card(folder, method)
