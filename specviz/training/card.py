"""The card of a trained part: what it is, from which data, how, at what cost, and how often its candidates are accepted.

Every number comes from the JSON file that training, calibration and evaluation wrote beside the weights, or from the weights file.
"""

import json
from pathlib import Path
from typing import Any

from specviz.models.embedded import sha256
from specviz.models.files import write_text
from specviz.training.loop import CHECKPOINT

SHOWN_RANKS = 5

TITLE = {
    "draft": """# A draft for {target}

Layers {layers} of the target, retrained with KL(p‖q) to say what the whole stack says. Embeddings and LM head are the
target's own and are not stored. It scores {vocabulary:,} tokens, {scored}; q is 0 for all others.
Made by `specviz/training/draft.py`.""",
    "medusa": """# Medusa-1 heads for {target}

{medusa_num_heads} heads of {medusa_num_layers} residual block(s), loss weights 0.8^k. {labels} {head}
The heads score {truncated_vocab_size:,} tokens, {scored}. Made by `specviz/training/medusa.py`.""",
    "medusa2": """# Medusa-2 for {target}

An adapter (LoRA, rank {recipe[rank]}, on the last {recipe[depth]} layers) and {medusa_num_heads} heads that were trained together,
λ₀ = 0.2, loss weights 0.8^k, the heads' learning rate 4 times the backbone's. {labels} {head}
With the adapter the model is **not** the original any more: {drift}
Made by `specviz/training/medusa2.py`.""",
    "other": "# {part} for {target}\n\nHow they were trained is not told beside them.",
}
SCORED = {
    False: "the most frequent of the corpus and those that end an answer",
    True: "what the earlier one scored and those that end an answer",
}
PARTS = {"draft": "The weights of a draft", "medusa": "Medusa heads"}
LABELS = {
    "soft": "Labels are the target's own distributions at the tokens that are predicted.",
    "text": "Labels are the tokens of the text.",
}
OWN_HEAD = "Each head has an LM head of its own, which began as the target's."
SHARED_HEAD = "The LM head is the target's own and is not stored."
DRIFT = {
    "kl": "on the held-out conversations KL(original‖student) is {kl:.3g} nats a token; L_LM was that KL, on the training data.",
    "ce": "on the held-out conversations KL(original‖student) is {kl:.3g} nats a token; L_LM was the cross-entropy of the text.",
}
SOFTENED = " For that, the adapter's scale α was lowered from {from:g} to {alpha:.3g} after the training (`train soften`)."
SOURCES = {
    "self-distilled": """{tokens:,} tokens in {conversations:,} conversations that the target held with itself (self-distillation), and no
  other text. {held_out} of them, every 32nd, were held out.""",
    "prompts": """{tokens:,} tokens in {conversations:,} conversations: the questions are {prompts_used:,} of {prompts:,} prompts of the
  user's (sha256 of the lines of their file that are not empty: `{prompts_sha256}`), the answers are the target's
  (self-distillation). {held_out} of the conversations, every 32nd, were held out.""",
    "first": """{tokens:,} tokens in {conversations:,} conversations that the target held with itself, and no other text, by the first form
  of the corpus writer, which drew all answers at temperature 0.7. The last {held_out} of them were held out.""",
    "chat": """{tokens:,} tokens in {conversations:,} conversations of a file (sha256 `{data}`); {held_out} of them, every 32nd,
  were held out.""",
    None: """{tokens:,} tokens in {conversations:,} conversations; where they come from was not told. {held_out} of them, every 32nd,
  were held out.""",
}
WRITTEN = " `python -m specviz train corpus --tokens {tokens} --seed {seed}{given}`"
WAYS = ("source", "seed", "target", "data", "prompts_sha256")  # of two corpora of one kind and seed, only the size differs, or the writer
BEGAN = "\n- It began with an earlier one (sha256 `{sha256}`), {trained}."
TRAINED = {
    "unknown": "of whose training nothing is told beside it",
    "same": "trained on the same corpus",
    "alike": "trained on a corpus of the same kind and seed, of {tokens:,} tokens",
    "other": "trained on a corpus of its own of {tokens:,} tokens",
}
LASTED = ": {passes:.2f} passes, {minutes} min"
TRAINING = """## Data and training

- Data: {source}{began}
- `python -m specviz train {command}`: seed {recipe[seed]}, {run[step]:,} steps, {passes:.2f} passes over the corpus,
  batches of at most {recipe[batch]:,} tokens; AdamW, peak learning rate {recipe[peak]:g}, warm-up over {warmup:.0%}, cosine.
- Time: {minutes} min on {place}, with torch {torch}.{ends}"""
STOPPED = "\n- It was stopped before its end, and can be taken up again: `checkpoint.safetensors` is what it goes on from."
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
ON_TEXT = "Against the text of the held-out conversations{text}:"
UNCALIBRATED = """## On the held-out conversations

How often the candidate of a rank is the token of the text{text}. The heads are not calibrated on greedy answers yet
(`python -m specviz train calibrate --method {method}`){tree}:"""
ITS_TREE = "; until they are, their tree is built from these shares"
TEXTS = {"self-distilled": ", half of which was drawn and not greedy", "first": ", which was drawn"}
ASKED = {
    "acceptance": ("fresh prompts", "prompts of `specviz/training/evaluate.py`, which are not in the corpus"),
    "held_out_acceptance": ("held-out prompts", "held-out user turns of the corpus that come first"),
}
NOT_COMPARED = ("prompts of this project", "prompts of `specviz/training/evaluate.py`; whether they are in the corpus too was not asked")
ACCEPTANCE = """## Acceptance on {title}

The {prompts} {what}; at most {longest} tokens each, rule rejection, {dtype}, seed {seed}.
Tokens per step = tokens ÷ target passes; acceptance = accepted ÷ tested candidates{remark}; by depth: accepted ÷ steps
that got that far.

| T | candidates | target passes | tokens | tokens per step | acceptance | by depth |
|---|---|---|---|---|---|---|"""
OF_A_TREE = "\n(a tree tests siblings, of which at most one is accepted)"
RUN = "| {temperature:g} | {shape} | {steps} | {tokens} | {per_step:.2f} | {accepted} / {tested} = {rate:.3f} | {by_depth} |"


