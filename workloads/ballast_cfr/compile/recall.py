"""Who remembers what: each player's own sequence at every node, and where players forget.

A player's sequence is the last (information set, action) of its own on the way to a node; 0 is the empty one. With
perfect recall every node of an information set carries the same sequence. Where it does not, the information set is
split by sequence, which gives the game in which that player remembers: a best response there bounds a best response
in the game itself from above.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.game import Game


@dataclass(frozen=True, eq=False)
class Memory:
    """The information sets of both players as they remember them (R of them), numbered from the root down.

    infoset: (R,) the game's information set. parent: (R,) the player's sequence above it. first_slot: (R,) its first
    slot: slot s is the player's sequence s + 1, both counted for each player apart. remembered: (N,) index into these
    of each decision node, -1 elsewhere. sequence: (2, N) each player's sequence at each node. forgets: pairs of nodes
    of one information set that its player reaches by different sequences of its own.
    """

    game: Game
    infoset: NDArray[np.int64]
    parent: NDArray[np.int64]
    first_slot: NDArray[np.int64]
    remembered: NDArray[np.int64]
    sequence: NDArray[np.int64]
    forgets: tuple[tuple[int, int], ...]

    @cached_property
    def absent_minded(self) -> tuple[int, int] | None:
        """An information set met twice on one path: the earlier and the later node, if there is one."""
        suspects = {int(self.game.infoset[later]) for _, later in self.forgets}
        for node in np.flatnonzero(np.isin(self.game.infoset, list(suspects))) if suspects else ():
            above = int(self.game.parent[node])
            while above >= 0:
                if self.game.infoset[above] == self.game.infoset[node]:
                    return above, int(node)
                above = int(self.game.parent[above])
        return None


def remember(game: Game) -> Memory:
    """Walk the game from the root down, giving each player's sequence at every node."""
    walk = _Walk(game)
    for level in game.levels():
        walk.enter(level)
    return walk.finish()


class _Walk:
    def __init__(self, game: Game) -> None:
        self.game = game
        self.actions = np.array([len(names) for names in game.infoset_actions], dtype=np.int64)
        self.sequence = np.zeros((2, game.nodes), dtype=np.int64)
        self.remembered = np.full(game.nodes, -1, dtype=np.int64)
        self.known = np.full(game.infosets, -1, dtype=np.int64)
        # Infoset, parent and first slot of each: as many as the game has, and more only where a player forgets.
        self.found = np.zeros((3, max(1, game.infosets)), dtype=np.int64)
        self.many = 0
        self.slots = [0, 0]
        self.example = np.full(game.infosets, -1, dtype=np.int64)
        self.split: dict[tuple[int, int], int] = {}
        self.forgets: list[tuple[int, int]] = []

    def enter(self, level: slice) -> None:
        """Hand the sequences of the level above down, then find the information sets of this level."""
        game = self.game
        if level.start:
            above = game.parent[level]
            self.sequence[:, level] = self.sequence[:, above]
            acted = game.player[above] >= 0
            below, node = np.arange(level.start, level.stop)[acted], above[acted]
            slot = self.found[2, self.remembered[node]]
            self.sequence[game.player[node], below] = slot + game.action[below] + 1
        decisions = np.arange(level.start, level.stop)[game.player[level] >= 0]
        if len(decisions):
            self.decide(decisions)

    def decide(self, nodes: NDArray[np.int64]) -> None:
        infosets = self.game.infoset[nodes]
        sequences = self.sequence[self.game.player[nodes], nodes]
        new = np.flatnonzero(self.known[infosets] < 0)
        _, first = np.unique(infosets[new], return_index=True)
        for at in new[np.sort(first)]:
            infoset = int(infosets[at])
            self.known[infoset] = self.add(infoset, int(sequences[at]))
            self.example[infoset] = nodes[at]
        self.remembered[nodes] = self.known[infosets]
        for at in np.flatnonzero(self.found[1, self.remembered[nodes]] != sequences):
            node, infoset, sequence = int(nodes[at]), int(infosets[at]), int(sequences[at])
            if (infoset, sequence) not in self.split:
                self.split[infoset, sequence] = self.add(infoset, sequence)
                self.forgets.append((int(self.example[infoset]), node))
            self.remembered[node] = self.split[infoset, sequence]

    def add(self, infoset: int, sequence: int) -> int:
        player = int(self.game.infoset_player[infoset])
        if self.many == self.found.shape[1]:
            self.found = np.concatenate([self.found, np.zeros_like(self.found)], axis=1)
        self.found[:, self.many] = infoset, sequence, self.slots[player]
        self.slots[player] += int(self.actions[infoset])
        self.many += 1
        return self.many - 1

    def finish(self) -> Memory:
        return Memory(
            game=self.game,
            infoset=self.found[0, : self.many],
            parent=self.found[1, : self.many],
            first_slot=self.found[2, : self.many],
            remembered=self.remembered,
            sequence=self.sequence,
            forgets=tuple(self.forgets),
        )
