"""p against q after a node: what the target and the proposer said about the next token, side by side.

One base figure serves every node; a node is a handful of short arrays. Where a token was recovered by rejection sampling the residual
p′ = (p − q)₊ / Σ(p − q)₊ lies behind the bars; under the typical rule a line marks the threshold min(ε, δ·e^(−H)).
"""

from dataclasses import dataclass
from typing import Any

from specviz.analysis.quantities import number
from specviz.config import DecodeConfig
from specviz.figures import plot
from specviz.figures.palette import STATES
from specviz.figures.plot import Fig, signif, signifs
from specviz.figures.text import key, label, visible
from specviz.trace import Row, Step

BARS = 9  # tokens shown by name; one more bar is the rest of the vocabulary
FIRST_CHOICES = 3  # tokens most probable under p that are always among them
_LABEL = 10  # characters
_LETTER = {"residual": "p′", "p": "p", "q": "q"}
_CLEAR = "rgba(0,0,0,0)"


@dataclass(frozen=True)
class DistributionInfo:
    """Bars from the most probable token down; the last one is the rest. `q` and `residual` are None where there is none to show.

    `children[b]` is the node that proposes bar b's token, or −1; `extra` is the bar of the token drawn here that no candidate proposed.
    """

    names: tuple[str, ...]
    p: tuple[float, ...]
    q: tuple[float, ...] | None
    residual: tuple[float, ...] | None
    children: tuple[int, ...]
    extra: int | None
    entropy: float
    threshold: float | None


def distribution_info(step: Step, node: int, config: DecodeConfig) -> DistributionInfo:
    """The bars after `node`: its children, the token drawn there, and the most probable tokens of p and q."""
    row, last = step.rows[node], step.emitted[-1]
    proposed = {step.tree[child].token_id: child for child in step.children(node)}
    drawn = last.token_id if last.node is None and node == step.stopped_at else None
    shown = _shown(row, set(proposed), drawn)
    recovered = last.kind == "recovered" and drawn is not None and config.rule == "rejection" and not config.greedy
    tokens = [row.ids[i] for i in shown]
    return DistributionInfo(
        names=tuple(visible(step.texts[token]) for token in tokens),
        p=_with_rest(row.p, shown),
        q=_with_rest(row.q, shown) if row.q else None,
        residual=_with_rest(row.residual, shown) if row.residual and recovered else None,
        children=(*(proposed.get(token, -1) for token in tokens), -1),
        extra=tokens.index(drawn) if drawn in tokens else None,
        entropy=row.entropy,
        threshold=row.threshold if config.rule == "typical" and not config.greedy else None,
    )


def _shown(row: Row, proposed: set[int], drawn: int | None) -> list[int]:
    """Places in the row of at most BARS tokens, in the row's own order.

    The drawn one and the target's first choices come before the candidates, so that a wide tree of bad guesses cannot hide what the
    target wanted; then the candidates, and all others, by the larger of p and q.
    """
    q = row.q or row.p
    chances = [max(pair) for pair in zip(row.p, q, strict=True)]
    wanted = set(sorted(range(len(row.ids)), key=lambda i: -row.p[i])[:FIRST_CHOICES])
    best = sorted(range(len(row.ids)), key=lambda i: (row.ids[i] != drawn, i not in wanted, row.ids[i] not in proposed, -chances[i]))
    return sorted(best[:BARS])


def _with_rest(column: tuple[float, ...], shown: list[int]) -> tuple[float, ...]:
    values = [column[i] for i in shown]
    return (*values, max(0.0, 1 - sum(values)))


def patch(info: DistributionInfo) -> dict[str, Any]:
    """What turns the base figure into that of one node (see `patched`)."""
    bars = [signifs(column or (), 3) for column in (info.residual, info.p, info.q)]
    return {
        "x": [*bars, [] if info.threshold is None else [signif(info.threshold)] * 2],
        "labels": [*(label(name, _LABEL) for name in info.names), "@distribution.rest"],
        "children": list(info.children),
        "extra": -1 if info.extra is None else info.extra,
        "entropy": signif(info.entropy),
        "top": max(0.05, *(value or 0 for column in bars for value in column)),
    }


