"""A recorded step under another rule, ε or δ: the verdicts and tokens that it would have had. No model is asked.

assets/player/judge.js is the twin of this file and of rules.py.
"""

from collections.abc import Sequence

from specviz.config import DecodeConfig
from specviz.engine.rules import Judgement, judge, recorded
from specviz.trace import Emitted, Step


def rejudged(step: Step, config: DecodeConfig, eos_ids: Sequence[int]) -> Step:
    """`step` as `config`'s rule, ε and δ judge it from the same start: other verdicts, tokens and end, everything else as recorded."""
    rule = "greedy" if config.greedy else config.rule
    verdict = judge(rule, recorded(step), config.epsilon, config.delta)
    emitted = _committed(step, verdict, eos_ids)
    return step.model_copy(
        update={
            "tree": tuple(node.model_copy(update={"verdict": said}) for node, said in zip(step.tree, verdict.verdicts, strict=True)),
            "stopped_at": verdict.stopped_at,
            "emitted": emitted,
            "dropped": len(verdict.path) + 1 - len(emitted),
        }
    )


def _committed(step: Step, verdict: Judgement, eos_ids: Sequence[int]) -> tuple[Emitted, ...]:
    """The accepted path and the extra token, cut where the run would have been cut: behind the end of the text, or at the budget."""
    nodes = (*verdict.path, None)
    tokens = [verdict.token_id if node is None else step.tree[node].token_id for node in nodes]
    length = next((place + 1 for place, token in enumerate(tokens) if token in eos_ids), len(tokens))
    if step.dropped and step.emitted[-1].token_id not in eos_ids:
        length = min(length, len(step.emitted))
    return tuple(
        Emitted(
            token_id=token,
            text=_text(step, place, token, node),
            kind=verdict.kind if node is None else "accepted",
            node=node,
        )
        for place, (token, node) in enumerate(zip(tokens[:length], nodes, strict=False))
    )


def _text(step: Step, place: int, token: int, node: int | None) -> str:
    """As it was emitted where it was, else by the names of the step's tokens."""
    if place < len(step.emitted) and step.emitted[place].token_id == token:
        return step.emitted[place].text
    return step.texts.get(token, f"#{token}") if node is None else step.tree[node].text
