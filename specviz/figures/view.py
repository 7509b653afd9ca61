"""Everything that the step player needs to draw a run, as plain JSON: header once, then one view a step.

A *fig* is {"data": [...], "layout": {...}} of plotly, without a template. Figures know no language and no theme: in a fig (and only
there) a string that starts with "@" is a locale key, with its arguments behind a bar ("@key|{"name": "value"}"), and a string that
starts with "var:" is a name of the palette. Text of tokens is already escaped where it stands in a fig (it never starts with "@" or
"var:", and holds no raw "<"); strings outside a fig are raw and belong in `textContent`. `localised` resolves both in Python.

    header_view = {
      "header":  Header as JSON
      "palette": palette.table(): {"colours": {"light": {name: hex}, "dark": {…}}, "states": {state: {fill, colour, text, symbol, dash,
                 letter, underline, size, width}}, "font": css}
      "figures": {"roofline": fig, "divergence": fig, "timing": fig, "distribution": fig, "cost": fig, "roofs": fig,
                 "speedups": fig}                               bases
      "points":  {"roofline": [point…], "roofs": [point…]}  plain decoding's passes; those measured before the run (empty without)
      "tables":  {name: [["@title", field]…]}                the columns of each figure's table twin
    }
    step_view = {
      "step":    Step as JSON
      "figures": {"tree": tree, "mask": mask, "distribution": {"nodes": [patch…]}}
      "points":  {"roofline": [point…], "divergence": [point…], "timing": point}
    }
    run_view = {"id": str, "recorded": bool, **header_view, "steps": [step_view…], "ended": str | None}

tree = fig + {"states": […], "extra": bool, "stride": int, "scale": float}
    Geometry without looks (draw_tree puts them on in Python). Points of the trace with meta.role "nodes" are the nodes in order; when
    `extra` is true one more follows: the token that no candidate proposed, a child of step.stopped_at. So pointIndex i < len(step.tree)
    is node i, and i == len(step.tree) is the extra. `states` (at the end of the step) runs in parallel: root, accepted, refused,
    untested | recovered, bonus, plain for the extra; the player may also use "pending" and "hidden". To show any states, for every
    point, with sign = palette.states[state]:
        nodes.marker.symbol = sign.symbol                nodes.marker.size = sign.size · scale
        nodes.marker.color = "var:" + sign.fill          nodes.marker.line.color = "var:" + sign.colour
        nodes.textfont.color = "var:" + sign.text        hidden: size 0 and text "" (labels are "" already where there is no room)
        nodes.customdata[i] = [token, q, p] and then "@state.…"; before verify, without p
    Edges: trace "edges" holds the edge to point i ≥ 1 at [(i−1)·stride, i·stride) of its x and y (it ends with a null). Traces with role
    "edge" and meta.state lie over it: x and y of each are the slices of the points in that state.

mask = {"cached": tokens seen by every row, "cells": [[column…]…], "positions": [position id…]}
    Row i and column i are node i; row i sees the cached context and the columns in cells[i] (its ancestors and itself, ascending).

distribution of node i: header_view.figures.distribution with patch = step_view.figures.distribution.nodes[i] (see distribution.patched):
    patch = {"x": [residual, p, q, threshold line], "labels": [escaped…], "children": [node|−1 …], "extra": bar|−1, "entropy", "top"}
    data[t].x = patch.x[t] and data[t].visible = patch.x[t] is not empty, for t = 0…3; data[0…2].y = 0, 1, … one a bar.
    data[4], signs of the candidates: a point at x = −0.035·top, y = bar for each bar with children[bar] ≥ 0, looking like the state of
    that node (marker as in the tree, size 8), and one for `extra` with the state of the extra token; none that is hidden.
    layout.yaxis.ticktext = labels, .range = [bars − 0.4, −0.6]; layout.xaxis.range = [−0.07·top, 1.14·top];
    layout.annotations[0].text = H and, under the typical rule, the threshold x[3][0]. The last bar is the rest of the vocabulary.

Points: plain dicts, the rows of the table twins. Traces of a base figure say what they take, in meta: {"where": {field: value}, "x": field,
    "y": field, "fade": bool, "hover": [field…]}: x and y are those fields of the points (plain's, and those of all steps shown so far)
    whose fields equal `where` and whose x and y are not null; customdata = the hover fields; with fade, marker.opacity = 1 for points of
    the current step, 0.28 for others (see plot.filled).
    roofline    {step (−1: plain decoding), kind: draft|verify|plain|prefill, intensity, achieved, roof, fault, tokens, context, seconds,
                flops, bytes}; the trace with meta.role "datasheet" is the A100's roof, visible: false until asked for
    divergence  {step, position (1: the first new token), node, kl, tv, overlap (1 − TV), missing, tested, outcome: accepted|refused}
                annotations[2].text = "@divergence.summary|{"expected": "0.69", "observed": "0.65"}" over the points shown: the mean of
                overlap, and the share of points that were accepted ("" without points).
    roofs       see roofs_points.py; the player adds the steps' passes and what is computed for a batch size. The figure has beside it
                "machines": [machine…] and "batches": [the batch sizes]; traces of a machine have its key in meta.machine, and are
                visible where it is on show
    cost        see cost.cost_points; the player makes them all from header and steps, so that its sliders may ask for others. The
                figure has "views" beside it: {"depth" | "size": {path of the layout: value}}, for K and for the calibrated tree's sizes
    typical, rules   see typical.typical_points, typical.line_points and rules.rules_points; the player makes them from the steps as the
                rules judge them, with the ε and δ of its sliders, and draws them itself
    timing      {step, propose, verify, commit, record, decode, tokens, per_token, plain (seconds a plain token | null), plain_total}

Tables: header_view.tables = {name: [["@title", field]…]}. Rows of roofline, divergence and timing are the points, of cost its
    predicted ones; of tree {index, token, parent, depth, q, p, state}, of mask {index, token, position, sees}, of distribution {token, p,
    q, residual, child}, all derived from the step (see tables.py); of why {part, ms, share}, of acceptance {figure, depth, over, under,
    value}, which the player derives from the run. Values of the fields state and outcome are shown as the text "state.<value>", of kind
    as "roofline.<value>", of part as "slow.<value>", of figure as "acceptance.<value>".
"""

