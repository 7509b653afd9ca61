"""The card of a trained part: what it is, from which data, how, at what cost, and how often its candidates are accepted.

Every number comes from the JSON file that training, calibration and evaluation wrote beside the weights, or from the weights file.
"""

import json
from pathlib import Path
from typing import Any

from specviz.models.embedded import sha256

SHOWN_RANKS = 5

TITLE = {
    "draft": """# A draft for {target}

Layers {layers} of the target, retrained with KL(p‖q) to say what the whole stack says. Embeddings and LM head are the
target's own and are not stored. It scores the {vocabulary:,} most frequent tokens of its corpus; q is 0 for all others.
Made by `specviz/training/draft.py`.""",
    "medusa": """# Medusa-1 heads for {target}

{medusa_num_heads} heads of {medusa_num_layers} residual block(s), loss weights 0.8^k. {labels} {head}
The heads score the {truncated_vocab_size:,} most frequent tokens of their corpus. Made by `specviz/training/medusa.py`.""",
    "medusa2": """# Medusa-2 for {target}

An adapter (LoRA, rank {recipe[rank]}, on the last {recipe[depth]} layers) and {medusa_num_heads} heads that were trained together,
λ₀ = 0.2, loss weights 0.8^k, the heads' learning rate 4 times the backbone's. {labels} {head}
With the adapter the model is **not** the original any more: {drift}
Made by `specviz/training/medusa2.py`.""",
}
LABELS = {
    "soft": "Labels are the target's own distributions at the tokens that are predicted.",
    "text": "Labels are the tokens of the text.",
}
OWN_HEAD = "Each head has an LM head of its own, which began as the target's."
SHARED_HEAD = "The LM head is the target's own and is not stored."
DRIFT = {
    "kl": "on the held-out conversations KL(original‖student) is {kl:.4f} nats a token; L_LM was that KL, on the training data.",
    "ce": "on the held-out conversations KL(original‖student) is {kl:.4f} nats a token; L_LM was the cross-entropy of the text.",
}
SOFTENED = " For that, the adapter's scale α was lowered from {from:g} to {alpha:.3g} after the training (`train soften`)."
SOURCES = {
    "self-distilled": """{tokens:,} tokens in {conversations:,} conversations that the target held with itself (self-distillation), and no
  other text. {held_out} of them, every 32nd, were held out. `python -m specviz train corpus --tokens {tokens} --seed {seed}`""",
    "first": """{tokens:,} tokens in {conversations:,} conversations that the target held with itself, and no other text, by the first form
  of the corpus writer, which drew all answers at temperature 0.7. The last {held_out} of them were held out.""",
    "chat": """{tokens:,} tokens in {conversations:,} conversations of a file (sha256 `{data}`); {held_out} of them, every 32nd,
  were held out.""",
}
BEGAN = "\n- It began with an earlier one (sha256 `{sha256}`), trained on a corpus of its own of {tokens:,} tokens."
TRAINING = """## Data and training

- Data: {source}{began}
- `python -m specviz train {command}`: seed {recipe[seed]}, {run[step]:,} steps, {passes:.2f} passes over the corpus,
  batches of at most {recipe[batch]:,} tokens; AdamW, peak learning rate {recipe[peak]:g}, warm-up over {warmup:.0%}, cosine.
- Time: {minutes:.0f} min on {place}, with torch {torch}.{curves}"""
DRAFT_HELD_OUT = """## On the held-out conversations

Measured at every place of the answers, at temperature 1:

- Σ min(p, q), the chance that rejection sampling accepts a drawn candidate: {overlap:.3f}
- argmax q = argmax p: {agreement:.3f}
- Σ p over the tokens that the draft scores, which no q can exceed: {covered:.3f}"""
CURVES = "\n- ![Losses and held-out figures during the run]({name})"
CALIBRATION = """## Calibration

How often the candidate of a rank is the target's own greedy token, over {answer_tokens:,} tokens of greedy answers to
{prompts} held-out user turns (`python -m specviz train calibrate --method {method}`{given}):"""
GIVEN = "; at a depth, among the places where the first candidates above were right"
ON_TEXT = "Against the text of the held-out conversations, half of which was drawn and not greedy:"
ASKED = {
    "acceptance": ("fresh prompts", "prompts of `specviz/training/evaluate.py`, which are not in the corpus"),
    "held_out_acceptance": ("held-out prompts", "held-out user turns of the corpus that come first"),
}
ACCEPTANCE = """## Acceptance on {title}

The {prompts} {what}; at most {longest} tokens each, rule rejection, {dtype}, seed {seed}.
Tokens per step = tokens ÷ target passes; acceptance = accepted ÷ tested candidates{remark}; by depth: accepted ÷ steps
that got that far.

| T | candidates | target passes | tokens | tokens per step | acceptance | by depth |
|---|---|---|---|---|---|---|"""
OF_A_TREE = "\n(a tree tests siblings, of which at most one is accepted)"
RUN = "| {temperature:g} | {shape} | {steps} | {tokens} | {per_step:.2f} | {accepted} / {tested} = {rate:.3f} | {by_depth} |"


