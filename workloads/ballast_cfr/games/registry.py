"""The built-in games: their parameters, with limits, and their size before they are built."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Game
from ballast_cfr.games import (
    battleship,
    dark_hex,
    goofspiel,
    kuhn,
    leduc,
    liars_dice,
    oshi_zumo,
    poker,
    random_game,
)
from ballast_cfr.memory import demand, of_nodes


@dataclass(frozen=True)
class Parameter:
    """An integer parameter and the values it may take."""

    default: int
    low: int
    high: int

    def read(self, text: str | int) -> int | None:
        """The value that a text stands for, None if it is not allowed."""
        try:
            value = int(text)
        except ValueError:
            return None
        return value if self.low <= value <= self.high else None

    @property
    def allowed(self) -> str:
        """What may be given, for a message."""
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Words:
    """A parameter that is a word. pattern: of the whole word; allowed: what may be given, for a message."""

    default: str
    pattern: str
    allowed: str

    def read(self, text: str | int) -> str | None:
        """The word, None if it is not allowed."""
        return str(text) if re.fullmatch(self.pattern, str(text)) else None


@dataclass(frozen=True)
class Builtin:
    """A generator, with what it takes; `nodes` says from the parameters how large the tree will be."""

    make: Callable[..., Game]
    nodes: Callable[..., int]
    parameters: Mapping[str, Parameter | Words]


def _poker(hands: int, bets: str, raises: int) -> dict[str, Parameter | Words]:
    percent = "[1-9][0-9]{0,2}"
    return {
        "hands": Parameter(hands, 2, 1326),
        "seed": Parameter(0, 0, 2**31 - 1),
        "bets": Words(bets, f"{percent}(-{percent}){{0,3}}", "one to four percentages of the pot, such as 50-100"),
        "raises": Parameter(raises, 1, 4),
        "stack": Parameter(400, 1, 10_000),
    }


BUILTINS: dict[str, Builtin] = {
    "battleship": Builtin(
        battleship.battleship,
        battleship.nodes,
        {
            "width": Parameter(2, 1, 4),
            "height": Parameter(2, 1, 4),
            "ships": Words("1", "[1-4](-[1-4]){0,2}", "one to three sizes from 1 to 4, such as 2 or 1-2"),
            "shots": Parameter(2, 1, 6),
        },
    ),
    "dark-hex": Builtin(dark_hex.dark_hex, dark_hex.nodes, {"rows": Parameter(2, 2, 3), "columns": Parameter(2, 2, 3)}),
    "goofspiel": Builtin(
        goofspiel.goofspiel,
        goofspiel.nodes,
        {
            "cards": Parameter(4, 2, 13),
            "order": Words("descending", "|".join(goofspiel.ORDERS), f"one of {', '.join(goofspiel.ORDERS)}"),
        },
    ),
    "kuhn": Builtin(kuhn.kuhn, kuhn.nodes, {"cards": Parameter(3, 2, 1000)}),
    "leduc": Builtin(leduc.leduc, leduc.nodes, {"ranks": Parameter(3, 2, 100)}),
    "liars-dice": Builtin(
        liars_dice.liars_dice, liars_dice.nodes, {"dice": Parameter(1, 1, 4), "faces": Parameter(6, 2, 12)}
    ),
    "oshi-zumo": Builtin(
        oshi_zumo.oshi_zumo,
        oshi_zumo.nodes,
        {"coins": Parameter(5, 1, 50), "size": Parameter(2, 1, 10), "horizon": Parameter(6, 1, 50)},
    ),
    "poker-river": Builtin(poker.poker_river, poker.river_nodes, _poker(20, "50-100", 2)),
    "poker-turn": Builtin(poker.poker_turn, poker.turn_nodes, _poker(6, "100", 1)),
    "random-game": Builtin(
        random_game.random_game,
        random_game.nodes,
        {
            "seed": Parameter(0, 0, 2**31 - 1),
            "depth": Parameter(5, 1, 40),
            "branching": Parameter(3, 1, 20),
            "merge": Parameter(60, 0, 100),
            "zero": Parameter(5, 0, 100),
        },
    ),
}


def builtin(name: str, parameters: Mapping[str, str | int] | None = None) -> Game:
    """Build a game by name.

    parameters: values as integers or their text. Raises BadInputError for an unknown name or parameter,
    OutOfMemoryError if the tree would not fit this machine (or container), before it is built.
    """
    found = BUILTINS.get(name.replace("_", "-"))
    if found is None:
        raise BadInputError(f"game {name} is not built in; choose one of {', '.join(sorted(BUILTINS))}, or give a file")
    values: dict[str, int | str] = {key: parameter.default for key, parameter in found.parameters.items()}
    for key, text in (parameters or {}).items():
        values[key] = _value(name, found, key, text)
    nodes = found.nodes(**values)
    demand(f"game {name} has {nodes:,} nodes and", of_nodes(nodes))
    return found.make(**values)


def _value(name: str, found: Builtin, key: str, text: str | int) -> int | str:
    parameter = found.parameters.get(key)
    if parameter is None:
        raise BadInputError(f"game {name} has no parameter {key}; it takes {', '.join(found.parameters)}")
    value = parameter.read(text)
    if value is None:
        raise BadInputError(f"game {name}: {key} is {text}, but must be {parameter.allowed}")
    return value
