"""Awkward steps for every figure: the smallest, the largest, all one way or the other, and text that fights back."""

from specviz.config import DecodeConfig
from specviz.trace import Header, Step
from tests.builders import make_header, make_step

REJECTION = DecodeConfig(temperature=1.0)
MEDUSA = DecodeConfig(method="medusa", temperature=1.0)
TYPICAL = DecodeConfig(method="medusa", rule="typical", temperature=0.7)
PLAIN = DecodeConfig(method="plain", temperature=1.0)
COLD = DecodeConfig(temperature=0.0)

HOSTILE = (
    "<b>bold</b>", "<a href='javascript:x'>", "${x}", "$x^2$", "@state.accepted", "@tree|{", "var:ink", "%{customdata[0]}", "&lt;", "שלום",
    "\u202eabc", "\ud800", "\x00\x1b\x7f", " ", "", "\n\n\t", "a" * 4000, "中" * 50, "e\u0301" * 40, "👩‍👩‍👧‍👦", "\\", '"', "\u200b",
)  # fmt: skip


def with_texts(step: Step, texts: tuple[str, ...]) -> Step:
    """A step whose tokens read as `texts`, in turn. Not validated: a real trace could not hold a lone surrogate."""
    named = {token: texts[i % len(texts)] for i, token in enumerate(sorted(step.texts))}
    tree = tuple(node.model_copy(update={"text": named[node.token_id]}) for node in step.tree)
    emitted = tuple(token.model_copy(update={"text": named.get(token.token_id, "")}) for token in step.emitted)
    return step.model_copy(update={"texts": named, "tree": tree, "emitted": emitted})


def sized(step: Step, nodes: int) -> Step:
    """The first `nodes` nodes of a step that accepted none of the others, as a tree of its own; leaves say nothing of q."""
    assert step.stopped_at < nodes
    tree = step.tree[:nodes]
    parents = {node.parent for node in tree}
    silent = dict.fromkeys(("q", "q_tail", "residual", "kl", "tv", "residual_draw"))
    rows = tuple(row if i in parents else row.model_copy(update=silent) for i, row in enumerate(step.rows[:nodes]))
    return step.model_copy(update={"tree": tree, "rows": rows})


STEPS: dict[str, tuple[Step, DecodeConfig]] = {
    "plain": (make_step(widths=(), config=PLAIN), PLAIN),
    "plain at temperature 0": (make_step(widths=(), config=DecodeConfig(method="plain")), DecodeConfig(method="plain")),
    "one candidate": (make_step(widths=(1,), config=REJECTION), REJECTION),
    "chain": (make_step(3, widths=(1,) * 5, config=REJECTION, seed=2), REJECTION),
    "long chain": (make_step(widths=(1,) * 32, config=REJECTION, outcome="accept"), REJECTION),
    "chain of 200": (make_step(widths=(1,) * 200, config=REJECTION), REJECTION),
    "all accepted": (make_step(widths=(3, 2), config=MEDUSA, outcome="accept"), MEDUSA),
    "all refused": (make_step(widths=(10, 2), config=MEDUSA, outcome="refuse"), MEDUSA),
    "chain refused": (make_step(widths=(1,) * 4, config=REJECTION, outcome="refuse"), REJECTION),
    "cut by the budget": (make_step(widths=(1,) * 5, config=REJECTION, outcome="accept", keep=2), REJECTION),
    "temperature 0": (make_step(widths=(3, 2, 1), config=COLD), COLD),
    "typical": (make_step(widths=(4, 2, 1), config=TYPICAL, seed=2), TYPICAL),
    "64 nodes": (sized(make_step(widths=(4, 4, 3), config=MEDUSA, outcome="refuse"), 64), MEDUSA),
    "257 nodes": (sized(make_step(widths=(6, 6, 4, 1), config=MEDUSA, outcome="refuse"), 257), MEDUSA),
    "hostile": (with_texts(make_step(widths=(5, 3, 1), config=REJECTION), HOSTILE), REJECTION),
    "hostile, typical": (with_texts(make_step(widths=(5, 3, 1), config=TYPICAL), HOSTILE), TYPICAL),
}
HEADERS: dict[str, Header] = {name: make_header(config) for name, (_, config) in STEPS.items()}
