"""The table twin of each figure: the same numbers as plain rows, for whoever cannot or would not look at the picture."""

from collections.abc import Sequence
from typing import Any

from specviz.analysis.acceptance import Acceptance
from specviz.analysis.slow import Why, causes
from specviz.figures.mask import MaskInfo
from specviz.figures.text import visible
from specviz.i18n import t
from specviz.trace import Step

Row = dict[str, Any]

# figure: the fields of a row by column; the title of a column is the text "table.<field>"
FIELDS = {
    "tree": ("index", "token", "parent", "depth", "q", "p", "state"),
    "mask": ("index", "token", "position", "sees"),
    "distribution": ("token", "p", "q", "residual", "child"),
    "divergence": ("position", "kl", "tv", "overlap", "missing", "tested", "outcome"),
    "timing": ("step", "propose", "verify", "commit", "record", "tokens", "per_token", "plain"),
    "roofline": ("step", "kind", "tokens", "flops", "bytes", "seconds", "intensity", "achieved", "roof"),
    "why": ("part", "ms", "share"),
    "acceptance": ("figure", "depth", "over", "under", "value"),
    "cost": ("at", "rows", "expected", "drafting", "verifying", "outside", "cost", "speedup"),
    "roofs": ("kind", "tokens", "batch", "machine", "flops", "bytes", "seconds", "intensity", "achieved", "origin"),
    "roofs_machines": ("name", "flops", "bandwidth", "ridge", "stops", "origin", "source"),
    "roofs_speedups": ("machine", "batch", "cost", "speedup", "origin"),
    "typical": ("step", "token", "entropy", "p", "threshold", "state"),
    "rules": ("rule", "accepted", "tested", "per_step", "own_steps", "own_per_step", "parts", "emitted_kl"),
}
_TITLES = {"index": "node", "child": "node", "outcome": "state"}  # fields that share another's title
# fields that mean something else in one table
_OTHERWISE = {("cost", "cost"): "step_seconds", ("roofs", "seconds"): "time", ("roofs_machines", "flops"): "peak"}
TABLES = {
    name: [(f"@table.{_OTHERWISE.get((name, field)) or _TITLES.get(field, field)}", field) for field in fields]
    for name, fields in FIELDS.items()
}
# fields whose values are words of the program: shown as the text of this key and the value
WORDS = {"state": "state", "outcome": "state", "kind": "roofline", "origin": "origin", "part": "slow", "figure": "acceptance"}


def tree_rows(step: Step) -> list[Row]:
    """A row for each candidate."""
    rows: list[Row] = []
    for i, node in enumerate(step.tree):
        depth = rows[node.parent]["depth"] + 1 if i else 0
        row = {"index": i, "token": visible(node.text), "parent": node.parent if i else None, "depth": depth}
        rows.append(row | {"q": node.q, "p": node.p, "state": node.verdict})
    return rows


def mask_rows(info: MaskInfo) -> list[Row]:
    """A row for each row of the mask; `sees` lists the nodes (the context is seen by all)."""
    columns = zip(info.names, info.positions, info.cells, strict=True)
    return [
        {"index": i, "token": name, "position": place, "sees": " ".join(map(str, cells))} for i, (name, place, cells) in enumerate(columns)
    ]


def distribution_rows(names: Sequence[str], patch: Row) -> list[Row]:
    """A row for each bar of a node's patch; `names` are the bars' readable texts, the last bar is the rest."""
    residual, p, q, _ = patch["x"]
    columns = [column or [None] * len(p) for column in (p, q, residual)]
    children = [child if child >= 0 else None for child in patch["children"]]
    return [
        dict(zip(("token", "p", "q", "residual", "child"), row, strict=True)) for row in zip([*names, "…"], *columns, children, strict=True)
    ]


def why_rows(found: Why) -> list[Row]:
    """A row for each part of a step's time and of its tokens' worth, in milliseconds; `share` is given for what keeps it from more."""
    shares: dict[str, float] = {cause.name: cause.share for cause in causes(found)}
    parts = {"one": found.plain, "drafting": found.drafting, "verifying": found.verifying, "overhead": found.overhead, "step": found.step}
    parts |= {"worth": found.tokens * found.plain, "gain": found.gain, "refused": found.refused, "cut": found.cut}
    parts["ideal"] = found.full + found.plain
    return [{"part": part, "ms": 1000 * seconds, "share": shares.get(part)} for part, seconds in parts.items()]


def acceptance_rows(counts: Acceptance) -> list[Row]:
    """A row for each figure and each depth: what was counted, of how many."""
    expected = counts.expected_rate
    rows: list[Row] = [
        {"figure": "tokens_per_step", "over": counts.tokens, "under": counts.steps, "value": counts.tokens_per_step},
        {"figure": "rate", "over": counts.accepted, "under": counts.tested, "value": counts.rate},
        {"figure": "yield", "over": counts.accepted, "under": counts.drafted, "value": counts.yield_},
        {"figure": "expected", "over": None if expected is None else counts.overlap, "under": counts.compared or None, "value": expected},
    ]
    for at, depth in enumerate(counts.depths, 1):
        rows.append({"figure": "depth", "depth": at, "over": depth.accepted, "under": depth.reached, "value": depth.rate})
    return [{"depth": None} | row for row in rows]


def table(name: str, rows: Sequence[Row], lang: str) -> list[list[str]]:
    """The table of a figure in words: the line of titles, then a line for each row (an empty cell where there is no value)."""
    titles = [t(lang, title[1:]) for title, _ in TABLES[name]]
    return [titles] + [[_cell(field, row.get(field), lang) for _, field in TABLES[name]] for row in rows]


def _cell(field: str, value: Any, lang: str) -> str:
    if value is None:
        return ""
    if field in WORDS:
        return t(lang, f"{WORDS[field]}.{value}")
    if field == "rule":
        return t(lang, "player." + f"name_{value}")
    if field == "machine":
        return t(lang, value.removeprefix("@")) if value.startswith("@") else str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
