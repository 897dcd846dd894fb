"""The built-in games: their parameters, with limits, and their size before they are built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Game
from ballast_cfr.games import kuhn, leduc, liars_dice, random_game
from ballast_cfr.memory import demand, of_nodes


@dataclass(frozen=True)
class Parameter:
    """An integer parameter and the values it may take."""

    default: int
    low: int
    high: int


@dataclass(frozen=True)
class Builtin:
    """A generator, with what it takes; `nodes` says from the parameters how large the tree will be."""

    make: Callable[..., Game]
    nodes: Callable[..., int]
    parameters: Mapping[str, Parameter]


BUILTINS: dict[str, Builtin] = {
    "kuhn": Builtin(kuhn.kuhn, kuhn.nodes, {"cards": Parameter(3, 2, 1000)}),
    "leduc": Builtin(leduc.leduc, leduc.nodes, {"ranks": Parameter(3, 2, 100)}),
    "liars-dice": Builtin(
        liars_dice.liars_dice, liars_dice.nodes, {"dice": Parameter(1, 1, 4), "faces": Parameter(6, 2, 12)}
    ),
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
    values = {key: parameter.default for key, parameter in found.parameters.items()}
    for key, text in (parameters or {}).items():
        values[key] = _value(name, found, key, text)
    nodes = found.nodes(**values)
    demand(f"game {name} has {nodes:,} nodes and", of_nodes(nodes))
    return found.make(**values)


def _value(name: str, found: Builtin, key: str, text: str | int) -> int:
    parameter = found.parameters.get(key)
    if parameter is None:
        raise BadInputError(f"game {name} has no parameter {key}; it takes {', '.join(found.parameters)}")
    try:
        value = int(text)
    except ValueError:
        value = parameter.low - 1
    if not parameter.low <= value <= parameter.high:
        raise BadInputError(
            f"game {name}: {key} is {text}, but must be a whole number from {parameter.low} to {parameter.high}"
        )
    return value
