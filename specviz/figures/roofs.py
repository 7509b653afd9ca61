"""The roofline in full: what passes of every size and batch achieved under the roofs of this machine, where they would lie for any batch
under these and other roofs, and from which batch size on speculation stops paying.

Solid marks are measured, hollow ones computed (specviz/analysis/projection.py): they lie on a roof, because a pass is taken to reach it.
The run's machine has measured roofs, drawn as a solid line; dashed lines are datasheets'.
"""

import math

from specviz.analysis.datasheets import DATASHEETS
from specviz.analysis.quantities import number
from specviz.figures import plot
from specviz.figures.plot import Fig, Point, si, signif, signifs, takes
from specviz.figures.roofline import KINDS
from specviz.figures.roofs_points import BATCHES, Machine, RoofsInfo
from specviz.figures.text import key

_LOW = 0.25  # FLOP/byte where the roofs begin: below a plain pass in fp32
_HOVER = ("tokens", "batch", "seconds", "machine")
_COUNTS = "n = %{customdata[0]}, B = %{customdata[1]}: %{customdata[2]:.3~s}s"
_TEMPLATE = f"{_COUNTS}<br>%{{x:.3~g}} FLOP/byte, %{{y:.3~s}}FLOP/s<br>%{{customdata[3]}}<extra></extra>"
_SPEEDUP = "%{customdata[0]}<br>B = %{x}: %{y:.3~g}×<extra></extra>"


def draw_roofs(info: RoofsInfo) -> Fig:
    """The roofline with its points."""
    return plot.filled(base_roofs(info), info.points)


def base_roofs(info: RoofsInfo) -> Fig:
    """Roofs and axes. These do not move with the batch size, so that the points do; upwards they follow the machines on show."""
    own = next((one for one in info.machines if one.here), None)
    reach = 1.5 * max(info.reach, *(one.ridge for one in info.machines))  # where the roofs end
    roofs = [_roof(one, reach, one in info.shown) for one in info.machines]
    timing = [_marks({"set": "timing", "kind": kind, "fault": False}, kind, labelled=kind in ("plain", "verify")) for kind in KINDS]
    projected = [_marks({"set": "projected", "kind": kind}, kind, hollow=True) for kind in KINDS]
    layout = plot.layout(
        (46, 10, 8, 34),
        xaxis=plot.axis(type="log", range=_powers(_LOW, reach), dtick=1, exponentformat="none", title=_title("roofs.intensity")),
        yaxis=plot.axis(type="log", range=_powers(*_heights(info)), **_ticks(), title=_title("roofs.rate")),
        annotations=_numbers(own) if own else [],
        shapes=[_ridge(own)] if own else [],
    )
    return {"data": [*roofs, _run(), _curve(), *projected, *timing, _batches(), _faults()], "layout": layout}


def _heights(info: RoofsInfo) -> tuple[float, float]:
    rates = [point["achieved"] for point in info.points if point["set"] in ("timing", "batch")]
    floor = [_LOW * one.bandwidth for one in info.machines if one.here]
    return 0.6 * min([*rates, *floor], default=1e9), 2 * max((one.flops for one in info.shown), default=1e12)


def _powers(low: float, high: float) -> list[float]:
    return [round(math.log10(low), 3), round(math.log10(high), 3)]


def _ticks() -> Fig:
    """Every power of ten with its prefix; plotly has none from 10¹⁵ on."""
    powers = range(5, 18)
    return {"tickvals": [10**power for power in powers], "ticktext": [f"{10 ** (power % 3)}{'kMGTPE'[power // 3 - 1]}" for power in powers]}


def _title(name: str) -> Fig:
    return {"text": key(name), "font": {"size": plot.SMALL, "color": "var:soft"}, "standoff": 4}


def _roof(machine: Machine, reach: float, shown: bool) -> Fig:
    """Up along the bandwidth to the ridge, then level. Names stand in turn at the ridge and at the end: some roofs are equally high."""
    x, y = [_LOW, machine.ridge, reach], [_LOW * machine.bandwidth, machine.flops, machine.flops]
    trace = {"type": "scatter", "mode": "lines+text", "x": signifs(x), "y": signifs(y), "line": _stroke(machine), "hoverinfo": "skip"}
    order = sorted(DATASHEETS, key=lambda sheet: sheet.flops)
    early = not machine.here and [sheet.name for sheet in order].index(machine.key) % 2 == 0
    text = [] if machine.here else ["", machine.key, ""] if early else ["", "", machine.key]
    place = {
        "text": text,
        "textposition": "top right" if early else "top left",
        "textfont": {"size": plot.SMALL, "color": "var:soft", "shadow": "auto"},
    }
    return trace | place | {"visible": shown, "meta": {"role": "roof", "machine": machine.key, "here": machine.here}}


def _run() -> Fig:
    """The passes of the run itself, faint."""
    return _passes({"set": "run", "fault": False}, {"size": 5, "color": "var:faint", "opacity": 0.45})


def _marks(where: Point, kind: str, hollow: bool = False, labelled: bool = False) -> Fig:
    colour, symbol = KINDS[kind]
    line = {"color": f"var:{colour if hollow else 'card'}", "width": 1.5 if hollow else 0.8}
    return _passes(where, {"symbol": symbol + "-open" * hollow, "size": 9, "color": f"var:{colour}", "line": line}, labelled)


