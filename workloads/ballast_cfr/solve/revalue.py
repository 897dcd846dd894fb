"""The numbers of a compiled game made anew: what `compile/variation.py` rests on.

Payoffs and chances are each worked through once, by themselves; a program is then put together from both.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.compile.program import Judge, Program, compile_game, matrices
from ballast_cfr.game import Floats
from ballast_cfr.solve import revalue_kernels as kernels
from ballast_cfr.solve.layout import index

Indices = NDArray[np.uint32]
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Paid:
    """Payoffs, and what follows from them alone. both: (T, 2); gain: (T,) half of what they differ; below: (I,) the
    largest absolute gain behind each information set of player 0 and then of player 1."""

    both: Floats
    gain: Floats
    below: Floats


@dataclass(frozen=True, eq=False)
class Drawn:
    """Chances, and what follows from them alone. chance: (N,) of each edge; nodes: (N,) their product on the way to
    each node; infosets: (I,) its sum over the nodes of each information set, as in Paid."""

    chance: Floats
    nodes: Floats
    infosets: Floats


class Revaluation:
    """Of one compiled game."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.game = program.game
        self.many = tuple(plex.infosets for plex in program.judge.plex)
        self._cells: tuple[Any, Indices, Indices] | None = None

    def as_compiled(self) -> Paid:
        """What follows from the payoffs that the game was compiled with."""
        both = self.game.payoff
        return self._paid(both, np.asarray((both[:, 0] - both[:, 1]) / 2))

    def paid(self, payoff: Floats) -> Paid:
        """What follows from other payoffs of player 0, (T,)."""
        both, gain = np.empty((len(payoff), 2)), np.empty(len(payoff))
        kernels.share_out(payoff, self.program.shift, both, gain)
        return self._paid(both, gain)

    def _paid(self, both: Floats, gain: Floats) -> Paid:
        below = np.empty(self.many[0] + self.many[1])
        for shape, part in zip(self._shape, (below[: self.many[0]], below[self.many[0] :]), strict=True):
            kernels.largest_below(gain, *shape, part)
        return Paid(both, gain, below)

    def drawn(self, chance: Floats) -> Drawn:
        """What follows from chances (N,)."""
        nodes, infosets = np.empty(self.game.nodes), np.empty(self.many[0] + self.many[1])
        kernels.reach_nodes(self._parent, chance, nodes)
        kernels.reach_infosets(nodes, self._place, infosets)
        return Drawn(chance, nodes, infosets)

    def dealt(self, node: Longs, edges: Longs, mass: Floats) -> Drawn:
        """What follows if deals come in these proportions (D,). node: (D,) where each leads; edges: all edges on the
        way there, level by level, from the last."""
        chance, at = self.game.chance.copy(), np.zeros(int(node.max(initial=0)) + 1)
        at[node] = mass
        kernels.deal(edges, self._parent, at, chance)
        return self.drawn(chance)

    def make(self, base: Program, paid: Paid, drawn: Drawn) -> Program:
        """The program with these numbers. base: as for Variations.make."""
        game = replace(self.game, payoff=paid.both, chance=drawn.chance)
        game.__dict__["chance_reach"] = drawn.nodes
        if not base.exact_recall:
            return compile_game(game, base.form, allow_imperfect_recall=True)
        magnitude = drawn.infosets * paid.below
        plex0 = replace(base.judge.plex[0], magnitude=magnitude[: self.many[0]])
        plex1 = replace(base.judge.plex[1], magnitude=magnitude[self.many[0] :])
        weight, values = self._weigh(base, paid, drawn)
        judge = Judge((plex0, plex1), base.judge.sequence, weight)
        if base.tree is not None:
            pays = np.zeros(game.nodes)
            pays[self.game.terminals] = paid.gain
            tree = replace(base.tree, chance=game.chance, gain=pays)
            return replace(base, game=game, plex=judge.plex, judge=judge, tree=tree)
        if values is None:  # something pays where nothing did
            matrix, paying = matrices(judge), np.flatnonzero(weight)
            return replace(base, game=game, plex=judge.plex, judge=judge, matrix=matrix, paying=paying)
        assert base.matrix is not None
        matrix = replace(base.matrix[0], value=values[0]), replace(base.matrix[1], value=values[1])
        return replace(base, game=game, plex=judge.plex, judge=judge, matrix=matrix)

    def _weigh(self, base: Program, paid: Paid, drawn: Drawn) -> tuple[Floats, tuple[Floats, Floats] | None]:
        """(T,) weights of the terminals, and the values of both matrices, None if these do not hold them all."""
        if base.matrix is None:
            return drawn.nodes[self.game.terminals] * paid.gain, None
        many = len(base.matrix[0].value)
        weight, value0, value1 = np.empty(len(paid.gain)), np.empty(many), np.empty(many)
        cells = self._cells_of(base)
        whole = kernels.weigh_cells(paid.gain, self._terminals, drawn.nodes, *cells, weight, value0, value1)
        return weight, (value0, value1) if whole else None

    def _cells_of(self, base: Program) -> tuple[Indices, Indices]:
        """By player, (T,) the entry of its matrix that each terminal is part of."""
        assert base.matrix is not None and base.paying is not None
        if self._cells is None or self._cells[0] is not base.matrix[0].start:
            made = []
            for csr in base.matrix:
                cell = np.full(len(self.game.terminals), kernels.NOWHERE, dtype=np.uint32)
                cell[base.paying] = csr.cell
                made.append(cell)
            self._cells = base.matrix[0].start, made[0], made[1]
        return self._cells[1:]

    @cached_property
    def _parent(self) -> Indices:
        return index(np.maximum(self.game.parent, 0))

    @cached_property
    def _terminals(self) -> Indices:
        return index(self.game.terminals)

    @cached_property
    def _shape(self) -> list[tuple[Indices, Indices, Indices, Floats]]:
        """By player: the sequence that each terminal ends, first slot of each information set, the sequence above it,
        and scratch."""
        judge = self.program.judge
        return [
            (index(ends), index(plex.first), index(plex.parent), np.empty(plex.slots + 1))
            for ends, plex in zip(judge.sequence, judge.plex, strict=True)
        ]

    @cached_property
    def _place(self) -> Indices:
        """(N,) the information set at each node, counted as in Paid, NOWHERE at chance and terminals."""
        place = np.full(self.game.nodes, kernels.NOWHERE, dtype=np.uint32)
        for player, plex in enumerate(self.program.judge.plex):
            number = np.zeros(self.game.infosets, dtype=np.uint32)
            number[plex.infoset] = np.arange(plex.infosets) + player * self.many[0]
            at = np.flatnonzero(self.game.player == player)
            place[at] = number[self.game.infoset[at]]
        return place
