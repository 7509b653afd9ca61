"""What the roofline in full shows, as points: measured passes by size and by batch, where they would lie for any batch on any machine,
and how much speculation would gain there. assets/player/panels/roofs.js makes the computed ones anew as the batch size moves.

    machines    {key, name, flops, bandwidth, ridge, origin: measured|datasheet, source (a date | a document), note (locale key | null),
                dash, stops (the batch size from which on speculation does not pay | null)}
    passes      {set: timing|batch|run|projected, kind, tokens (of each sequence), batch, machine, here (the run's machine), flops, bytes,
                seconds, intensity, achieved, origin: measured|computed, fault (above its roof), curve (on the line by tokens), label,
                step (run)}
    speed-ups   {set: curve|now|stops|measured, machine, batch, cost (a target pass in plain passes), speedup, origin}
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specviz.analysis import projection, roofline
from specviz.analysis.datasheets import DATASHEETS
from specviz.analysis.projection import Load, Speculation
from specviz.analysis.speed import speed
from specviz.figures.plot import Point, signif
from specviz.trace import Header, Pass, Step

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
HERE = "@roofs.here"
_DASHES = ("7px,3px", "2px,3px", "12px,4px", "7px,3px,2px,3px", "12px,3px,2px,3px,2px,3px", "1px,2px")


@dataclass(frozen=True)
class Machine:
    """A pair of roofs: `origin` "measured" (the run's machine; `source` is the date) or "datasheet" (`source` is a document).

    `key` stands in the points and figures: the name of a machine may come from a file, and figures obey what they read.
    """

    key: str
    name: str
    flops: float
    bandwidth: float
    origin: str
    source: str
    note: str | None
    dash: str

    @property
    def ridge(self) -> float:
        """FLOP/byte from which a pass is bound by arithmetic."""
        return self.flops / self.bandwidth

    @property
    def here(self) -> bool:
        """Whether it is the machine of the run."""
        return self.origin == "measured"


@dataclass(frozen=True)
class RoofsInfo:
    """The run's machine (none without peaks) and the others; the points of both figures; the keys of the others on show; the batch size;
    and `reach`, the highest intensity (FLOP/byte) that a pass has at the largest batch."""

    machines: tuple[Machine, ...]
    points: tuple[Point, ...]
    speedups: tuple[Point, ...]
    chosen: tuple[str, ...]
    batch: int
    reach: float

    @property
    def shown(self) -> list[Machine]:
        """The machines on show."""
        return _shown(self.machines, self.chosen)


def roofs_info(header: Header, steps: Sequence[Step] = (), batch: int = 1, chosen: Sequence[str] = ()) -> RoofsInfo:
    """Everything in both figures: measured passes and those of `steps`, and what is computed for `batch` on the machines on show."""
    everyone = machines(header)
    shown = _shown(everyone, chosen)
    points = [*measured_points(header), *_run_points(header, steps), *projected_points(header, batch, shown)]
    found = projection.speculation(header, steps)
    speedups = speedup_points(found, batch, shown, speed(steps, header.baseline).speedup) if found else []
    far = (point["intensity"] for point in projected_points(header, BATCHES[-1], everyone[:1]))
    return RoofsInfo(everyone, tuple(points), tuple(speedups), tuple(chosen), batch, max(far, default=1.0))


def machines(header: Header) -> tuple[Machine, ...]:
    """The run's machine, where its roofs were measured, and those of the datasheets."""
    peaks = header.peaks
    own = (Machine(HERE, peaks.device, peaks.flops, peaks.bandwidth, "measured", peaks.measured_on, None, "solid"),) if peaks else ()
    others = (
        Machine(sheet.name, sheet.name, sheet.flops, sheet.bandwidth, "datasheet", sheet.source, sheet.note, dash)
        for sheet, dash in zip(DATASHEETS, _DASHES, strict=True)
    )
    return (*own, *others)


def _shown(everyone: Sequence[Machine], chosen: Sequence[str]) -> list[Machine]:
    return [one for one in everyone if one.here or one.key in chosen]


def machine_rows(header: Header, steps: Sequence[Step] = ()) -> list[Point]:
    """The machines, each with the batch size at which speculation stops paying there (None: without steps, or where it never does)."""
    fields = ("key", "name", "flops", "bandwidth", "ridge", "origin", "source", "note", "dash")
    found = projection.speculation(header, steps)
    return [{field: getattr(one, field) for field in fields} | {"stops": found and found.stops(one)} for one in machines(header)]


def measured_points(header: Header) -> list[Point]:
    """The passes that were measured before the run: by their tokens ("timing"), and plain ones that served a batch ("batch")."""
    timings = header.timings
    if timings is None:
        return []
    works = [("timing", 1, work) for work in timings.passes] + [("batch", one.batch, one.work) for one in timings.batches]
    return [point for which, batch, work in works if (point := _measured(which, batch, work, header))]


def _run_points(header: Header, steps: Iterable[Step]) -> list[Point]:
    works = ((step.index, work) for step in steps for work in step.passes)
    return [point | {"step": step} for step, work in works if (point := _measured("run", 1, work, header))]


def _measured(which: str, batch: int, work: Pass, header: Header) -> Point | None:
    place = roofline.point(work, header.peaks)
    if place is None:
        return None
    counts = {"flops": work.flops, "bytes": work.bytes, "seconds": work.seconds, "intensity": place.intensity, "achieved": place.achieved}
    point = {"set": which, "kind": work.kind, "tokens": work.tokens // batch, "batch": batch, "machine": HERE, "here": True}
    curve = which == "timing" and work.kind in ("plain", "verify")
    label = _label(work, batch) if curve or batch > 1 else ""
    return point | _rounded(counts) | {"origin": "measured", "fault": place.above_roof, "curve": curve, "label": label}


def _label(work: Pass, batch: int) -> str:
    """What stands beside a measured mark: the plain pass alone is one mark of both sets, and labelled once."""
    if work.kind == "verify":
        return str(work.tokens)
    return f"B = {batch}" if batch > 1 else "n = 1"


def projected_points(header: Header, batch: int, shown: Iterable[Machine]) -> list[Point]:
    """The measured passes by their tokens, as they would lie for `batch` sequences on the roof of each machine."""
    passes = header.timings.passes if header.timings else ()
    loads = [(work, one) for work in passes if (one := projection.load(work))]
    return [_projected(work, one.times(batch), batch, machine) for machine in shown for work, one in loads]


def _projected(work: Pass, load: Load, batch: int, machine: Machine) -> Point:
    seconds = load.seconds(machine)
    counts = {"flops": load.flops, "bytes": load.bytes, "seconds": seconds}
    counts |= {"intensity": load.flops / load.bytes, "achieved": load.flops / seconds}
    point = {"set": "projected", "kind": work.kind, "tokens": work.tokens, "batch": batch, "machine": machine.key, "here": machine.here}
    return point | _rounded(counts) | {"origin": "computed", "fault": False, "curve": False}


def _rounded(counts: dict[str, float]) -> Point:
    return {name: signif(value) for name, value in counts.items()}


def speedup_points(found: Speculation, batch: int, shown: Iterable[Machine], measured: float | None) -> list[Point]:
    """Speed-ups by batch size: a "curve" for each machine, "now" on it, where it "stops" paying, and what was "measured" at B = 1."""
    points: list[Point] = []
    for machine in shown:
        points += [_speedup("curve", found, size, machine) for size in BATCHES]
        points.append(_speedup("now", found, batch, machine))
        stop = found.stops(machine)
        if stop is not None and 1 < stop <= BATCHES[-1]:
            points.append(_speedup("stops", found, stop, machine))
        if machine.here and measured is not None:
            done = {"set": "measured", "machine": machine.key, "batch": 1, "cost": None, "speedup": signif(measured)}
            points.append(done | {"origin": "measured"})
    return points


def _speedup(which: str, found: Speculation, batch: int, machine: Machine) -> Point:
    sizes = {"cost": signif(found.cost(machine, batch)), "speedup": signif(found.speedup(machine, batch))}
    return {"set": which, "machine": machine.key, "batch": batch, **sizes, "origin": "computed"}