def _batches() -> Fig:
    """Plain passes that served a batch, measured."""
    look = {"symbol": "cross", "size": 9, "color": "var:residual", "line": {"color": "var:card", "width": 0.8}}
    return _passes({"set": "batch", "fault": False}, look, True, "top left")


def _faults() -> Fig:
    """Measured passes above their roof, whatever their kind."""
    return _passes({"fault": True}, {"symbol": "x-thin", "size": 10, "color": "var:fault", "line": {"color": "var:fault", "width": 2}})


def _passes(where: Point, look: Fig, labelled: bool = False, place: str = "bottom right") -> Fig:
    words = _labels("%{customdata[4]}", place, "soft") if labelled else {}
    trace = {"type": "scatter", "mode": "markers+text" if labelled else "markers", "marker": look, **words, "hovertemplate": _TEMPLATE}
    return trace | {"meta": takes("intensity", "achieved", where, hover=(*_HOVER, "label") if labelled else _HOVER)}


def _labels(template: str, place: str, colour: str) -> Fig:
    return {"texttemplate": template, "textposition": place, "textfont": {"size": plot.SMALL, "color": f"var:{colour}"}}


def _curve() -> Fig:
    """The line through the target's passes of 1, 2, 4 … tokens."""
    meta = takes("intensity", "achieved", {"curve": True})
    return {"type": "scatter", "mode": "lines", "line": {"color": "var:p", "width": 1}, "hoverinfo": "skip", "meta": meta}


def _ridge(machine: Machine) -> Fig:
    dots = {"color": "var:faint", "width": 1, "dash": "dot"}
    x = signif(machine.ridge)
    return {"type": "line", "layer": "below", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": dots}


def _numbers(machine: Machine) -> list[Fig]:
    """The numbers of the measured roof, on it; annotations on logarithmic axes take powers of ten."""
    flops, bandwidth = key("roofline.flops", value=si(machine.flops)), key("roofline.bandwidth", value=si(machine.bandwidth))
    left, ridge, top, low = (round(math.log10(x), 3) for x in (_LOW, machine.ridge, machine.flops, _LOW * machine.bandwidth))
    return [
        plot.note(flops, yref="y", x=1, y=top, xanchor="right"),
        plot.note(bandwidth, xref="x", yref="y", x=left, y=low, xshift=8, yanchor="top"),
        plot.note(key("roofline.ridge", value=number(machine.ridge, 2)), xref="x", x=ridge, y=0.01, xshift=3),
    ]


def draw_speedups(info: RoofsInfo) -> Fig:
    """Speed-up over plain decoding by the batch size, with its points."""
    return plot.filled(base_speedups(info), info.speedups)


def base_speedups(info: RoofsInfo) -> Fig:
    """The axes, and the line at 1: below it speculation does not pay."""
    ticks = [size for size in BATCHES if math.log2(size) % 2 == 0]
    one = {"type": "line", "layer": "below", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"color": "var:edge", "width": 2}}
    layout = plot.layout(
        (34, 10, 8, 34),
        xaxis=plot.axis(type="log", range=_powers(0.88, 1.2 * BATCHES[-1]), tickvals=ticks, title=_title("roofs.batch")),
        yaxis=plot.axis(rangemode="tozero", nticks=6, title=_title("roofs.speedup")),
        shapes=[one, batch_line(info.batch)],
    )
    lines = [_line(machine, machine in info.shown) for machine in info.machines]
    return {"data": [*lines, _stops(), _now(), _done()], "layout": layout}


def batch_line(batch: int) -> Fig:
    """The batch size that is looked at."""
    look = {"color": "var:accent", "width": 1, "dash": "dot"}
    return {"type": "line", "layer": "below", "x0": batch, "x1": batch, "yref": "paper", "y0": 0, "y1": 1, "line": look}


def _line(machine: Machine, shown: bool) -> Fig:
    meta = takes("batch", "speedup", {"set": "curve", "machine": machine.key}, hover=("machine",)) | {"machine": machine.key}
    return {"type": "scatter", "mode": "lines", "line": _stroke(machine), "visible": shown, "hovertemplate": _SPEEDUP, "meta": meta}


def _stroke(machine: Machine) -> Fig:
    return {"color": "var:roof" if machine.here else "var:datasheet", "width": 2 if machine.here else 1.4, "dash": machine.dash}


def _stops() -> Fig:
    """Where each machine's curve falls to the line at 1."""
    return _dots("stops", {"symbol": "line-ns", "size": 11, "line": {"color": "var:refused", "width": 2.5}}, "%{x}")


def _now() -> Fig:
    """The batch size that is looked at, on each curve."""
    return _dots("now", {"symbol": "circle-open", "size": 9, "color": "var:accent", "line": {"color": "var:accent", "width": 1.8}})


def _done() -> Fig:
    """What the run itself reached, measured."""
    return _dots("measured", {"symbol": "circle", "size": 9, "color": "var:accepted", "line": {"color": "var:card", "width": 0.8}})


def _dots(which: str, look: Fig, label: str = "") -> Fig:
    words = _labels(label, "bottom center", "refused_text") if label else {}
    trace = {"type": "scatter", "mode": "markers+text" if label else "markers", "marker": look, **words, "hovertemplate": _SPEEDUP}
    return trace | {"meta": takes("batch", "speedup", {"set": which}, hover=("machine",))}
