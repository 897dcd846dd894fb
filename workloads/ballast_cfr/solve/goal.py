"""What a user asks for, in the units of the game."""

import math

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Game
from ballast_cfr.solve.schedule import Stop

UNITS = ("Absolute", "Span", "MilliBigBlind")
_SPELLINGS = {"abs": "Absolute", "mbb": "MilliBigBlind"}


def stop(
    game: Game,
    exploitability: str | float | None = None,
    unit: str = "Absolute",
    max_iterations: int | None = None,
    max_seconds: float | None = None,
) -> Stop:
    """The stop rule for a game.

    exploitability: in `unit`, which is Absolute (payoff units), Span (times largest minus smallest payoff) or
    MilliBigBlind (a thousandth of the big blind; of the ante in kuhn and leduc). Raises BadInputError if nothing would
    ever end the solve.
    """
    if exploitability is None and max_iterations is None and max_seconds is None:
        raise BadInputError("no end is given; set a target exploitability, an iteration limit or a time limit")
    for name, limit in (("iterations", max_iterations), ("seconds", max_seconds)):
        if limit is not None and not limit > 0:
            raise BadInputError(f"the limit of {name} is {limit}, but must be greater than 0")
    target = None if exploitability is None else _number(exploitability) * unit_size(game, unit)
    return Stop(target, max_iterations, max_seconds)


def unit_size(game: Game, unit: str) -> float:
    """One `unit` of exploitability in the game's payoff units."""
    plain = _SPELLINGS.get(unit.lower(), unit)
    found = next((known for known in UNITS if known.lower() == plain.lower()), None)
    if found is None:
        raise BadInputError(f"unit {unit} is unknown; choose one of {', '.join(UNITS)}")
    if found == "Span":
        return game.span
    if found == "MilliBigBlind":
        if game.big_blind is None:
            raise BadInputError(f"unit {unit}: game {game.name} has no big blind; use Absolute or Span")
        return game.big_blind / 1000
    return 1.0


def _number(text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise BadInputError(f"target exploitability is {text}, but must be a number greater than 0")
    return value
