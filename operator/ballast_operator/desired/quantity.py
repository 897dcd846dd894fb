"""Quantities of memory as Kubernetes writes them, to whole bytes and back."""

import re
from fractions import Fraction

_PARTS = re.compile(r"([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?")
_UNITS = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_UNITS |= {letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", 1)}
_BINARY = {f"{letter}i": 1 << (10 * power) for power, letter in enumerate("KMGTPE", 1)}


def to_bytes(quantity: str | int) -> int:
    """`64Gi`, `1.5G`, `1e9` or a number of bytes; a fraction of a byte counts as a whole one. ValueError for others."""
    found = _PARTS.fullmatch(str(quantity).strip())
    if found is None:
        raise ValueError(f"{quantity!r} is not a quantity; write it like 64Gi")
    number, unit, exponent = found.groups()
    scale = _UNITS.get(unit) or Fraction(_BINARY.get(unit, 1))
    exact = Fraction(number) * scale * Fraction(10) ** int(exponent or 0)
    return -(-exact.numerator // exact.denominator)


def to_text(size: int) -> str:
    """Bytes in the largest binary unit that divides them."""
    for unit, factor in reversed(_BINARY.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
