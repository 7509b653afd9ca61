"""How far the proposer is from the target along the text, and what came of it.

KL(p‖q) in nats above; below, one curve cuts the height into 1 − TV (under it) and TV (over it). 1 − TV = Σ min(p, q) is the chance that a
token drawn from q is accepted by rejection sampling (Leviathan et al. 2023, theorem 3.5); the marks say what was observed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from specviz.analysis.quantities import number
from specviz.figures import plot
from specviz.figures.palette import STATES
from specviz.figures.plot import Fig, Point, signif, takes
from specviz.figures.text import key
from specviz.trace import Header, Step


@dataclass(frozen=True)
class DivergencePoint:
    """p against q at one position of the text (1 is the first new token): after `node`, for the token that was decided there.

    `missing` is the mass of p where q is 0 (KL is taken over the rest, and is None where q was copied from the text: it would be of a few
    tokens only). `tested` candidates were tried; `outcome` is "accepted" when one passed, else "refused".
    """

    step: int
    position: int
    node: int
    kl: float | None
    tv: float
    overlap: float
    missing: float
    tested: int
    outcome: str


@dataclass(frozen=True)
class DivergenceInfo:
    """The points of a run, or of a step, in the order of the text."""

    points: tuple[DivergencePoint, ...]

    @property
    def expected(self) -> float | None:
        """The mean of 1 − TV (computed)."""
        return sum(p.overlap for p in self.points) / len(self.points) if self.points else None

    @property
    def observed(self) -> float | None:
        """The share of positions at which a candidate was accepted (measured)."""
        return sum(p.outcome == "accepted" for p in self.points) / len(self.points) if self.points else None


def divergence_info(steps: Sequence[Step], header: Header) -> DivergenceInfo:
    """The nodes on the accepted paths of `steps`, as far as their tokens were committed."""
    return DivergenceInfo(tuple(point for step in steps for point in _points(step, len(header.prompt_ids))))


def _points(step: Step, prompt: int) -> list[DivergencePoint]:
    path = step.path(step.stopped_at)
    points = []
    for depth, node in enumerate(path[: len(step.emitted)]):
        row = step.rows[node]
        tested = [child for child in step.children(node) if step.tree[child].verdict in ("accepted", "refused")]
        if row.kl is None or row.tv is None or not tested:
            continue
        outcome = "accepted" if depth + 1 < len(path) else "refused"
        position = step.context - prompt + depth + 1
        kl = None if step.matches else row.kl
        points.append(DivergencePoint(step.index, position, node, kl, row.tv, max(0.0, 1 - row.tv), row.kl_missing, len(tested), outcome))
    return points


def divergence_points(info: DivergenceInfo) -> list[Point]:
    """The points as the player reads them."""
    rounded = ("kl", "tv", "overlap", "missing")
    return [{field: signif(value) if field in rounded else value for field, value in asdict(point).items()} for point in info.points]


def draw_divergence(info: DivergenceInfo | None = None, current: int | None = None) -> Fig:
    """The base figure, or with `info` the figure of those points, step `current` in the accent."""
    kl = {"type": "bar", "width": 0.72, "marker": {"color": "var:accent", "line": {"width": 0}}}
    overlap = {"type": "scatter", "mode": "lines", "yaxis": "y2", "line": {"color": "var:accent", "width": 1}}
    data = [
        kl | {"hovertemplate": "KL = %{y} nats<extra></extra>", "meta": takes("position", "kl", fade=True)},
        overlap | {"fill": "tozeroy", "fillcolor": "var:accent_wash", "hoverinfo": "skip", "meta": takes("position", "overlap")},
        *(_marks(outcome) for outcome in ("accepted", "refused")),
    ]
    notes = [plot.note("@divergence.kl"), plot.note("@divergence.overlap", y=0.41), plot.note("", x=1, y=0.41, xanchor="right")]
    layout = plot.layout(
        (36, 8, 16, 22),
        xaxis=plot.axis(anchor="y2", showgrid=False, nticks=6, tickformat="d"),
        yaxis=plot.axis(domain=[0.56, 1], rangemode="tozero", nticks=3),
        yaxis2=plot.axis(domain=[0, 0.4], range=[0, 1.04], tickvals=[0, 0.5, 1]),
        annotations=notes,
    )
    base = {"data": data, "layout": layout}
    if info is None:
        return base
    notes[2]["text"] = summary(info)
    return plot.filled(base, divergence_points(info), current)


def _marks(outcome: str) -> Fig:
    sign = STATES[outcome]
    marker = {"symbol": sign.symbol, "size": 6, "color": f"var:{sign.fill}", "line": {"color": f"var:{sign.colour}", "width": 1.5}}
    trace = {"type": "scatter", "mode": "markers", "yaxis": "y2", "marker": marker, "hovertemplate": "1 − TV = %{y}<extra></extra>"}
    return trace | {"meta": takes("position", "overlap", {"outcome": outcome}, fade=True)}


def summary(info: DivergenceInfo) -> str:
    """Expected and observed acceptance, in words; "" before the first point."""
    if info.expected is None or info.observed is None:
        return ""
    return key("divergence.summary", expected=number(info.expected, 2), observed=number(info.observed, 2))