def write_card(folder: Path, method: str) -> None:
    """Write draft.md or medusa.md (`method`) beside the JSON file and the weights of that name; raises OSError where one is missing."""
    facts = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    weights = [folder / f"{method}.safetensors"]
    kind = method
    if "rank" in facts["recipe"]:
        kind, weights = "medusa2", [*weights, folder / "adapter_model.safetensors"]
    pictures = [name for name in (f"{method}.svg", "curves.svg") if (folder / name).is_file()]
    curves = CURVES.format(name=pictures[0]) if pictures else ""
    held_out = DRAFT_HELD_OUT.format(**facts["held_out"]) if method == "draft" else ""
    files = "\n".join(f"- `{path.name}`: {path.stat().st_size:,} bytes, sha256 `{sha256(path)}`." for path in weights)
    parts = [_title(facts, kind), _training(facts, kind, curves), held_out, _calibration(facts, method), _acceptance(facts, method)]
    text = "\n\n".join([*filter(None, parts), files, "Licence: that of the target."])
    (folder / f"{method}.md").write_text(text + "\n", encoding="utf-8")


def _title(facts: dict[str, Any], kind: str) -> str:
    recipe = facts["recipe"]
    if kind == "draft":
        return TITLE[kind].format(target=facts["target"], vocabulary=facts["vocabulary"], layers=", ".join(map(str, facts["layers"])))
    known = {"labels": LABELS[recipe["labels"]], "head": OWN_HEAD if recipe["untied"] else SHARED_HEAD}
    if kind == "medusa2":
        softened = SOFTENED.format(**facts["softened"]) if "softened" in facts else ""
        known["target"] = facts["target"].partition(" + ")[0]  # what the adapter was made for
        known["drift"] = DRIFT[recipe["lm"]].format(**facts["held_out"]) + softened
    return TITLE[kind].format(**facts | known)


def _training(facts: dict[str, Any], kind: str, curves: str) -> str:
    corpus, run, start = facts["corpus"], facts["run"], facts.get("start")
    source = SOURCES[corpus["source"]].format(**corpus)
    began = "" if start is None else BEGAN.format(sha256=start["sha256"], tokens=start["corpus"]["tokens"])
    passes = run["tokens"] / max(1, corpus["learned"]) if "learned" in corpus else facts["recipe"]["epochs"]
    return TRAINING.format(
        source=source, began=began, command=kind, recipe=facts["recipe"], run=run, passes=passes,
        warmup=facts["recipe"]["warmup"], minutes=run["seconds"] / 60, place=_place(facts), torch=facts["torch"], curves=curves,
    )  # fmt: skip


def _place(facts: dict[str, Any]) -> str:
    device = facts.get("device", "cpu")
    return f"{facts['threads']} CPU thread(s)" if device == "cpu" else f"a device of torch's kind {device}"


def _calibration(facts: dict[str, Any], method: str) -> str:
    found = []
    if "calibration" in facts:
        given = GIVEN if method == "draft" else ""
        found += [CALIBRATION.format(**facts["calibration"], method=method, given=given), _ranks(facts["accuracies"])]
    if "text_accuracies" in facts["held_out"]:
        found += [ON_TEXT, _ranks(facts["held_out"]["text_accuracies"])]
    return "\n\n".join(found)


def _ranks(accuracies: list[list[float]]) -> str:
    head = "| depth | " + " | ".join(f"rank {rank + 1}" for rank in range(SHOWN_RANKS)) + " |"
    rows = [f"| {i} | " + " | ".join(f"{value:.3f}" for value in row[:SHOWN_RANKS]) + " |" for i, row in enumerate(accuracies, start=1)]
    return "\n".join([head, "|---" * (SHOWN_RANKS + 1) + "|", *rows])


def _acceptance(facts: dict[str, Any], method: str) -> str:
    remark, found = "" if method == "draft" else OF_A_TREE, []
    for name, (title, what) in ASKED.items():
        if measured := facts.get(name):
            rows = [_run(run, measured["k"]) for run in measured["runs"]]
            found.append("\n".join([ACCEPTANCE.format(**measured, title=title, what=what, remark=remark), *rows]))
    return "\n\n".join(found)


def _run(run: dict[str, Any], k: int) -> str:
    tree = run["tree"]
    shape = f"calibrated tree of {tree.removeprefix('sparse:')}" if tree else f"chain of {k}"
    by_depth = " ".join(f"{accepted / reached:.2f}" for accepted, reached in run["depths"] if reached)
    return RUN.format(**run, shape=shape, by_depth=by_depth, per_step=run["tokens"] / run["steps"], rate=run["accepted"] / run["tested"])
