"""How skewed a router is: the share of its picks that each expert gets, after what has been measured of real models.

Dummy weights route almost evenly, so a bench has to say which experts are hot. Three shapes, each a public measurement:

`next512`   48 layers of 512 experts, top 10: the coldest 57 % carry 7.85 % of the traffic, 6.9 % were never picked.
            There is much to give up. (JustVugg/colibri#1621)
`mixed256`  40 layers of 256, top 8: 30 % of a layer's experts are unused after 5 prompts, 7 % after 20, 0.6 % after
            100. How much there is to give up depends on how broad the traffic is. (baa.ai, 100 mixed prompts)
`flat64`    16 layers of 64, top 8: the top half takes 75 %. Nothing is worth giving up, and VAMP has to see that.
            (JustVugg/colibri#864)

A shape holds for any number of experts; in each layer the experts are shuffled, so nobody can know the hot set ahead.
Another seed is another kind of traffic: hot sets then overlap by chance only, as has been measured between classes of
prompts (Jaccard 0.03 to 0.07).
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ballast_vamp.replay.errors import BadInputError

PROFILE = "BALLAST_REPLAY_PROFILE"  # environment: the profile that an engine's workers start with
WARMING_UP = 1000  # another(...) of it is what engines warm up with: the hot set is not known at the start
BREADTH = 20  # prompts in the window that `mixed256` stands for
NEVER = 1e-9  # share of an expert that is never picked; its logarithm is still a number


@dataclass(frozen=True)
class Profile:
    """A shape and a seed, as written `next512` or `mixed256#3`."""

    name: str
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> "Profile":
        """Raises BadInputError for a name that is none, or a seed that is no number."""
        name, _, seed = text.partition("#")
        if name not in SHAPES or not (seed.isdigit() or seed == ""):
            raise BadInputError(f"profile {text} is not one of {', '.join(SHAPES)}, with #SEED behind it or without")
        return cls(name, int(seed or 0))

    def another(self, number: int) -> "Profile":
        """The same shape with other hot experts."""
        return replace(self, seed=self.seed + number)

    def __str__(self) -> str:
        return f"{self.name}#{self.seed}"

    def shares(self, layer: int, experts: int) -> list[float]:
        """Share of the layer's picks of each expert; they sum to 1. Shuffled by seed and layer."""
        rng = random.Random(f"{self} {layer}")
        found = SHAPES[self.name](experts, rng)
        rng.shuffle(found)
        return found

    def log_shares(self, layer: int, experts: int) -> list[float]:
        """What is added to a logit that carries Gumbel noise, so that expert e is picked in proportion to its share."""
        return [math.log(max(share, NEVER)) for share in self.shares(layer, experts)]


def _next512(experts: int, _: random.Random) -> list[float]:
    """43 % of the experts carry 92.15 %, as a power law; half carry the rest, evenly falling; 7 % carry nothing."""
    never = round(0.069 * experts)
    hot = max(1, experts - round(0.57 * experts))
    warm = experts - hot - never
    if warm < 1:
        raise BadInputError(f"profile next512 needs a layer of at least 3 experts, not {experts}")
    head = _scaled([(rank + 1) ** -0.6 for rank in range(hot)], 0.9215)
    tail = _scaled([2 - 1.8 * rank / max(warm - 1, 1) for rank in range(warm)], 0.0785)
    return head + tail + [0.0] * never


def _mixed256(experts: int, rng: random.Random) -> list[float]:
    """Popularity by a Gamma distribution, of which a window of BREADTH prompts has seen a part.

    If a prompt uses expert e at a rate drawn from Gamma(3/2, 1/4.06), the expected unused share after n prompts is
    (4.06 / (4.06 + n)) ** 1.5: 0.30, 0.069 and 0.0077 after 5, 20 and 100, against 0.30, 0.07 and 0.006 measured.
    """
    rates = popularity(experts)
    used = [rate if rng.random() > math.exp(-rate * BREADTH) else 0.0 for rate in rates]
    return _scaled(used if any(used) else rates, 1.0)


def _flat64(experts: int, _: random.Random) -> list[float]:
    """Exponential in the rank, such that the upper half takes three quarters: 1 / (1 + exp(-k / 2)) = 3/4."""
    decay = 2 * math.log(3)
    return _scaled([math.exp(-decay * (rank + 0.5) / experts) for rank in range(experts)], 1.0)


SHAPES: dict[str, Callable[[int, random.Random], list[float]]] = {
    "next512": _next512,
    "mixed256": _mixed256,
    "flat64": _flat64,
}


def popularity(experts: int) -> list[float]:
    """Rates at which one prompt uses each expert: mid-quantiles of Gamma(3/2) with mean 1.5 / 4.06."""
    return [_gamma_quantile((experts - rank - 0.5) / experts) / 4.06 for rank in range(experts)]


def unused(rates: Sequence[float], prompts: int) -> float:
    """Expected share of experts that none of so many prompts used."""
    return sum(math.exp(-rate * prompts) for rate in rates) / len(rates)


def _gamma_quantile(level: float) -> float:
    """Of Gamma(3/2, 1), by bisection of its distribution erf(sqrt(x)) - 2 sqrt(x / pi) exp(-x)."""
    low, high = 0.0, 60.0
    for _ in range(60):
        x = (low + high) / 2
        below = math.erf(math.sqrt(x)) - 2 * math.sqrt(x / math.pi) * math.exp(-x)
        low, high = (x, high) if below < level else (low, x)
    return (low + high) / 2


def _scaled(values: Sequence[float], total: float) -> list[float]:
    whole = sum(values)
    return [value * total / whole for value in values]
