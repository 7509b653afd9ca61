"""Acceptance of the trained parts on prompts that they never saw, measured with the engine itself, and the cards that say so.

tokens per step = committed tokens ÷ target passes          (the recovered or bonus token included)
acceptance      = accepted candidates ÷ tested candidates   (by depth: accepted ÷ steps that got that far)
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import specviz
from specviz.analysis.acceptance import Acceptance, acceptance
from specviz.config import DecodeConfig, Method
from specviz.engine.lm import Pair
from specviz.i18n import Fault
from specviz.models.checkpoints import DRAFT_FILE
from specviz.models.files import write_text
from specviz.training.calibrate import check_same
from specviz.training.card import write_card
from specviz.training.corpus import USER_TOKENS, Corpus, question
from specviz.training.data import Clock, Report, split

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
QUESTIONS = 48  # the most held-out user turns of a corpus
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


def held_out_questions(pair: Pair, corpus: Corpus, most: int = QUESTIONS) -> list[str]:
    """The first held-out user turns of a corpus, each once; raises Fault where there is none."""
    found = (question(corpus, i, pair.tokenizer) for i in split(corpus)[1])
    if not (asked := list(dict.fromkeys(text for text in found if text and text.strip()))[:most]):
        raise Fault("training.no_prompts", longest=USER_TOKENS)
    return asked


def make(pair: Pair, folder: Path, corpus: Corpus | None = None, report: Report = print) -> None:
    """Measure `pair`'s parts, which are those in `folder`, write the counts into their JSON files there, and the cards anew.

    With a corpus they are measured on its held-out user turns too. Raises Fault where `folder` holds no parts, or others than are loaded.
    """
    there = [method for method in RUNS if (folder / f"{method}.json").is_file()]
    if not there:
        raise Fault("error.checkpoint_missing", path=folder, wanted=DRAFT_FILE)
    for method in there:
        part = pair.draft if method == "draft" else pair.medusa
        check_same(folder / f"{method}.safetensors", "" if part is None else part.info.sha256)
    asked = None if corpus is None else held_out_questions(pair, corpus)
    for method in there:
        path = folder / f"{method}.json"
        facts = json.loads(path.read_text(encoding="utf-8"))
        facts["target"] = pair.target.info.name
        facts["acceptance"] = _counted(pair, method, RUNS[method], PROMPTS, report)
        if asked is not None:
            cold = [run for run in RUNS[method] if run[0] == 0]
            facts["held_out_acceptance"] = _counted(pair, method, cold, asked, report)
        write_text(json.dumps(facts, indent=1) + "\n", path)
        write_card(folder, method)


def _counted(
    pair: Pair, method: Method, runs: Sequence[tuple[float, str | None]], prompts: Sequence[str], report: Report
) -> dict[str, Any]:
    """The counts of some runs over `prompts`, and what they were made with."""
    found = []
    for temperature, tree in runs:
        clock, counts = Clock(), measure(pair, method, temperature, tree, prompts)
        row = {name: getattr(counts, name) for name in ("steps", "tokens", "drafted", "tested", "accepted")}
        depths = [[depth.accepted, depth.reached] for depth in counts.depths]
        found.append({"temperature": temperature, "tree": tree, **row, "depths": depths})
        report(f"{method} T={temperature:g} {tree or ''}, {len(prompts)} prompts: {row} {depths} in {clock}")
    dtype = str(pair.target.dtype).removeprefix("torch.")
    return {"prompts": len(prompts), "longest": LENGTH, "seed": SEED, "k": K, "dtype": dtype, "runs": found}
