"""One player's decisions as a treeplex: information sets below the sequences that lead to them.

Information sets are ordered by own depth, then by the sequence above them, so that those below one sequence are
contiguous, and a pass from the last to the first is bottom-up. Slots (information set, action) are contiguous in that
order; sequence 0 is the empty one and slot s is sequence s + 1.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.recall import Memory
from ballast_cfr.game import Floats, Game


@dataclass(frozen=True, eq=False)
class Treeplex:
    """I information sets with S slots.

    first: (I + 1,) first slot of each information set, and S. parent: (I,) sequence above each. infoset: (I,) the
    game's number for it. magnitude: (I,) largest absolute value that a counterfactual value in it can have: its
    chance reach times the largest absolute payoff below it. The tie rule is relative to this.
    """

    first: NDArray[np.int32]
    parent: NDArray[np.int32]
    infoset: NDArray[np.int64]
    magnitude: Floats

    @property
    def infosets(self) -> int:
        return len(self.parent)

    @property
    def slots(self) -> int:
        return int(self.first[-1])

    @cached_property
    def of_slot(self) -> NDArray[np.int64]:
        """(S,) information set of each slot."""
        return np.repeat(np.arange(self.infosets), np.diff(self.first))

    def levels(self) -> list[tuple[int, int]]:
        """The information sets by own depth, from the top, as ranges."""
        if not self.infosets:
            return []
        above = np.where(self.parent > 0, self.of_slot[self.parent - 1], -1)
        edges = [0]
        while (
            start := edges[-1]
        ) < self.infosets:  # those whose parents all lie above `start`; order makes them contiguous
            edges.append(start + int(np.searchsorted(above[start:], start)))
        return list(pairwise(edges))


def build(memory: Memory, player: int, gain: Floats) -> tuple[Treeplex, NDArray[np.int64]]:
    """Order one player's remembered information sets. gain: (T,) what the terminals pay.

    Returns the treeplex, and the new number of each of the player's sequences as Memory counts them, (S + 1,).
    """
    game = memory.game
    own = np.flatnonzero(game.infoset_player[memory.infoset] == player)
    counts = np.array([len(names) for names in game.infoset_actions], dtype=np.int64)[memory.infoset[own]]
    slots = int(counts.sum())
    old_first = memory.first_slot[own]
    of_old_slot = np.repeat(np.arange(len(own)), counts)
    above = memory.parent[own]
    order = np.empty(len(own), dtype=np.int64)
    sequence = np.zeros(slots + 1, dtype=np.int64)
    placed, used = 0, 0
    level = np.flatnonzero(above == 0)
    below = _Below(above, of_old_slot, len(own))
    while len(level):
        level = level[np.argsort(sequence[above[level]], kind="stable")]
        order[placed : placed + len(level)] = level
        n = counts[level]
        starts = np.cumsum(n) - n
        within = np.arange(n.sum()) - np.repeat(starts, n)
        sequence[np.repeat(old_first[level], n) + within + 1] = used + np.arange(n.sum()) + 1
        placed, used = placed + len(level), used + int(n.sum())
        level = below(level)
    number = np.full(len(memory.infoset) + 1, -1, dtype=np.int64)  # the last one is where index -1 points
    number[own[order]] = np.arange(len(own))
    first = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int32)
    plex = Treeplex(
        first=first,
        parent=sequence[above[order]].astype(np.int32),
        infoset=memory.infoset[own[order]],
        magnitude=magnitudes(memory.game, gain, number[memory.remembered], len(own)),
    )
    return plex, sequence


class _Below:
    """Finds the information sets directly below others."""

    def __init__(self, above: NDArray[np.int64], of_slot: NDArray[np.int64], infosets: int) -> None:
        self.below = np.flatnonzero(above > 0)
        self.parent = of_slot[above[self.below] - 1]
        self.infosets = infosets

    def __call__(self, level: NDArray[np.int64]) -> NDArray[np.int64]:
        chosen = np.zeros(self.infosets, dtype=bool)
        chosen[level] = True
        return np.asarray(self.below[chosen[self.parent]])


def magnitudes(game: Game, gain: Floats, infoset: NDArray[np.int64], infosets: int) -> Floats:
    """(I,) largest absolute counterfactual value possible in each information set.

    infoset: (N,) the information set of each node, -1 where there is none.
    """
    largest = np.zeros(game.nodes)
    largest[game.terminals] = np.abs(gain)
    for level in reversed(list(game.levels())):
        if level.start:
            np.maximum.at(largest, game.parent[level], largest[level])
    nodes = np.flatnonzero(infoset >= 0)
    reach = np.bincount(infoset[nodes], weights=game.chance_reach[nodes], minlength=infosets)
    payoff = np.zeros(infosets)
    np.maximum.at(payoff, infoset[nodes], largest[nodes])
    return np.asarray(reach * payoff, dtype=np.float64)
