"""Where the time of the steps went, against what plain decoding was measured to take for the same tokens."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from specviz.figures import plot
from specviz.figures.plot import Fig, Point, signif, takes
from specviz.trace import Header, Step

PARTS = ("propose", "verify", "commit")
_HOVER = "%{y:.3~s}s<extra></extra>"


@dataclass(frozen=True)
class TimingPoint:
    """Seconds of one step, measured. `decode` leaves `record` out, which decoding alone would not pay.

    `tokens` were committed, `per_token` = decode ÷ tokens. `plain` is the measured median time of a plain token (None without a
    baseline), `plain_total` = plain × tokens.
    """

    step: int
    propose: float
    verify: float
    commit: float
    record: float
    decode: float
    tokens: int
    per_token: float
    plain: float | None
    plain_total: float | None


@dataclass(frozen=True)
class TimingInfo:
    """One point a step."""

    points: tuple[TimingPoint, ...]


def timing_info(steps: Sequence[Step], header: Header) -> TimingInfo:
    """The times of `steps`."""
    plain = header.baseline.seconds_per_token if header.baseline and header.baseline.seconds else None
    return TimingInfo(tuple(_point(step, plain) for step in steps))


def _point(step: Step, plain: float | None) -> TimingPoint:
    parts, tokens = step.seconds, len(step.emitted)
    total = None if plain is None else plain * tokens
    each = parts.decode / tokens
    return TimingPoint(step.index, parts.propose, parts.verify, parts.commit, parts.record, parts.decode, tokens, each, plain, total)


def timing_points(info: TimingInfo) -> list[Point]:
    """The points as the player reads them."""
    whole = ("step", "tokens")
    return [{field: value if field in whole else signif(value) for field, value in asdict(point).items()} for point in info.points]


def draw_timing(info: TimingInfo | None = None, current: int | None = None) -> Fig:
    """The base figure, or with `info` the figure of those steps: a stacked bar each, and a dash where plain decoding of as many
    tokens would end. What the recording took is in the points, not in the bars: decoding alone would not pay it."""
    dash = {"symbol": "line-ew", "size": 9, "color": "var:ink", "line": {"color": "var:ink", "width": 2}}
    plain = {"type": "scatter", "mode": "markers", "marker": dash, "hovertemplate": _HOVER, "meta": takes("step", "plain_total")}
    signs = [("■", part, f"@timing.{part}") for part in PARTS]
    layout = plot.layout(
        (42, 8, 8, 34),
        barmode="stack",
        bargap=0.25,
        xaxis=plot.axis(showgrid=False, nticks=6, tickformat="d"),
        yaxis=plot.axis(rangemode="tozero", nticks=4, tickformat="~s", ticksuffix="s"),
        annotations=plot.legend([*signs, ("━", "ink", "@timing.plain")], 62, 26, -36),
    )
    base = {"data": [*(_part(part) for part in PARTS), plain], "layout": layout}
    return base if info is None else plot.filled(base, timing_points(info), current)


def _part(part: str) -> Fig:
    marker = {"color": f"var:{part}", "line": {"width": 0}}
    return {"type": "bar", "marker": marker, "hovertemplate": _HOVER, "meta": takes("step", part, fade=True)}
