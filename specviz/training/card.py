"""The card of a trained part: what it is, from which data, how, at what cost, and how often its candidates are accepted.

Every number comes from the JSON file that training, calibration and evaluation wrote beside the weights, or from the weights file.
"""

import json
from pathlib import Path

from specviz.models.embedded import sha256

CORPUS_COMMAND = "python -m specviz train corpus --tokens 640000 --rows 192 --seed 0"
SHOWN_RANKS = 5

TITLE = {
    "draft": """# A draft for SmolLM2-135M-Instruct

Layers {sources} of the target, retrained with KL(p‖q) to say what the whole stack says. Embeddings and LM head are the
target's own and are not stored. It scores the {vocabulary:,} most frequent tokens of its corpus; q is 0 for all others.
Made by `specviz/training/draft.py`.""",
    "medusa": """# Medusa heads for SmolLM2-135M-Instruct

{medusa_num_heads} heads of one residual block, loss weights 0.8^k, soft labels from the target. The LM head is the target's own and
is not stored. The heads score the {truncated_vocab_size:,} most frequent tokens of their corpus.
Made by `specviz/training/medusa.py`.""",
}
TRAINING = """## Data and training

- Data: {corpus[tokens]:,} tokens in {corpus[conversations]:,} conversations that the target held with itself, and no other text.
  The last {corpus[held_out]} of them were held out. `{corpus_command}`
- `python -m specviz train {method}`: seed {recipe[seed]}, {recipe[epochs]} epoch(s), {held_out[step]:,} steps of at most
  {recipe[batch]:,} tokens; AdamW, peak learning rate {recipe[peak]:g}, {recipe[warmup]} steps of warm-up, cosine.
- Time: {minutes:.0f} min on {threads} CPU thread(s), with torch {torch}, on a machine that had other work to do."""
DRAFT_HELD_OUT = """## On the held-out conversations

Measured at every token behind the chat prefix, at temperature 1:

- Σ min(p, q), the chance that rejection sampling accepts a drawn candidate: {overlap:.3f}
- argmax q = argmax p: {agreement:.3f}
- Σ p over the tokens that the draft scores, which no q can exceed: {covered:.3f}"""
CALIBRATION = """## Calibration

How often the candidate of a rank is the target's own greedy token, over {answer_tokens:,} tokens of greedy answers to
{prompts} held-out user turns (`python -m specviz train calibrate`):"""
ON_TEXT = "Against the text of the held-out conversations, which was drawn and not greedy:"
ACCEPTANCE = """## Acceptance on fresh prompts

The {prompts} prompts of `specviz/training/evaluate.py`, which are not in the corpus; at most {longest} tokens each, {shape},
rule rejection, {dtype}, seed {seed}. Tokens per step = tokens ÷ target passes; acceptance = accepted ÷ tested candidates{remark}.

| T | target passes | tokens | tokens per step | drafted | acceptance |
|---|---|---|---|---|---|"""
OF_A_TREE = "\n(a tree tests siblings, of which at most one is accepted)"
RUN = "| {temperature:g} | {steps} | {tokens} | {per_step:.2f} | {drafted} | {accepted} / {tested} = {rate:.3f} |"


def write_card(folder: Path, method: str) -> None:
    """Write draft.md or medusa.md (`method`) beside the JSON file and the weights of that name; raises OSError where one is missing."""
    facts = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    weights = folder / f"{method}.safetensors"
    title = TITLE[method].format(**facts, sources=", ".join(map(str, facts.get("layers", ()))))
    minutes = facts["held_out"]["seconds"] / 60
    training = TRAINING.format(**facts, method=method, corpus_command=CORPUS_COMMAND, minutes=minutes)
    held_out = DRAFT_HELD_OUT.format(**facts["held_out"]) if method == "draft" else _calibration(facts)
    file = f"`{weights.name}`: {weights.stat().st_size:,} bytes, sha256 `{sha256(weights)}`. Licence: Apache-2.0, as the target."
    text = "\n\n".join([title, training, held_out, *_acceptance(facts, method), file])
    (folder / f"{method}.md").write_text(text + "\n", encoding="utf-8")


def _calibration(facts: dict) -> str:
    on_text = [ON_TEXT, _ranks(facts["held_out"]["text_accuracies"])]
    greedy = [CALIBRATION.format(**facts["calibration"]), _ranks(facts["accuracies"])] if "calibration" in facts else []
    return "\n\n".join(greedy + on_text)


def _ranks(accuracies: list[list[float]]) -> str:
    head = "| head | " + " | ".join(f"rank {rank + 1}" for rank in range(SHOWN_RANKS)) + " |"
    rows = [f"| {i} | " + " | ".join(f"{value:.3f}" for value in row[:SHOWN_RANKS]) + " |" for i, row in enumerate(accuracies, start=1)]
    return "\n".join([head, "|---" * (SHOWN_RANKS + 1) + "|", *rows])


def _acceptance(facts: dict, method: str) -> list[str]:
    if "acceptance" not in facts:
        return []
    found = facts["acceptance"]
    shape, remark = (f"chains of {found['k']}", "") if method == "draft" else ("the default calibrated tree", OF_A_TREE)
    rows = [RUN.format(**run, per_step=run["tokens"] / run["steps"], rate=run["accepted"] / run["tested"]) for run in found["runs"]]
    return ["\n".join([ACCEPTANCE.format(**found, shape=shape, remark=remark), *rows])]
