"""Dark hex: hex on a small board on which neither player sees the other's stones.

Who tries an occupied cell is told so, sees that stone from then on, and tries again ("classical" dark hex). Player 0
joins top and bottom, player 1 left and right; whoever does wins 1. Both know how many tries were made. On 2 x 2 the
first player wins.
"""

import numpy as np

from ballast_cfr.game import TERMINAL, Floats, Game, Ints
from ballast_cfr.games.state_space import Bools, Rules, States, count, expand

# Columns of a state: each player's stones, the other's stones that each has found, as bit masks; who moves.
_STONES, _FOUND, _MOVER = slice(0, 2), slice(2, 4), 4


def _joined(rows: int, columns: int, down: bool) -> Bools:
    """(2^cells,) whether a set of stones joins top and bottom (or left and right)."""
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    steps = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
    masks = np.arange(1 << len(cells))
    start = sum(1 << at for at, (row, column) in enumerate(cells) if (row if down else column) == 0)
    goal = sum(1 << at for at, cell in enumerate(cells) if cell[not down] == (rows if down else columns) - 1)
    reached = masks & start
    for _ in cells:
        for at, (row, column) in enumerate(cells):
            around = [(row + r, column + c) for r, c in steps]
            near = sum(1 << cells.index(cell) for cell in around if cell in cells)
            touches = ((reached & near) > 0) & ((masks >> at & 1) > 0)
            reached = np.where(touches, reached | 1 << at, reached)
    return np.asarray((reached & goal) > 0)


class _DarkHex(Rules):
    name = "dark-hex"
    start = (0, 0, 0, 0, 0)

    def __init__(self, rows: int, columns: int) -> None:
        self.actions = [f"{chr(ord('a') + at % columns)}{at // columns + 1}" for at in range(rows * columns)]
        self.bits = 1 << np.arange(rows * columns)
        self.won = (_joined(rows, columns, True), _joined(rows, columns, False))

    def turn(self, states: States) -> Ints:
        over = self.won[0][states[:, 0]] | self.won[1][states[:, 1]]
        return np.where(over, TERMINAL, states[:, _MOVER])

    def legal(self, states: States) -> Bools:
        turn = self.turn(states)
        rows = np.arange(len(states))
        known = states[rows, states[:, _MOVER]] | states[rows, 2 + states[:, _MOVER]]
        return np.asarray(((known[:, None] & self.bits) == 0) & (turn != TERMINAL)[:, None])

    def taken(self, states: States, action: Ints) -> Bools:
        """(n,) whether the other player's stone lies there."""
        return np.asarray((states[np.arange(len(states)), 1 - states[:, _MOVER]] & self.bits[action]) > 0)

    def step(self, states: States, action: Ints) -> States:
        after, mover, taken = states.copy(), states[:, _MOVER], self.taken(states, action)
        after[np.arange(len(states)), mover + 2 * taken] |= self.bits[action].astype(np.int32)
        after[:, _MOVER] = np.where(taken, mover, 1 - mover)
        return after

    def seen(self, player: int, states: States, action: Ints) -> Ints:
        return np.where(states[:, _MOVER] == player, 2 + 2 * action + self.taken(states, action), 1)

    def word(self, seen: int) -> str:
        action, taken = divmod(seen - 2, 2)
        return "." if seen == 1 else self.actions[action] + "!" * taken

    def payoff(self, states: States) -> Floats:
        return np.where(self.won[0][states[:, 0]], 1.0, -1.0)


def nodes(rows: int, columns: int) -> int:
    """Nodes of the tree, before it is built."""
    return count(_DarkHex(rows, columns))


def dark_hex(rows: int = 2, columns: int = 2) -> Game:
    """Dark hex on `rows` by `columns` cells."""
    return expand(_DarkHex(rows, columns))
