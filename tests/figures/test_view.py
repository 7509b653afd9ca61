"""Every figure on every awkward step: valid for plotly, small, quick, literal."""

import re
from typing import Any

import orjson
import pytest

from specviz.analysis.typical import compare
from specviz.config import DEEPEST_TREE
from specviz.figures.cost import cost_info, draw_cost
from specviz.figures.distribution import distribution_info, draw_distribution
from specviz.figures.divergence import divergence_info, draw_divergence
from specviz.figures.mask import draw_mask, mask_info
from specviz.figures.palette import THEMES
from specviz.figures.roofline import draw_roofline, roofline_info
from specviz.figures.roofs import draw_roofs, draw_speedups
from specviz.figures.roofs_points import roofs_info
from specviz.figures.rules import RulesInfo, draw_rules
from specviz.figures.timing import draw_timing, timing_info
from specviz.figures.tree import draw_tree, tree_info
from specviz.figures.typical import draw_typical, typical_info
from specviz.figures.view import header_view, localised, plotly_figure, run_view, step_view
from specviz.i18n import LANGUAGES
from specviz.trace import Header, Step
from tests.builders import make_header, make_trace
from tests.figures.steps import HEADERS, STEPS

OUR_TAGS = re.compile(r"</?b>|<br>|<extra></extra>")


def figures(step: Step, header: Header) -> dict[str, dict[str, Any]]:
    """Each figure of one step. A new figure belongs into this list."""
    return {
        "tree": draw_tree(tree_info(step)),
        "mask": draw_mask(mask_info(step)),
        "distribution": draw_distribution(distribution_info(step, step.stopped_at, header.config)),
        "distribution of the root": draw_distribution(distribution_info(step, 0, header.config)),
        "divergence": draw_divergence(divergence_info([step], header), step.index),
        "timing": draw_timing(timing_info([step], header), step.index),
        "roofline": draw_roofline(roofline_info(header, [step]), step.index),
        "cost": draw_cost(cost_info(header, [step])),
        "roofs": draw_roofs(roofs_info(header, [step], 8, ("A100 80 GB", "T4"))),
        "speedups": draw_speedups(roofs_info(header, [step], 8, ("A100 80 GB", "T4"))),
        "typical": draw_typical(typical_info([step], 0.09, 0.3), step.index),
        "rules": draw_rules(RulesInfo(tuple(compare([step], {"typical": [step]}, {"typical": header.config})), {"typical": [step]}), 0),
    }


def strings(value: Any) -> list[str]:
    """Every string inside plain data."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [text for item in inner for text in strings(item)]


def plotly_part(fig: dict[str, Any]) -> dict[str, Any]:
    """A figure without what travels beside it."""
    return {"data": fig["data"], "layout": fig["layout"]}


@pytest.mark.parametrize("name", STEPS)
def test_every_figure_of_every_step(name: str) -> None:
    for which, fig in figures(STEPS[name][0], HEADERS[name]).items():
        assert b"NaN" not in orjson.dumps(fig, option=orjson.OPT_NON_STR_KEYS), which
        neutral = strings({"data": fig["data"], "layout": fig["layout"]})
        assert not [text for text in neutral if re.match("#[0-9a-f]{6}$", text)], which  # colours only by name
        for lang in LANGUAGES:
            built = plotly_figure(fig, lang, THEMES[lang == "zh"])  # raises for anything that plotly does not know
            assert built.layout.template.layout.to_plotly_json() == {}
            shown = localised(plotly_part(fig), lang, THEMES[lang == "zh"])
            texts = [OUR_TAGS.sub("", text) for text in strings(shown)]
            assert not [text for text in texts if "<" in text or text.startswith(("@", "var:"))], which


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_small_json(name: str) -> None:
    """What the figures add to the record of a step: the recorded rows themselves are the engine's to keep short."""
    step, header = STEPS[name][0], HEADERS[name]
    if name.startswith("hostile"):
        return  # its texts alone are thousands of characters, and JSON rightly refuses its lone surrogate
    if len(step.path(len(step.tree) - 1)) > DEEPEST_TREE + 1:
        return  # no run of ours makes one so deep; a mask grows with nodes times depth
    view = step_view(step, header)
    added = {part: view[part] for part in ("figures", "points")}
    assert len(orjson.dumps(added)) <= 5_000 + (560 if len(step.tree) > 60 else 900) * len(step.tree)
    assert orjson.loads(orjson.dumps(view["step"], option=orjson.OPT_NON_STR_KEYS)) == orjson.loads(step.model_dump_json())


def test_a_hostile_token_stays_short_in_the_figures() -> None:
    view = step_view(STEPS["hostile"][0], HEADERS["hostile"])
    assert max(map(len, strings(view["figures"]))) < 120  # 40 characters, each at most an entity
    orjson.dumps(view["figures"])  # no lone surrogate is left in them


def test_a_header_holds_the_base_figures() -> None:
    view = header_view(make_header())
    assert set(view["figures"]) == {"roofline", "divergence", "timing", "distribution", "cost", "roofs", "speedups"}
    for fig in view["figures"].values():
        plotly_figure(fig)
    assert len(view["points"]["roofline"]) == 16
    assert header_view(make_header(baseline=False))["points"]["roofline"] == []
    assert len(orjson.dumps(view)) < 60_000


def test_base_figures_take_fields_that_the_points_have() -> None:
    """What the player fills in: every field that a trace names is a field of that figure's points."""
    trace = make_trace(3)
    view = run_view(trace)
    for name in ("roofline", "divergence", "timing"):
        points = view["steps"][0]["points"][name]
        fields = set(points if name == "timing" else points[0])
        metas = [mine["meta"] for mine in view["figures"][name]["data"] if "where" in mine.get("meta", {})]
        assert metas
        assert all({meta["x"], meta["y"], *meta["where"], *meta["hover"]} <= fields for meta in metas), name


def test_a_run_is_its_header_and_its_steps() -> None:
    trace = make_trace(4)
    view = run_view(trace, "abc", recorded=False)
    assert (view["id"], view["recorded"], view["ended"], len(view["steps"])) == ("abc", False, "length", 4)
    assert view["header"]["prompt"] == trace.header.prompt
    assert [mine["step"]["index"] for mine in view["steps"]] == [0, 1, 2, 3]
    assert run_view(make_trace(0))["steps"] == []


def test_every_node_has_its_patch_and_no_look_of_its_own() -> None:
    """Looks follow from the states, which the player puts on for any sub-step: they would only be thrown away."""
    for name, (step, _) in STEPS.items():
        view = step_view(step, HEADERS[name])
        assert "color" not in view["figures"]["tree"]["data"][-1]["marker"]
        assert len(view["figures"]["distribution"]["nodes"]) == len(view["figures"]["mask"]["cells"]) == len(step.tree)