def write_cards(folder: Path) -> None:
    """Write the card of every part in `folder` anew: what was measured may have changed. Raises OSError."""
    for method in PARTS:
        if all((folder / f"{method}.{kind}").is_file() for kind in ("json", "safetensors")):
            write_card(folder, method)


def write_card(folder: Path, method: str) -> None:
    """Write draft.md or medusa.md (`method`) beside the JSON file and the weights of that name; raises OSError where one is missing.

    It has the sections whose facts the JSON file has.
    """
    facts = json.loads((folder / f"{method}.json").read_text(encoding="utf-8"))
    weights, kind = [folder / f"{method}.safetensors"], method if "run" in facts else "other"
    if kind != "other" and "rank" in facts["recipe"]:
        kind, weights = "medusa2", [*weights, folder / "adapter_model.safetensors"]
    pictures = [name for name in (f"{method}.svg", "curves.svg") if (folder / name).is_file()]
    ends = (STOPPED if (folder / CHECKPOINT).is_file() else "") + (CURVES.format(name=pictures[0]) if pictures else "")
    held_out = DRAFT_HELD_OUT.format(**facts["held_out"]) if kind == "draft" else ""
    files = "\n".join(f"- `{path.name}`: {path.stat().st_size:,} bytes, sha256 `{sha256(path)}`." for path in weights)
    training = "" if kind == "other" else _training(facts, kind, ends)
    parts = [_title(facts, kind, method), training, held_out, _accuracies(facts, method), _acceptance(facts, method)]
    write_text("\n\n".join([*filter(None, parts), files, "Licence: that of the target."]) + "\n", folder / f"{method}.md")


def _title(facts: dict[str, Any], kind: str, method: str) -> str:
    target = _target(facts)
    if kind == "other":
        return TITLE[kind].format(target=target, part=PARTS[method])
    scored = SCORED["start" in facts]
    if kind == "draft":
        layers = ", ".join(map(str, facts["layers"]))
        return TITLE[kind].format(target=target, vocabulary=facts["vocabulary"], scored=scored, layers=layers)
    recipe = facts["recipe"]
    known = {"target": target, "scored": scored, "labels": LABELS[recipe["labels"]], "head": OWN_HEAD if recipe["untied"] else SHARED_HEAD}
    if kind == "medusa2":
        softened = SOFTENED.format(**facts["softened"]) if "softened" in facts else ""
        known["target"] = target.partition(" + ")[0]  # what the adapter was made for
        known["drift"] = DRIFT[recipe["lm"]].format(**facts["held_out"]) + softened
    return TITLE[kind].format(**facts | known)


def _target(facts: dict[str, Any]) -> str:
    """What the target is called, or at least which it is."""
    weights = facts.get("corpus", {}).get("target")
    return facts.get("target") or (f"the model with weights of sha256 `{weights}`" if weights else "a model that is not named")


