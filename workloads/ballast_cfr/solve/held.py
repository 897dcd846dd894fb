"""Information sets that are held: finding the one a user means, checking what it is held to, and keeping note."""

import hashlib
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


class Held:
    """What is locked and masked. By player: kind (I,) FREE, LOCKED or MASKED; live (S,) 0 where an action is forbidden;
    to (S,) the strategy that is held, uniform where nothing is."""

    def __init__(self, program: Program) -> None:
        plexes = program.plex
        self.first = [plex.first for plex in plexes]
        self.of_slot = [plex.of_slot for plex in plexes]
        self.kind = [np.zeros(plex.infosets, dtype=np.uint8) for plex in plexes]
        self.live = [np.ones(plex.slots, dtype=np.uint8) for plex in plexes]
        self.to = [1.0 / np.diff(plex.first)[plex.of_slot] for plex in plexes]

    def slots(self, player: int, infoset: int) -> slice:
        """The slots of an information set of the treeplex."""
        return slice(int(self.first[player][infoset]), int(self.first[player][infoset + 1]))

    def put(self, player: int, infoset: int, kind: int, live: NDArray[np.uint8], strategy: Floats) -> None:
        """Note a lock, a mask, or that there is none any more."""
        slots = self.slots(player, infoset)
        self.kind[player][infoset] = kind
        self.live[player][slots] = live
        self.to[player][slots] = strategy

    def digest(self) -> str | None:
        """SHA-256 of all locks and masks, None if there are none."""
        if not any(kind.any() for kind in self.kind):
            return None
        whole = hashlib.sha256()
        for kind, live, to, of_slot in zip(self.kind, self.live, self.to, self.of_slot, strict=True):
            for array in (kind, live, np.where(kind[of_slot] > 0, to, 0.0)):
                whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()


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


def allowed(
    program: Program, place: Place, actions: Sequence[int | str], before: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Which actions are left without those given, of those that were allowed before (all, if not said). Raises
    BadInputError for unknown ones, or if none is left."""
    live = np.ones(len(place.actions), dtype=bool) if before is None else before.copy()
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
