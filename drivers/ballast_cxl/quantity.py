"""Kubernetes quantities of bytes, to whole numbers and back."""

import re
from fractions import Fraction

_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTPE]i|[kMGTPE])?")
_UNITS = {"": 1} | {f"{letter}i": 1 << (10 * (n + 1)) for n, letter in enumerate("KMGTPE")}
_UNITS |= {letter: 10 ** (3 * (n + 1)) for n, letter in enumerate("kMGTPE")}
_BINARY = [(name, size) for name, size in sorted(_UNITS.items(), key=lambda unit: -unit[1]) if name.endswith("i")]


def to_bytes(text: str) -> int:
    """`64Gi` to bytes; a fraction of a byte counts as a whole one. Raises ValueError for what is no quantity."""
    found = _PARTS.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a quantity; write it like 64Gi")
    exact = Fraction(found[1]) * _UNITS[found[2] or ""]
    return -(-exact.numerator // exact.denominator)


def to_text(size: int) -> str:
    """Bytes in the largest binary unit that divides them."""
    for name, unit in _BINARY:
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
