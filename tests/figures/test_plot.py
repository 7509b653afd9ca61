"""Numbers as a screen shows them, and base figures filled with points."""

import pytest

from specviz.figures import plot


@pytest.mark.parametrize(
    ("value", "short"), [(0.123456, 0.1235), (123456.0, 123500), (2.0, 2), (0.0, 0), (1e-9, 1e-9), (None, None), (3.2e11, 320000000000)]
)
def test_four_digits(value: float | None, short: float | None) -> None:
    assert plot.signif(value) == short
    assert not isinstance(plot.signif(value), float) or not plot.signif(value).is_integer()


@pytest.mark.parametrize(
    ("value", "words"), [(3.79e11, "379 G"), (5.2e10, "52 G"), (2e12, "2 T"), (1.5e6, "1.5 M"), (1234, "1.23 k"), (12, "12 ")]
)
def test_prefixes(value: float, words: str) -> None:
    assert plot.si(value) == words


def test_a_base_figure_takes_its_points() -> None:
    base = {
        "data": [{"meta": plot.takes("a", "b", {"kind": "x"}, fade=True, hover=("c",))}, {"x": [1], "meta": {"role": "line"}}],
        "layout": {},
    }
    here = {"step": 1, "kind": "x", "a": 4, "b": 5}
    points = [{"step": 0, "kind": "x", "a": 1, "b": 2, "c": 3}, here, {**here, "kind": "y"}, {**here, "b": None}]
    full, line = plot.filled(base, points, current=1)["data"]
    assert (full["x"], full["y"], full["customdata"]) == ([1, 4], [2, 5], [[3], [None]])
    assert full["marker"]["opacity"] == [plot.FADED, 1]
    assert line == base["data"][1]
    assert "x" not in base["data"][0]
    assert plot.filled(base, points)["data"][0]["marker"]["opacity"] == [1, 1]
