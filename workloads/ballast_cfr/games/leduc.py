"""Leduc hold'em: one private card, one public card, two rounds of betting.

Southey et al., "Bayes' bluff: opponent modelling in poker", UAI 2005. Each rank comes in two suits. Both players ante
one chip; a raise is 2 chips in the first round and 4 in the second, at most two raises a round. A pair with the
public card wins, then the higher rank. With three ranks the value is -0.0856064241 for the first player.
"""

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import CHANCE, TERMINAL, Floats, Game, Ints
from ballast_cfr.games.public_tree import Deals, PublicTree, Rules, expand

_RAISE = (2, 4)
_MAX_RAISES = 2
_SUITS = 2
_RANKS = "JQK"


def nodes(ranks: int) -> int:
    """Nodes of the tree, before it is built: per deal 15 in the first round and, after 5 of its ends, 15 for each
    board."""
    cards = _SUITS * ranks
    return 1 + cards + cards * (cards - 1) * (15 + 5 * (cards - 2) * 15)


@dataclass
class _Betting:
    """The public tree, with what each of its ends needs for a payoff."""

    cards: list[str]
    tree: PublicTree = field(default_factory=PublicTree)
    board: list[int] = field(default_factory=list)
    pot: list[float] = field(default_factory=list)  # chips the loser has put in
    folded: list[int] = field(default_factory=list)  # who folded, or -1

    def add(
        self, player: int, label: str, actions: tuple[str, ...], board: int, pot: float = 0.0, folded: int = -1
    ) -> int:
        self.board.append(board)
        self.pot.append(pot)
        self.folded.append(folded)
        return self.tree.add(player, label, actions)

    def grow(self, label: str, seen: str, stakes: tuple[int, int], board: int) -> int:
        """Betting in one round. seen: its actions so far; label: all that is public."""
        player = len(seen) % 2
        behind = stakes[player] < stakes[1 - player]
        choices = ["fold"] * behind + ["call"] + ["raise"] * (seen.count("r") < _MAX_RAISES)
        node = self.add(player, label, tuple(choices), board)
        for choice in choices:
            self.tree.children[node].append(self.act(label, seen, stakes, board, player, choice))
        return node

    def act(self, label: str, seen: str, stakes: tuple[int, int], board: int, player: int, choice: str) -> int:
        letter = choice[0]
        if choice == "fold":
            return self.add(TERMINAL, label + letter, (), board, stakes[player], player)
        level = max(stakes) + (_RAISE[board >= 0] if choice == "raise" else 0)
        stakes = (level, stakes[1]) if player == 0 else (stakes[0], level)
        if choice == "raise" or not seen:
            return self.grow(label + letter, seen + letter, stakes, board)
        if board >= 0:
            return self.add(TERMINAL, label + letter, (), board, level)
        return self.turn(label + letter, stakes)

    def turn(self, label: str, stakes: tuple[int, int]) -> int:
        node = self.add(CHANCE, label, tuple(self.cards), -1)
        for card, name in enumerate(self.cards):
            self.tree.children[node].append(self.grow(f"{label}/{name}:", "", stakes, card))
        return node


def leduc(ranks: int = 3) -> Game:
    """Leduc hold'em with `ranks` ranks in two suits."""
    names = list(_RANKS) if ranks == len(_RANKS) else [str(rank + 1) for rank in range(ranks)]
    betting = _Betting([name + suit for name in names for suit in "ab"])
    betting.grow("", "", (1, 1), -1)
    outcomes = np.array(list(permutations(range(_SUITS * ranks), 2)))
    deals = Deals(outcomes, np.ones(len(outcomes)), outcomes.T, betting.cards)
    board, pot, folded = np.array(betting.board), np.array(betting.pot), np.array(betting.folded)

    def payoff(ends: Ints, deal: Ints) -> Floats:
        mine, theirs = outcomes[deal, 0] // _SUITS, outcomes[deal, 1] // _SUITS
        shown = board[ends] // _SUITS
        showdown = np.where(mine == shown, 1, np.where(theirs == shown, -1, np.sign(mine - theirs)))
        showdown = np.where((mine == shown) & (theirs == shown), 0, showdown)
        won = np.where(folded[ends] < 0, showdown, np.where(folded[ends] == 0, -1, 1))
        return np.asarray(pot[ends] * won, dtype=np.float64)

    def possible(below: Ints, deal: Ints) -> NDArray[np.bool_]:
        return np.asarray((board[below] != outcomes[deal, 0]) & (board[below] != outcomes[deal, 1]))

    return expand("leduc", ("0", "1"), betting.tree, deals, Rules(payoff, possible, big_blind=1.0))
