"""How numbers are written: short, and never so that two different ones look the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.analysis.quantities import compared, number, ratio

WRITTEN = [
    (0, "0"),
    (0.31, "0.31"),
    (0.6, "0.6"),
    (1.0, "1"),
    (1230.0, "1230"),
    (999.5, "1000"),
    (0.0625, "0.0625"),
    (0.3125, "0.313"),  # an exact half: away from zero, as toExponential has it
    (0.001, "0.001"),
    (0.00099999, "0.001"),  # the rounded value decides the notation
    (0.00042, "4.2×10⁻⁴"),
    (1.5e15, "1.5×10¹⁵"),
    (-0.25, "-0.25"),
    (None, "?"),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_number_is_written_with_three_significant_digits(value: float | None, text: str):
    assert number(value) == text


def test_more_digits_are_taken_until_two_numbers_differ():
    assert compared(0.0996, 0.1) == ("0.0996", "0.1")
    assert compared(0.04441, 0.0444) == ("0.04441", "0.0444")
    assert compared(0.99968, 0.5, 1) == ("0.9997", "0.5", "1")
    assert compared(0.25, 0.25) == ("0.25", "0.25")
    assert compared(None, 0.5) == ("?", "0.5")


def read(text: str) -> float:
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = text.partition("×10")
    return float(f"{mantissa}e{power.translate(digits) or 0}")


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_a_written_number_reads_back_within_half_a_unit_of_its_last_digit(value: float):
    assert read(number(value)) == pytest.approx(value, rel=5.0001e-3)


@given(st.floats(0, 1), st.floats(0, 1))
def test_compared_numbers_keep_their_order(a: float, b: float):
    texts = compared(a, b)
    assert (texts[0] == texts[1]) == (a == b)
    if a != b:
        assert (read(texts[0]) <= read(texts[1])) == (a < b)


def test_ratio_of_nothing_is_undefined():
    assert ratio(3, 4) == 0.75
    assert ratio(0, 0) is None
