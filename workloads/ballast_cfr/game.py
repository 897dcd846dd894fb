"""The extensive-form game that everything reads and nothing changes.

Nodes lie in level order: the root first, then its children, then theirs. The children of a node are then contiguous,
levels are contiguous, and a parent always comes before its children, so the whole shape is one array, `n_children`;
whatever walks the tree does it level by level with array operations, at any depth, without recursion.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]

CHANCE = -1
TERMINAL = -2

_SHOWN = 20  # steps of a history in a message


@dataclass(frozen=True, eq=False)
class Game:
    """An extensive-form game with N nodes, T terminals, I information sets and P players.

    Shapes: player, n_children, infoset, chance (N,); payoff (T, P) in the order of the terminals; infoset_player
    (I,). `player` holds 0..P-1, CHANCE or TERMINAL. `infoset` is -1 except at decisions, and numbered by first
    appearance, so that two games are equal exactly if their arrays are. `chance` is the probability of the edge into
    a node (1 below decisions). `position` gives line and column of each node in the file it was read from, for error
    messages only.
    """

    name: str
    players: tuple[str, ...]
    player: NDArray[np.int8]
    n_children: NDArray[np.int32]
    infoset: NDArray[np.int32]
    chance: Floats
    payoff: Floats
    infoset_player: NDArray[np.int8]
    infoset_label: Sequence[str]
    infoset_actions: Sequence[tuple[str, ...]]
    big_blind: float | None = None
    position: Ints | None = None
    warnings: tuple[str, ...] = field(default=())

    @property
    def nodes(self) -> int:
        return len(self.player)

    @property
    def infosets(self) -> int:
        return len(self.infoset_player)

    @cached_property
    def first_child(self) -> NDArray[np.int64]:
        """(N,) index of each node's first child; for a leaf, where its children would be."""
        ends = np.cumsum(self.n_children, dtype=np.int64)
        return ends - self.n_children + 1

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """(N,) parent of each node, -1 at the root."""
        above = np.repeat(np.arange(self.nodes, dtype=np.int32), self.n_children)
        return np.concatenate([np.array([-1], dtype=np.int32), above])

    @cached_property
    def terminals(self) -> NDArray[np.int64]:
        """(T,) node of each terminal."""
        return np.flatnonzero(self.player == TERMINAL)

    @cached_property
    def action(self) -> NDArray[np.int32]:
        """(N,) which of its parent's actions leads to each node; 0 at the root."""
        index = np.arange(self.nodes)
        return np.asarray(np.where(self.parent < 0, 0, index - self.first_child[self.parent]), dtype=np.int32)

    def levels(self) -> Iterator[slice]:
        """The levels of the tree from the root down, as slices of the nodes."""
        start, end = 0, 1
        while start < end:
            yield slice(start, end)
            start, end = end, end + int(self.n_children[start:end].sum())

    @cached_property
    def chance_reach(self) -> Floats:
        """(N,) product of the chance probabilities on the way to each node."""
        reach = np.ones(self.nodes)
        for level in self.levels():
            if level.start:
                reach[level] = reach[self.parent[level]] * self.chance[level]
        return reach

    @cached_property
    def span(self) -> float:
        """Largest minus smallest payoff of player 0 over the terminals that chance can reach."""
        seen = self.payoff[self.chance_reach[self.terminals] > 0, 0]
        return float(seen.max()) - float(seen.min()) if len(seen) else 0.0

    def where(self, node: int) -> str:
        """How an error names a node: by file, line and column if it was read from one."""
        if self.position is None:
            return f"game {self.name}, node {node}"
        line, column = self.position[node]
        return f"game {self.name}, line {line}, column {column}"

    def infoset_name(self, infoset: int) -> str:
        """How a message names an information set: by player and label."""
        return f'"{self.infoset_label[infoset]}" of player {self.players[self.infoset_player[infoset]]}'

    def history(self, node: int) -> str:
        """The actions from the root to a node, chance outcomes by number, for error messages: the first and the last of
        a long one."""
        steps = []
        while node > 0:
            above = int(self.parent[node])
            taken = int(self.action[node])
            kind = int(self.player[above])
            steps.append(f"chance {taken + 1}" if kind == CHANCE else self.infoset_actions[self.infoset[above]][taken])
            node = above
        steps.reverse()
        if len(steps) > _SHOWN:
            steps[_SHOWN // 2 : -_SHOWN // 2] = [f"... {len(steps) - _SHOWN} more ..."]
        return ", ".join(steps) or "the start"

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that a solve and its output depend on: shape, chances, payoffs, labels; not the name."""
        labels = [self.players, list(self.infoset_label), list(map(list, self.infoset_actions))]
        whole = hashlib.sha256(json.dumps(labels, ensure_ascii=True, separators=(",", ":")).encode())
        for array, dtype in (
            (self.player, "<i1"),
            (self.n_children, "<i4"),
            (self.infoset, "<i4"),
            (self.infoset_player, "<i1"),
            (self.chance, "<f8"),
            (self.payoff + 0.0, "<f8"),  # -0.0 and 0.0 are the same payoff
        ):
            whole.update(np.ascontiguousarray(array, dtype=dtype).tobytes())
        return whole.hexdigest()


def number_by_appearance(keys: Ints) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Renumber arbitrary keys 0, 1, ... by first appearance.

    keys: (n,) non-negative where it counts, negative elsewhere (kept as -1). Returns the numbers (n,) and, for each
    number, the index where it first appears.
    """
    at = np.flatnonzero(keys >= 0)
    _, first, inverse = np.unique(keys[at], return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    numbers = np.full(len(keys), -1, dtype=np.int32)
    numbers[at] = rank[inverse]
    return numbers, at[first[order]]
