"""Liar's dice for two: hidden dice, rising bids on both hands together, until one calls the other a liar.

A bid (quantity, face) holds if at least that many dice show the face; the highest face is wild. The loser pays one.
With one die of four faces each the value is +1/16 for the first player, of six faces -0.0271317829.
"""

from itertools import product

import numpy as np

from ballast_cfr.game import TERMINAL, Floats, Game, Ints
from ballast_cfr.games.public_tree import Deals, PublicTree, Rules, expand


def nodes(dice: int, faces: int) -> int:
    """Nodes of the tree, before it is built: bids rise, so that a play is a subset of the bids, and one call at
    most."""
    bids: int = 2 * dice * faces
    rolls = [int(faces**rolled) for rolled in range(2 * dice + 1)]
    return sum(rolls[:-1]) + rolls[-1] * int(2 ** (bids + 1) - 1)


def liars_dice(dice: int = 1, faces: int = 6) -> Game:
    """Liar's dice with `dice` dice of `faces` faces for each of the two players."""
    names = [f"{quantity}x{face}" for quantity in range(1, 2 * dice + 1) for face in range(1, faces + 1)]
    tree = PublicTree()
    last: list[int] = []
    caller: list[int] = []
    _grow(tree, names, last, caller)
    outcomes = np.array(list(product(range(1, faces + 1), repeat=2 * dice)))
    hands = np.stack([np.sort(outcomes[:, :dice], axis=1), np.sort(outcomes[:, dice:], axis=1)])
    rolls, private = np.unique(hands.reshape(-1, dice), axis=0, return_inverse=True)
    deals = Deals(
        outcomes=outcomes,
        weight=np.ones(len(outcomes)),
        private=private.reshape(2, -1),
        private_label=["".join(map(str, roll)) for roll in rolls],
    )
    shown = np.stack([((outcomes == face) | (outcomes == faces)).sum(axis=1) for face in range(1, faces + 1)])
    bid, calls = np.array(last), np.array(caller)

    def payoff(ends: Ints, deal: Ints) -> Floats:
        holds = shown[bid[ends] % faces, deal] > bid[ends] // faces
        return np.where(holds == (calls[ends] == 0), -1.0, 1.0)

    return expand("liars-dice", ("0", "1"), tree, deals, Rules(payoff))


def _grow(tree: PublicTree, names: list[str], last: list[int], caller: list[int]) -> None:
    """All rising sequences of bids, breadth first; `last` and `caller` say of each node what was bid last and who
    called."""
    todo = [(tree.add(0, "", names), 0, -1)]
    last.append(-1)
    caller.append(-1)
    for node, depth, bid in todo:
        so_far = tree.label[node] + " " if bid >= 0 else ""
        below = 1 - depth % 2
        for higher in range(bid + 1, len(names)):
            actions = [*names[higher + 1 :], "liar"]
            child = tree.add(below, so_far + names[higher], actions)
            last.append(higher)
            caller.append(-1)
            tree.children[node].append(child)
            todo.append((child, depth + 1, higher))
        if bid >= 0:
            tree.children[node].append(tree.add(TERMINAL, so_far + "liar"))
            last.append(bid)
            caller.append(depth % 2)
