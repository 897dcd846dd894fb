"""Battleship: both hide ships on boards of their own, then shoot in turn.

Ships are placed in the order given, in turn and unseen, so that all of them fit. A shot is answered by water, hit or
sunk; the same cell may be shot at again. The game ends when all ships of a player are sunk or the shots are used up,
and pays a player 1 for each ship sunk, less 1 for each ship lost. Rules as in OpenSpiel with loss_multiplier 1 and
repeated shots; Farina et al., "Stable-predictive optimistic counterfactual regret minimization", ICML 2019.
"""

from dataclasses import dataclass

import numpy as np

from ballast_cfr.errors import BadInputError
from ballast_cfr.game import TERMINAL, Floats, Game, Ints
from ballast_cfr.games.state_space import Bools, Rules, States, count, expand

# Columns of a state: each player's placement so far, the cells each has shot at as a bit mask, steps made.
_PLACED, _SHOT, _TIME = slice(0, 2), slice(2, 4), 4


@dataclass(frozen=True)
class _Fleets:
    """All ways to place the ships. spots: the cells of each single placement as a bit mask, and its name. follow:
    (placements so far, spots) the placement that follows, -1 if it cannot; 0 is none placed yet. ships: (placements,
    ships) cells of each ship, 0 while it is not placed."""

    spots: list[tuple[int, str]]
    follow: Ints
    ships: Ints


def _spots(width: int, height: int, sizes: list[int]) -> list[tuple[int, str, int]]:
    """Cells as a bit mask, name and length of every placement of a single ship, across first."""
    found = []
    for size in sorted(set(sizes)):
        for step in (1, width) if size > 1 else (1,):
            wide, high = (size, 1) if step == 1 else (1, size)
            for row in range(height - high + 1):
                for column in range(width - wide + 1):
                    cells = [row * width + column + step * k for k in range(size)]
                    ends = dict.fromkeys((_cell(cells[0], width), _cell(cells[-1], width)))
                    found.append((sum(1 << cell for cell in cells), "-".join(ends), size))
    return found


def _cell(cell: int, width: int) -> str:
    return f"{chr(ord('a') + cell % width)}{cell // width + 1}"


def _fleets(width: int, height: int, sizes: list[int]) -> _Fleets:
    spots = _spots(width, height, sizes)
    whole: list[tuple[int, ...]] = [()]
    for size in sizes:
        whole = [
            (*before, spot)
            for before in whole
            for spot, (cells, _, length) in enumerate(spots)
            if length == size and not any(cells & spots[other][0] for other in before)
        ]
    if not whole:
        raise BadInputError(
            f"game battleship: {len(sizes)} ships of {', '.join(map(str, sizes))} do not fit on a board of "
            f"{width} x {height}; choose a larger board or fewer ships"
        )
    placements = sorted({fleet[:k] for fleet in whole for k in range(len(sizes) + 1)}, key=lambda f: (len(f), f))
    number = {fleet: at for at, fleet in enumerate(placements)}
    follow = np.full((len(placements), len(spots)), -1)
    ships = np.zeros((len(placements), len(sizes)), dtype=np.int64)
    for fleet, at in number.items():
        ships[at, : len(fleet)] = [spots[spot][0] for spot in fleet]
        if fleet:
            follow[number[fleet[:-1]], fleet[-1]] = at
    return _Fleets([(cells, name) for cells, name, _ in spots], follow, ships)


class _Battleship(Rules):
    name = "battleship"
    start = (0, 0, 0, 0, 0)

    def __init__(self, width: int, height: int, sizes: list[int], shots: int) -> None:
        self.fleets = _fleets(width, height, sizes)
        self.placing = 2 * len(sizes)
        self.end = self.placing + 2 * shots
        self.cells = [_cell(cell, width) for cell in range(width * height)]
        self.actions = self.cells + [f"ship {name}" for _, name in self.fleets.spots]
        self.bits = 1 << np.arange(len(self.cells))

    def sunk(self, states: States) -> Ints:
        """(n, 2) ships that each player has lost."""
        ships = self.fleets.ships[states[:, _PLACED]]
        shot = states[:, [3, 2]][:, :, None]
        return np.asarray(((ships & ~shot) == 0).sum(axis=2) - (ships == 0).sum(axis=2))

    def turn(self, states: States) -> Ints:
        time = states[:, _TIME]
        lost = (self.sunk(states) == self.placing // 2).any(axis=1)
        over = (time >= self.end) | (lost & (time >= self.placing))
        return np.where(over, TERMINAL, time % 2)

    def legal(self, states: States) -> Bools:
        turn = self.turn(states)
        placing = states[:, _TIME] < self.placing
        mine = states[np.arange(len(states)), np.maximum(turn, 0)]
        cells = np.broadcast_to(~placing[:, None], (len(states), len(self.cells)))
        spots = (self.fleets.follow[mine] >= 0) & placing[:, None]
        return np.asarray(np.concatenate([cells, spots], axis=1) & (turn != TERMINAL)[:, None])

    def step(self, states: States, action: Ints) -> States:
        after = states.copy()
        who = states[:, _TIME] % 2
        rows, cells = np.arange(len(states)), len(self.cells)
        placing = action >= cells
        placed = self.fleets.follow[states[rows, who], np.maximum(action - cells, 0)]
        after[rows[placing], who[placing]] = placed[placing]
        shot = ~placing
        after[rows[shot], 2 + who[shot]] |= self.bits[action[shot]].astype(np.int32)
        after[:, _TIME] += 1
        return after

    def seen(self, player: int, states: States, action: Ints) -> Ints:
        cells = len(self.cells)
        own = states[:, _TIME] % 2 == player
        ships = self.fleets.ships[states[:, 1 - player]]
        bit = self.bits[np.minimum(action, cells - 1)][:, None]
        struck = (ships & bit) > 0
        sunk = (struck & ((ships & ~(states[:, 2 + player][:, None] | bit)) == 0)).any(axis=1)
        answer = np.where(sunk, 2, struck.any(axis=1))
        shot = 1 + 4 * action + np.where(own, answer, 3)
        return np.where(action < cells, shot, np.where(own, 1 + 4 * action, 0))

    def word(self, seen: int) -> str:
        action, answer = divmod(seen - 1, 4)
        if action >= len(self.cells):
            return self.actions[action].removeprefix("ship ")
        return f"({self.actions[action]})" if answer == 3 else f"{self.actions[action]}:{'whs'[answer]}"

    def payoff(self, states: States) -> Floats:
        sunk = self.sunk(states)
        return (sunk[:, 1] - sunk[:, 0]).astype(np.float64)


def _rules(width: int, height: int, ships: str, shots: int) -> _Battleship:
    return _Battleship(width, height, [int(size) for size in ships.split("-")], shots)


def nodes(width: int, height: int, ships: str, shots: int) -> int:
    """Nodes of the tree, before it is built."""
    return count(_rules(width, height, ships, shots))


def battleship(width: int = 2, height: int = 2, ships: str = "1", shots: int = 2) -> Game:
    """Battleship on boards of `width` by `height` cells, with ships of the sizes given (`1-2`: one of one cell, then
    one of two) and `shots` shots for each player."""
    return expand(_rules(width, height, ships, shots))
