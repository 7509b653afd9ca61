"""How a figure is stated: what it is, its value, the formula behind it, and whether it was measured, computed or assumed.

`number` and `compared` write numbers the same way everywhere; assets/player holds their twin in JavaScript, digit for digit:

    number(x, d = 3)    x rounded to d significant digits, halves away from zero, from the exact binary value (what toExponential(d − 1)
                        does). 0 is "0". From 0.001 up to 10^15 in plain decimals without trailing zeros ("0.31", "0.6", "1", "1230");
                        otherwise mantissa and power of ten ("4.2×10⁻⁴", "1×10¹⁵"), the mantissa without trailing zeros. The
                        rounded value decides which. None is "?".
    compared(a, b, …)   all numbers with the fewest digits d, from 3 to 17, at which any two that differ also read differently.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context
from typing import Literal

Origin = Literal["measured", "computed", "assumed"]

DIGITS = 3
MOST_DIGITS = 17  # enough to tell any two doubles apart
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Quantity:
    """A figure of a run. `label` and `formula` are locale keys; `value` is None where it is not defined (nothing was tested, say)."""

    label: str
    value: float | None
    formula: str
    origin: Origin


def ratio(over: float, under: float) -> float | None:
    """over ÷ under, or None where there is nothing to divide by."""
    return over / under if under else None


def number(value: float | None, digits: int = DIGITS) -> str:
    """`value` with `digits` significant digits, as the docstring of this module says."""
    if value is None:
        return "?"
    if value == 0:
        return "0"
    rounded = Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(value)
    power = rounded.adjusted()
    text = "".join(map(str, rounded.as_tuple().digits)).rstrip("0")
    return "-" * (value < 0) + (_decimal(text, power) if -3 <= power < 15 else _scientific(text, power))


def compared(*values: float | None) -> tuple[str, ...]:
    """Numbers that stand beside each other: with more digits where two of them would read the same without being so."""
    known = {value for value in values if value is not None}
    enough = (d for d in range(DIGITS, MOST_DIGITS) if len({number(value, d) for value in known}) == len(known))
    digits = next(enough, MOST_DIGITS)
    return tuple(number(value, digits) for value in values)


def _decimal(text: str, power: int) -> str:
    if power < 0:
        return "0." + "0" * (-power - 1) + text
    whole, rest = text[: power + 1].ljust(power + 1, "0"), text[power + 1 :]
    return f"{whole}.{rest}" if rest else whole


def _scientific(text: str, power: int) -> str:
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{mantissa}×10{str(power).translate(_SUPERSCRIPT)}"
