"""The family of CFR variants, as the numbers in which they differ.

After its instant regrets r_t are added, a cumulative regret is multiplied by p_t if positive and by n_t if not; the
average strategy adds the strategy used at t with weight w_t; the next strategy is proportional to max(R + c r_t, 0).

    variant   p_t                  n_t                w_t        c   source CFR       1                    1
    1          0   Zinkevich et al. 2007 CFR+      1                    0                  t^gamma    0   Tammelin
    2014, gamma = 1 DCFR      t^alpha/(t^alpha+1)  t^beta/(t^beta+1)  t^gamma    0   Brown & Sandholm 2019, (alpha,
    beta, gamma) = (1.5, 0, 2) PCFR+     1                    0                  t^gamma    1   Farina et al. 2021,
    gamma = 2
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Floats

_DEFAULTS: dict[str, dict[str, float]] = {
    "CFR": {},
    "CFRPlus": {"gamma": 1.0},
    "DCFR": {"alpha": 1.5, "beta": 0.0, "gamma": 2.0},
    "PCFRPlus": {"gamma": 2.0},
}
VARIANTS = tuple(_DEFAULTS)
UPDATES = ("Alternating", "Simultaneous")
DTYPES = ("Float64", "Mixed")


@dataclass(frozen=True)
class Variant:
    """A variant with its parameters, all of them explicit."""

    name: str
    parameters: Mapping[str, float]

    @property
    def predict(self) -> float:
        return 1.0 if self.name == "PCFRPlus" else 0.0

    def tables(self, start: int, count: int) -> tuple[Floats, Floats, Floats]:
        """w, p and n for the iterations start + 1 .. start + count, each (count,)."""
        t = np.arange(start + 1, start + count + 1, dtype=np.float64)
        weight = _power(t, self.parameters.get("gamma", 0.0))
        ones = np.ones(count)
        if self.name == "CFR":
            return weight, ones, ones
        if self.name != "DCFR":
            return weight, ones, np.zeros(count)
        grown, shrunk = _power(t, self.parameters["alpha"]), _power(t, self.parameters["beta"])
        return weight, grown / (grown + 1), shrunk / (shrunk + 1)


def _power(t: Floats, exponent: float) -> Floats:
    """t ** exponent, in operations that round the same on every machine wherever the exponent is a whole or a half
    number."""
    whole = math.floor(exponent)
    if exponent not in (whole, whole + 0.5) or not 0 <= exponent <= 8:
        return np.array([math.pow(value, exponent) for value in t])
    result = np.sqrt(t) if exponent != whole else np.ones(len(t))
    for _ in range(whole):
        result = result * t
    return result


def variant(name: str, parameters: Mapping[str, str | float] | None = None) -> Variant:
    """Look a variant up by any usual spelling (CFRPlus, cfr_plus, CFR+). Raises BadInputError for what it does not
    know."""
    plain = name.lower().replace("+", "plus").replace("_", "").replace("-", "")
    found = next((known for known in VARIANTS if known.lower() == plain), None)
    if found is None:
        raise BadInputError(f"variant {name} is unknown; choose one of {', '.join(VARIANTS)}")
    values = dict(_DEFAULTS[found])
    for key, text in (parameters or {}).items():
        if key not in values:
            takes = f"it takes {', '.join(values)}" if values else "it takes none"
            raise BadInputError(f"variant {found} has no parameter {key}; {takes}")
        values[key] = _number(found, key, text)
    return Variant(found, values)


def _number(name: str, key: str, text: str | float) -> float:
    low = 0.0 if key == "gamma" else -20.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= 20.0:
        raise BadInputError(f"variant {name}: {key} is {text}, but must be a number from {low:g} to 20")
    return value


def updates(name: str) -> str:
    """Look an update order up by any case. Raises BadInputError for what it does not know."""
    found = next((known for known in UPDATES if known.lower() == name.lower()), None)
    if found is None:
        raise BadInputError(f"updates {name} is unknown; choose one of {', '.join(UPDATES)}")
    return found


def dtype(name: str) -> str:
    """Look a precision up by any case. Raises BadInputError for what it does not know."""
    found = next((known for known in DTYPES if known.lower() == name.lower()), None)
    if found is None:
        raise BadInputError(f"dtype {name} is unknown; choose one of {', '.join(DTYPES)}")
    return found
