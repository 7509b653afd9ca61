"""Each pass against the roofs of the machine (Williams, Waterman, Patterson 2009): achieved FLOP/s over FLOP per byte.

    roof(intensity) = min(peak FLOP/s, intensity · bandwidth)

FLOPs and bytes are computed from the model's dimensions, seconds are measured, roofs are measured on this machine. No pass can lie above
a true roof. One that does is a fault, never a win, and is flagged: left of the ridge its weights were read from a cache, which is faster
than the memory that the roof stands for, or the bandwidth was measured too low on a busy machine; right of it the peak was.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from specviz.trace import Pass, PassKind, Peaks

TOLERANCE = 0.05  # a point this far above its roof may still be the clock's and the calibration's own scatter


@dataclass(frozen=True)
class Point:
    """A pass in the roofline: intensity in FLOP/byte, achieved and roof in FLOP/s. Without peaks there is no roof."""

    kind: PassKind
    tokens: int
    context: int
    intensity: float
    achieved: float
    roof: float | None

    @property
    def share(self) -> float | None:
        """Achieved as a fraction of the roof."""
        return None if self.roof is None else self.achieved / self.roof

    @property
    def above_roof(self) -> bool:
        """Whether the point is a fault: more than the tolerance above its roof."""
        return self.share is not None and self.share > 1 + TOLERANCE


def roof(intensity: float, peaks: Peaks) -> float:
    """The most FLOP/s that a pass of `intensity` can reach."""
    return min(peaks.flops, intensity * peaks.bandwidth)


def point(work: Pass, peaks: Peaks | None) -> Point | None:
    """Where a pass lies; None for one without operations, bytes or a measurable time."""
    if not (work.flops > 0 and work.bytes > 0 and work.seconds > 0):
        return None
    intensity = work.flops / work.bytes
    top = None if peaks is None else roof(intensity, peaks)
    return Point(work.kind, work.tokens, work.context, intensity, work.flops / work.seconds, top)


def points(passes: Iterable[Pass], peaks: Peaks | None) -> dict[PassKind, list[Point]]:
    """The points of many passes, by kind, in the order in which they ran."""
    groups: dict[PassKind, list[Point]] = defaultdict(list)
    for work in passes:
        placed = point(work, peaks)
        if placed is not None:
            groups[work.kind].append(placed)
    return dict(groups)


def fault(place: Point, peaks: Peaks) -> str | None:
    """The locale key that says what a point above its roof means; None for one below."""
    if not place.above_roof:
        return None
    return "roofline.above_memory" if place.intensity < peaks.ridge else "roofline.above_arithmetic"
