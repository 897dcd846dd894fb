"""Random games with perfect recall, for tests and for trying things out.

Nodes are merged into information sets at random among those of one level, player, own sequence and number of actions:
a player never forgets, but learns of the other's moves only by chance.
"""

from dataclasses import dataclass, field
from random import Random

import numpy as np

from ballast_cfr.game import CHANCE, TERMINAL, Game, number_by_appearance

Own = tuple[tuple[int, int], tuple[int, int]]  # each player's last (information set, action)
_START: Own = ((-1, 0), (-1, 0))


@dataclass
class _Grown:
    """Nodes in level order, and their information sets."""

    player: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    infoset: list[int] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    payoff: list[float] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)


def nodes(depth: int, branching: int, **_: int) -> int:
    """The most nodes that such a game can have."""
    return int(sum(branching**level for level in range(depth + 1)))


def random_game(seed: int = 0, depth: int = 5, branching: int = 3, merge: int = 60, zero: int = 5) -> Game:
    """A zero-sum game of at most `depth` moves with at most `branching` actions each.

    merge: percentage of nodes that join an information set they may join. zero: percentage of chance outcomes of
    probability zero. Payoffs are eighths from -4 to 4.
    """
    random = Random(seed)
    grown = _Grown()
    level: list[tuple[float, Own]] = [(1.0, _START)]
    for left in range(depth, -1, -1):
        groups: dict[tuple[int, tuple[int, int], int], list[int]] = {}
        below: list[tuple[float, Own]] = []
        for chance, own in level:
            grown.chance.append(chance)
            kind = random.choice((0, 1, 0, 1, CHANCE, TERMINAL if left < depth else 0)) if left else TERMINAL
            below.extend(_node(random, grown, groups, kind, own, branching, merge, zero))
        level = below
    return _finish(grown)


def _node(
    random: Random,
    grown: _Grown,
    groups: dict[tuple[int, tuple[int, int], int], list[int]],
    kind: int,
    own: Own,
    branching: int,
    merge: int,
    zero: int,
) -> list[tuple[float, Own]]:
    """Append a node; the chances and sequences of its children."""
    grown.player.append(kind)
    if kind == TERMINAL:
        grown.children.append(0)
        grown.infoset.append(-1)
        grown.payoff.append(random.randint(-32, 32) / 8)
        return []
    count = random.randint(1, branching)
    grown.children.append(count)
    if kind == CHANCE:
        grown.infoset.append(-1)
        shares = [0 if random.random() * 100 < zero else random.randint(1, 5) for _ in range(count)]
        shares[random.randrange(count)] += 1
        return [(share / sum(shares), own) for share in shares]
    group = groups.setdefault((kind, own[kind], count), [])
    if group and random.random() * 100 < merge:
        infoset = random.choice(group)
    else:
        infoset = len(grown.actions)
        grown.actions.append(count)
        group.append(infoset)
    grown.infoset.append(infoset)
    steps = [(infoset, action) for action in range(count)]
    return [(1.0, (step, own[1]) if kind == 0 else (own[0], step)) for step in steps]


def _finish(grown: _Grown) -> Game:
    infoset, first = number_by_appearance(np.array(grown.infoset))
    payoff = np.array(grown.payoff)
    counts = np.array(grown.children, dtype=np.int32)
    return Game(
        name="random-game",
        players=("0", "1"),
        player=np.array(grown.player, dtype=np.int8),
        n_children=counts,
        infoset=infoset,
        chance=np.array(grown.chance),
        payoff=np.stack([payoff, -payoff], axis=1),
        infoset_player=np.array(grown.player, dtype=np.int8)[first],
        infoset_label=[f"i{number}" for number in range(len(first))],
        infoset_actions=[tuple(f"a{action}" for action in range(counts[node])) for node in first],
    )
