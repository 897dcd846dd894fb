"""Goofspiel: both players bid cards 1..n, each once, for prize cards 1..n; the higher bid takes the prize.

Bids are secret: players learn only who won, ties go to nobody. The last cards are played without a choice. Whoever
has more prize points wins 1. Imperfect-information form as in Lanctot et al. 2009; simultaneous bids are made in turn,
unseen. Prizes come in descending order or at random.
"""

from math import perm

import numpy as np

from ballast_cfr.game import CHANCE, TERMINAL, Floats, Game, Ints
from ballast_cfr.games.state_space import Bools, Rules, States, expand

ORDERS = ("descending", "ascending", "random")

# Columns of a state: cards left to each player and prizes left as bit masks, the prize played for (0: none yet), the
# first player's bid (0: none yet), how many points player 0 is ahead.
_HANDS, _LEFT, _PRIZE, _BID, _AHEAD = slice(0, 2), 2, 3, 4, 5


def nodes(cards: int, order: str) -> int:
    """Nodes of the tree, before it is built."""
    total = 0
    for done in range(cards):
        here = perm(cards, done) ** 2 * (perm(cards, done) if order == "random" else 1)
        total += here
        if done < cards - 1:
            left = cards - done
            total += here * left * ((1 + left) if order == "random" else 1)
    return total


class _Goofspiel(Rules):
    name = "goofspiel"

    def __init__(self, cards: int, order: str) -> None:
        self.cards = cards
        self.order = order
        everything = (1 << cards) - 1
        self.start = (everything, everything, everything, self.next_prize(0), 0, 0)
        self.actions = [str(card + 1) for card in range(cards)]
        self.bits = 1 << np.arange(cards)

    def next_prize(self, done: int) -> int:
        return {"descending": self.cards - done, "ascending": done + 1, "random": 0}[self.order]

    def turn(self, states: States) -> Ints:
        over = np.bitwise_count(states[:, 0]) <= 1
        bidding = np.where(states[:, _BID] == 0, 0, 1)
        done = over & (states[:, _BID] == 0)
        return np.where(done, TERMINAL, np.where(states[:, _PRIZE] == 0, CHANCE, bidding))

    def legal(self, states: States) -> Bools:
        turn = self.turn(states)
        holds = np.where(turn == CHANCE, states[:, _LEFT], np.where(turn == 0, states[:, 0], states[:, 1]))
        return np.asarray(((holds[:, None] & self.bits) > 0) & (turn != TERMINAL)[:, None])

    def step(self, states: States, action: Ints) -> States:
        turn, after, card = self.turn(states), states.copy(), action + 1
        draws, first, second = turn == CHANCE, turn == 0, turn == 1
        after[draws, _PRIZE] = card[draws]
        after[first, _BID] = card[first]
        won = np.sign(states[:, _BID] - card) * states[:, _PRIZE]
        after[second, _AHEAD] += won[second].astype(np.int32)
        after[second, 0] &= ~self.bits[states[second, _BID] - 1].astype(np.int32)
        after[second, 1] &= ~self.bits[action[second]].astype(np.int32)
        after[second, _LEFT] &= ~self.bits[states[second, _PRIZE] - 1].astype(np.int32)
        after[second, _BID] = 0
        done = self.cards - np.bitwise_count(after[second, 0])
        after[second, _PRIZE] = np.array([self.next_prize(k) for k in range(self.cards)])[done]
        return after

    def seen(self, player: int, states: States, action: Ints) -> Ints:
        turn = self.turn(states)
        ahead = np.sign(states[:, _BID] - 1 - action) * (1 - 2 * player)
        own = np.where(turn == player, action + 1, 0)
        return np.where(turn == CHANCE, 1000 + action, own + np.where(turn == 1, 100 * (2 + ahead), 0))

    def word(self, seen: int) -> str:
        if seen >= 1000:
            return f"for {seen - 999}:"
        result, own = divmod(seen, 100)
        return f"{own or ''} {('', 'lost', 'tied', 'won')[result]}".strip()

    def payoff(self, states: States) -> Floats:
        last = [np.log2(np.maximum(states[:, player], 1)).astype(np.int64) + 1 for player in (0, 1)]
        prize = np.log2(np.maximum(states[:, _LEFT], 1)).astype(np.int64) + 1
        ahead = states[:, _AHEAD] + np.sign(last[0] - last[1]) * prize
        return np.asarray(np.sign(ahead), dtype=np.float64)


def goofspiel(cards: int = 4, order: str = "descending") -> Game:
    """Goofspiel with `cards` cards; prizes in `order`."""
    return expand(_Goofspiel(cards, order))
