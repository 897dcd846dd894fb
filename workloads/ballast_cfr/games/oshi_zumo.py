"""Oshi-zumo: players bid coins in secret, and the higher bid pushes the wrestler one step towards the other.

The wrestler starts in the middle of a board of 2 size + 1 fields. Both bids are paid and then shown; equal bids push
nobody. The game ends when the wrestler is off the board, after `horizon` rounds, or when nobody has coins; whoever's
opponent he is nearer to wins 1. Buro, "Solving the Oshi-Zumo game", 2003. Bids are made in turn, unseen.
"""

import numpy as np

from ballast_cfr.game import TERMINAL, Floats, Game, Ints
from ballast_cfr.games.state_space import Bools, Rules, States, count, expand

# Columns of a state: coins of each player, how far the wrestler was pushed by player 0, player 0's bid + 1 (0: none
# yet), rounds played.
_COINS, _PUSHED, _BID, _ROUND = slice(0, 2), 2, 3, 4


class _OshiZumo(Rules):
    name = "oshi-zumo"

    def __init__(self, coins: int, size: int, horizon: int) -> None:
        self.start = (coins, coins, 0, 0, 0)
        self.size = size
        self.horizon = horizon
        self.actions = [str(bid) for bid in range(coins + 1)]

    def turn(self, states: States) -> Ints:
        off = np.abs(states[:, _PUSHED]) > self.size
        broke = (states[:, _COINS] == 0).all(axis=1) & (states[:, _BID] == 0)
        over = off | broke | (states[:, _ROUND] >= self.horizon)
        return np.where(over, TERMINAL, states[:, _BID] > 0)

    def legal(self, states: States) -> Bools:
        turn = self.turn(states)
        purse = states[np.arange(len(states)), np.maximum(turn, 0)]
        return np.asarray((np.arange(len(self.actions)) <= purse[:, None]) & (turn != TERMINAL)[:, None])

    def step(self, states: States, action: Ints) -> States:
        after, first = states.copy(), states[:, _BID] == 0
        after[first, _BID] = action[first] + 1
        second = ~first
        bids = states[second, _BID] - 1, action[second]
        after[second, 0] -= bids[0].astype(np.int32)
        after[second, 1] -= bids[1].astype(np.int32)
        after[second, _PUSHED] += np.sign(bids[0] - bids[1]).astype(np.int32)
        after[second, _BID] = 0
        after[second, _ROUND] += 1
        return after

    def seen(self, player: int, states: States, action: Ints) -> Ints:
        both = 1 + states[:, _BID] * len(self.actions) + action
        return np.where(states[:, _BID] > 0, both, (1 + action) * (player == 0))

    def word(self, seen: int) -> str:
        first, second = divmod(seen - 1, len(self.actions))
        return f"{first - 1}-{second}" if first else f"{second}?"

    def payoff(self, states: States) -> Floats:
        return np.asarray(np.sign(states[:, _PUSHED]), dtype=np.float64)


def nodes(coins: int, size: int, horizon: int) -> int:
    """Nodes of the tree, before it is built."""
    return count(_OshiZumo(coins, size, horizon))


def oshi_zumo(coins: int = 5, size: int = 2, horizon: int = 6) -> Game:
    """Oshi-zumo with `coins` coins for each player."""
    return expand(_OshiZumo(coins, size, horizon))
