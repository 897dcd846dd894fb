"""Finding the information set that a user means, and checking what it is to be held to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Floats


@dataclass(frozen=True)
class Place:
    """An information set: its player, its place in that player's treeplex, its name for messages, its actions."""

    player: int
    infoset: int
    name: str
    actions: tuple[str, ...]


def find(program: Program, infoset: int | str, player: int | None = None) -> Place:
    """By the game's number, or by label. Raises BadInputError if there is none, more than one, or if players forget
    (what is held would be held in what they remember)."""
    game = program.game
    if not program.exact_recall:
        raise BadInputError(f"game {game.name}: information sets can be held only where no player forgets")
    if isinstance(infoset, str):
        found = [i for i, label in enumerate(game.infoset_label) if label == infoset]
    else:
        found = [infoset] if 0 <= infoset < game.infosets else []
    of_player = [i for i in found if player is None or game.infoset_player[i] == player]
    whose = "" if player is None else f" of player {player}"
    if not of_player:
        raise BadInputError(f"game {game.name} has no information set {infoset!r}{whose}")
    if len(of_player) > 1:
        numbers = ", ".join(map(str, of_player))
        raise BadInputError(
            f"game {game.name} has several information sets {infoset!r}{whose}: numbers {numbers}; give one"
        )
    one = of_player[0]
    owner = int(game.infoset_player[one])
    place = int(np.flatnonzero(program.plex[owner].infoset == one)[0])
    return Place(owner, place, game.infoset_name(one), game.infoset_actions[one])


def probabilities(program: Program, place: Place, strategy: Sequence[float] | Floats) -> Floats:
    """A strategy to hold it to. Raises BadInputError if it is none."""
    given = np.asarray(strategy, dtype=np.float64)
    many = len(place.actions)
    if given.shape != (many,) or not (given >= 0).all() or not abs(float(given.sum()) - 1) <= 1e-9:
        raise BadInputError(
            f"game {program.game.name}: information set {place.name} needs {many} probabilities that add up to 1, "
            f"found {given.tolist()}"
        )
    return given


def allowed(program: Program, place: Place, actions: Sequence[int | str]) -> NDArray[np.bool_]:
    """Which actions are left without those given. Raises BadInputError for unknown ones, or if none is left."""
    live = np.ones(len(place.actions), dtype=bool)
    for action in actions:
        known = place.actions.index(action) if action in place.actions else -1
        at = action if isinstance(action, int) else known
        if not 0 <= at < len(live):
            raise BadInputError(
                f"game {program.game.name}: information set {place.name} has no action {action!r}; it has "
                f"{', '.join(place.actions)}"
            )
        live[at] = False
    if not live.any():
        raise BadInputError(f"game {program.game.name}: information set {place.name} would have no action left")
    return live
