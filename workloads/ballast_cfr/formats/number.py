"""Exact numbers in the ways people write them: 3, -0.25, 1e-3, 99/100."""

import math
import re
from fractions import Fraction

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?(/\d+)?\Z", re.ASCII)
_LONGEST = 1000
_LARGEST_EXPONENT = 400


def parse(text: str) -> Fraction:
    """The exact value of a number. Raises ValueError, saying what is wrong, for anything that no finite 64-bit float
    is near to."""
    if len(text) > _LONGEST:
        raise ValueError(f"a number of {len(text)} characters is longer than {_LONGEST}")
    match = _NUMBER.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a finite number such as 2, -0.5, 1e-3 or 2/3")
    if match[3] and abs(int(match[3][1:])) > _LARGEST_EXPONENT:
        raise ValueError(f"{text} is out of the range of 64-bit floats")
    top, _, bottom = text.partition("/")
    if bottom and int(bottom) == 0:
        raise ValueError(f"{text} divides by zero")
    value = Fraction(top) / int(bottom or 1)
    if not fits(value):
        raise ValueError(f"{text} is out of the range of 64-bit floats")
    return value


def fits(value: Fraction) -> bool:
    """Whether a value is within the range of 64-bit floats."""
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def is_decimal(text: str) -> bool:
    """Whether a number was written with a point or an exponent, and so may have been rounded."""
    return "." in text or "e" in text.lower()


def shortest(value: float) -> str:
    """Text that reads back as exactly this float: a small fraction if one rounds to it, else its shortest decimal."""
    if value == int(value) and abs(value) < 2**53:
        return str(int(value))
    near = Fraction(value).limit_denominator(1_000_000)
    return str(near) if float(near) == value else repr(value)
