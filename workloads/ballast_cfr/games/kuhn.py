"""Kuhn's poker: one card each, one bet of one chip over an ante of one.

H. W. Kuhn, "A simplified two-person poker", 1950. With three cards its value is -1/18 for the first player.
"""

from itertools import permutations

import numpy as np

from ballast_cfr.game import TERMINAL, Floats, Game, Ints
from ballast_cfr.games.public_tree import Deals, PublicTree, Rules, expand

# Chips won by player 0 for each way to end: at a showdown by the higher card, otherwise by who did not fold.
_ENDS = {
    "pp": ("showdown", 1),
    "pbp": ("player 1", 1),
    "pbb": ("showdown", 2),
    "bp": ("player 0", 1),
    "bb": ("showdown", 2),
}
_CARDS = "JQK"


def nodes(cards: int) -> int:
    """Nodes of the tree, before it is built."""
    return 1 + cards + 9 * cards * (cards - 1)


def kuhn(cards: int = 3) -> Game:
    """Kuhn poker with a deck of `cards` ranked cards."""
    tree = PublicTree()
    _grow(tree, "")
    outcomes = np.array(list(permutations(range(cards), 2)))
    deals = Deals(
        outcomes=outcomes,
        weight=np.ones(len(outcomes)),
        private=outcomes.T,
        private_label=list(_CARDS) if cards == len(_CARDS) else [str(card + 1) for card in range(cards)],
    )
    chips = np.array([_ENDS[label][1] if label in _ENDS else 0 for label in tree.label], dtype=float)
    winner = [_ENDS[label][0] if label in _ENDS else "" for label in tree.label]
    fixed = np.array([{"player 0": 1, "player 1": -1}.get(who, 0) for who in winner])

    def payoff(ends: Ints, deal: Ints) -> Floats:
        higher = np.sign(outcomes[deal, 0] - outcomes[deal, 1])
        return np.asarray(chips[ends] * np.where(fixed[ends] != 0, fixed[ends], higher), dtype=np.float64)

    return expand("kuhn", ("0", "1"), tree, deals, Rules(payoff, big_blind=1.0))


def _grow(tree: PublicTree, seen: str) -> int:
    if seen in _ENDS:
        return tree.add(TERMINAL, seen)
    node = tree.add(len(seen) % 2, seen, ("pass", "bet"))
    tree.children[node] = [_grow(tree, seen + action) for action in "pb"]
    return node