import json
from typing import TYPE_CHECKING, Any

from specviz.figures.cost import draw_cost
from specviz.figures.distribution import distribution_info, draw_distribution, patch
from specviz.figures.divergence import divergence_info, divergence_points, draw_divergence
from specviz.figures.mask import mask_info
from specviz.figures.palette import colour
from specviz.figures.palette import table as palette_table
from specviz.figures.roofline import RooflineInfo, baseline_points, draw_roofline, roofline_points, step_points
from specviz.figures.roofs import base_roofs, base_speedups
from specviz.figures.roofs_points import BATCHES, machine_rows, measured_points, roofs_info
from specviz.figures.tables import TABLES
from specviz.figures.timing import draw_timing, timing_info, timing_points
from specviz.figures.tree import draw_tree, tree_info
from specviz.i18n import t
from specviz.trace import Header, Step, Trace

if TYPE_CHECKING:
    import plotly.graph_objects as go

View = dict[str, Any]


def header_view(header: Header) -> View:
    """What is the same for all steps of a run: the header, the palette, the base figures, and the points of what was measured before it."""
    bare = RooflineInfo(header.peaks, ())
    figures = {
        "roofline": draw_roofline(bare),
        "divergence": draw_divergence(),
        "timing": draw_timing(),
        "distribution": draw_distribution(),
        "cost": draw_cost(),
        "roofs": base_roofs(roofs_info(header)) | {"machines": machine_rows(header), "batches": BATCHES},
        "speedups": base_speedups(roofs_info(header)),
    }
    points = {"roofline": roofline_points(baseline_points(header)), "roofs": measured_points(header)}
    return {"header": header.model_dump(mode="json"), "palette": palette_table(), "figures": figures, "points": points, "tables": TABLES}


def step_view(step: Step, header: Header) -> View:
    """One step: its record, its own figures, and its points of the figures that run along the text."""
    mask = mask_info(step)
    nodes = [patch(distribution_info(step, node, header.config)) for node in range(len(step.tree))]
    return {
        "step": step.model_dump(mode="json"),
        "figures": {
            "tree": draw_tree(tree_info(step), dressed=False),
            "mask": {"cached": mask.cached, "cells": mask.cells, "positions": mask.positions},
            "distribution": {"nodes": nodes},
        },
        "points": {
            "roofline": roofline_points(step_points(step, header)),
            "divergence": divergence_points(divergence_info([step], header)),
            "timing": timing_points(timing_info([step], header))[0],
        },
    }


def run_view(trace: Trace, run: str = "recorded", recorded: bool = True) -> View:
    """A whole run."""
    steps = [step_view(step, trace.header) for step in trace.steps]
    return {"id": run, "recorded": recorded, **header_view(trace.header), "steps": steps, "ended": trace.ended}


def localised(fig: Any, lang: str, theme: str = "light") -> Any:
    """A figure, or a part of one, with its sentences in `lang` and its colours of `theme`.

    Raises KeyError for a sentence that the catalogue lacks and for a colour that the palette lacks.
    """
    if isinstance(fig, dict):
        return {name: localised(value, lang, theme) for name, value in fig.items()}
    if isinstance(fig, (list, tuple)):
        return [localised(value, lang, theme) for value in fig]
    if isinstance(fig, str) and fig.startswith("@"):
        name, _, values = fig[1:].partition("|")
        return t(lang, name, **json.loads(values or "{}"))
    return colour(fig[4:], theme) if isinstance(fig, str) and fig.startswith("var:") else fig


def plotly_figure(fig: dict[str, Any], lang: str = "en", theme: str = "light") -> "go.Figure":
    """A figure for a notebook or an export. It is transparent: lay it on the palette's card of its theme, or set paper_bgcolor."""
    import plotly.graph_objects as go  # half a second, which a page never needs

    shown = localised({"data": fig["data"], "layout": fig["layout"]}, lang, theme)
    return go.Figure(shown).update_layout(template="none")
