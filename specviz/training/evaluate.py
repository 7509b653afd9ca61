"""Acceptance of the trained parts on prompts that they never saw, measured with the engine itself, and the cards that say so.

tokens per step = committed tokens ÷ target passes          (the recovered or bonus token included)
acceptance      = accepted candidates ÷ tested candidates   (by depth: accepted ÷ steps that got that far)
"""

import json
from collections.abc import Sequence
from pathlib import Path

import specviz
from specviz.analysis.acceptance import Acceptance, acceptance
from specviz.config import DecodeConfig, Method
from specviz.engine.lm import Pair
from specviz.i18n import Fault
from specviz.models.checkpoints import DRAFT_FILE
from specviz.models.files import write_text
from specviz.training.calibrate import check_same
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
RUNS: dict[Method, tuple[tuple[float, str | None], ...]] = {  # temperature and tree
    "draft": ((0.0, None), (1.0, None)),
    "medusa": ((0.0, "sparse:16"), (0.0, "sparse:63"), (1.0, "sparse:16")),
}


def measure(
    pair: Pair,
    method: Method,
    temperature: float,
    tree: str | None = None,
    prompts: Sequence[str] = PROMPTS,
    length: int = LENGTH,
    seed: int = SEED,
) -> Acceptance:
    """Counts over all prompts under the rejection rule; a draft proposes chains of K where no tree is named."""
    chat = bool(pair.tokenizer.chat_template)
    config = DecodeConfig(
        method=method, rule="rejection", k=K, tree=tree, temperature=temperature, max_new_tokens=length, seed=seed, chat=chat
    )  # fmt: skip
    total = Acceptance()
    for prompt in prompts:
        total += acceptance(specviz.decode(pair, prompt, **vars(config)), config)
    return total


def make(pair: Pair, folder: Path, report: Report = print) -> None:
    """Measure `pair`'s parts, which are those in `folder`, write the counts into their JSON files there, and the cards anew.

    Raises Fault where `folder` holds none, or others than are loaded.
    """
    there = [method for method in RUNS if (folder / f"{method}.json").is_file()]
    if not there:
        raise Fault("error.checkpoint_missing", path=folder, wanted=DRAFT_FILE)
    for method in there:
        part = pair.draft if method == "draft" else pair.medusa
        check_same(folder / f"{method}.safetensors", "" if part is None else part.info.sha256)
    for method in there:
        path, found = folder / f"{method}.json", []
        for temperature, tree in RUNS[method]:
            clock, counts = Clock(), measure(pair, method, temperature, tree)
            row = {name: getattr(counts, name) for name in ("steps", "tokens", "drafted", "tested", "accepted")}
            depths = [[depth.accepted, depth.reached] for depth in counts.depths]
            found.append({"temperature": temperature, "tree": tree, **row, "depths": depths})
            report(f"{method} T={temperature:g} {tree or ''}: {row} {depths} in {clock}")
        facts = json.loads(path.read_text(encoding="utf-8"))
        dtype = str(pair.target.dtype).removeprefix("torch.")
        facts["target"] = pair.target.info.name
        facts["acceptance"] = {"prompts": len(PROMPTS), "longest": LENGTH, "seed": SEED, "k": K, "dtype": dtype, "runs": found}
        write_text(json.dumps(facts, indent=1) + "\n", path)
        write_card(folder, method)