def _training(facts: dict[str, Any], kind: str, ends: str) -> str:
    corpus, run, start, recipe, quick = facts["corpus"], facts["run"], facts.get("start"), facts["recipe"], facts.get("quick")
    began = "" if start is None else BEGAN.format(sha256=start["sha256"], trained=_trained(start, corpus))
    command = kind if quick is None else f"heads --minutes {quick['minutes']:g}"
    passes = _passes(run, corpus) if "learned" in corpus else recipe["epochs"]
    return TRAINING.format(
        source=_source(corpus, quick is None), began=began, command=command, recipe=recipe, run=run, passes=passes, warmup=recipe["warmup"],
        minutes=_minutes(run), place=_place(facts), torch=facts["torch"], ends=ends,
    )  # fmt: skip


def _source(corpus: dict[str, Any], with_command: bool) -> str:
    """What the corpus is made of. Without the command: `train heads` wrote it, and no other command would write it again."""
    source, prompted = corpus.get("source"), "prompts" in corpus
    text = SOURCES["prompts" if prompted else source].format(**corpus)
    if source == "self-distilled" and with_command:
        text += WRITTEN.format(**corpus, given=" --prompts FILE" if prompted else "")
    return text


def _trained(start: dict[str, Any], corpus: dict[str, Any]) -> str:
    """How that with which a run on `corpus` began was trained itself, as far as it is told."""
    theirs, run = start["corpus"], start.get("run")
    if "tokens" not in theirs:
        return TRAINED["unknown"]
    if theirs == corpus:
        return TRAINED["same"] + (LASTED.format(passes=_passes(run, corpus), minutes=_minutes(run)) if run else "")
    alike = "source" in corpus and all(theirs.get(name) == corpus.get(name) for name in WAYS)
    return TRAINED["alike" if alike else "other"].format(tokens=theirs["tokens"])


def _passes(run: dict[str, Any], corpus: dict[str, Any]) -> float:
    """How often a run read what is to be learned of its corpus."""
    return run["tokens"] / max(1, corpus["learned"])


def _minutes(run: dict[str, Any]) -> str:
    minutes = run["seconds"] / 60
    return f"{minutes:.0f}" if minutes >= 1 else f"{minutes:.1g}"


def _place(facts: dict[str, Any]) -> str:
    device = facts.get("device", "cpu")
    return f"{facts['threads']} CPU thread(s)" if device == "cpu" else f"a device of torch's kind {device}"


def _accuracies(facts: dict[str, Any], method: str) -> str:
    how, rows = facts.get("calibration", {}), facts.get("held_out", {}).get("text_accuracies")
    text = TEXTS.get(facts.get("corpus", {}).get("source"), "")
    if "answer_tokens" in how:
        found = [CALIBRATION.format(**how, method=method, given=GIVEN if method == "draft" else ""), _ranks(facts["accuracies"])]
        return "\n\n".join([*found, ON_TEXT.format(text=text), _ranks(rows)] if rows else found)
    if not rows:
        return ""
    return "\n\n".join([UNCALIBRATED.format(text=text, method=method, tree=ITS_TREE if how else ""), _ranks(rows)])


def _ranks(accuracies: list[list[float]]) -> str:
    head = "| depth | " + " | ".join(f"rank {rank + 1}" for rank in range(SHOWN_RANKS)) + " |"
    rows = [f"| {i} | " + " | ".join(f"{value:.3f}" for value in row[:SHOWN_RANKS]) + " |" for i, row in enumerate(accuracies, start=1)]
    return "\n".join([head, "|---" * (SHOWN_RANKS + 1) + "|", *rows])


def _acceptance(facts: dict[str, Any], method: str) -> str:
    remark, found = "" if method == "draft" else OF_A_TREE, []
    for name, (title, what) in ASKED.items():
        if measured := facts.get(name):
            if name == "acceptance" and not _wrote_itself(facts.get("corpus", {})):
                title, what = NOT_COMPARED
            rows = [_run(run, measured["k"]) for run in measured["runs"]]
            found.append("\n".join([ACCEPTANCE.format(**measured, title=title, what=what, remark=remark), *rows]))
    return "\n\n".join(found)


def _wrote_itself(corpus: dict[str, Any]) -> bool:
    """Whether the target made up all that was asked."""
    return corpus.get("source") in ("self-distilled", "first") and "prompts" not in corpus


def _run(run: dict[str, Any], k: int) -> str:
    tree = run["tree"]
    shape = f"calibrated tree of {tree.removeprefix('sparse:')}" if tree else f"chain of {k}"
    by_depth = " ".join(f"{accepted / reached:.2f}" for accepted, reached in run["depths"] if reached)
    return RUN.format(**run, shape=shape, by_depth=by_depth, per_step=run["tokens"] / run["steps"], rate=run["accepted"] / run["tested"])