def _title(node: dict[str, Any]) -> str:
    """H, and the threshold where there is one."""
    entropy, line = number(node["entropy"]), node["x"][3]
    return (
        key("distribution.threshold", entropy=entropy, threshold=number(line[0], 2))
        if line
        else key("distribution.entropy", entropy=entropy)
    )


def draw_distribution(info: DistributionInfo | None = None) -> Fig:
    """The base figure, or with `info` the figure of one node (its candidates not yet marked with their verdicts)."""
    rows = list(range(BARS + 1))
    hatch = {"shape": "/", "size": 5, "solidity": 0.18, "fgcolor": "var:residual", "bgcolor": _CLEAR}
    threshold = {"mode": "lines", "x": [], "y": [-0.6, BARS + 0.6], "line": {"color": "var:refused", "width": 1.4, "dash": "dash"}}
    data = [
        _bars("residual", rows, -0.45, 0.9, {"color": _CLEAR, "line": {"color": "var:residual", "width": 1}, "pattern": hatch}),
        _bars("p", rows, -0.36, 0.38, {"color": "var:p", "line": {"width": 0}}),
        _bars("q", rows, 0.05, 0.28, {"color": "var:q", "line": {"width": 0}}),
        {"type": "scatter", **threshold, "hoverinfo": "skip", "meta": {"role": "threshold"}},
        {"type": "scatter", "mode": "markers", "x": [], "y": [], "hoverinfo": "skip", "cliponaxis": False, "meta": {"role": "signs"}},
    ]
    left = 82
    signs = [("■", "p", "@distribution.p"), ("■", "q", "@distribution.q"), ("▨", "residual", "@distribution.residual")]
    labels = {"size": plot.NORMAL, "color": "var:ink"}
    layout = plot.layout(
        (left, 10, 22, 44),
        xaxis=plot.axis(range=[-0.07, 1.14], nticks=5, tickformat="~g"),
        yaxis=plot.axis(tickvals=rows, ticktext=[""] * len(rows), range=[BARS + 0.6, -0.6], showgrid=False, tickfont=labels),
        barmode="overlay",
        annotations=[plot.note("", yshift=2, xshift=8 - left), *plot.legend(signs, 88, 34, 14 - left)],
    )
    base = {"data": data, "layout": layout}
    return patched(base, patch(info)) if info else base


def _bars(name: str, rows: list[int], offset: float, width: float, marker: dict[str, Any]) -> Fig:
    bars = {"type": "bar", "orientation": "h", "x": [], "y": rows, "offset": offset, "width": width, "marker": marker}
    return bars | {"hovertemplate": f"{_LETTER[name]} = %{{x}}<extra></extra>", "meta": {"role": name}}


def patched(base: Fig, node: dict[str, Any], states: tuple[str, ...] | list[str] = ()) -> Fig:
    """A base figure with a node's patch; `states` (of the nodes, and of the extra token) give the candidates' signs."""
    count = len(node["labels"])
    data = [dict(trace) for trace in base["data"]]
    for trace, x in zip(data, node["x"], strict=False):
        trace |= {"x": x, "visible": bool(x)}
    for trace in data[:3]:
        trace["y"] = list(range(count))
    marks = [(bar, states[child]) for bar, child in enumerate(node["children"]) if 0 <= child < len(states)]
    if node["extra"] >= 0 and states:
        marks.append((node["extra"], states[-1]))
    signs = [STATES[state] for _, state in marks]
    marker = {"symbol": [sign.symbol for sign in signs], "size": 8, "color": [f"var:{sign.fill}" for sign in signs]}
    marker["line"] = {"color": [f"var:{sign.colour}" for sign in signs], "width": 1.6}
    data[4] |= {"x": [-0.035 * node["top"]] * len(marks), "y": [bar for bar, _ in marks], "marker": marker}
    layout = dict(base["layout"])
    layout["xaxis"] = layout["xaxis"] | {"range": [-0.07 * node["top"], 1.14 * node["top"]]}
    layout["yaxis"] = layout["yaxis"] | {"ticktext": node["labels"], "range": [count - 0.4, -0.6]}
    layout["annotations"] = [layout["annotations"][0] | {"text": _title(node)}, *layout["annotations"][1:]]
    return {"data": data, "layout": layout}
