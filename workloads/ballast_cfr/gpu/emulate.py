"""The kernels' stages in plain Python, share by share over the very arrays the GPU gets.

Slow, and for tests only: it shows without a GPU that division, layout and order of sums give the bits of the CPU.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ballast_cfr.gpu.layout import BUSY, FIXED, FOREIGN, HAS_ROW, LENGTH_SHIFT, NOWHERE, WARP, Side


class Player:
    """One player's state in the order of the shares."""

    def __init__(self, side: Side, value: Any, start: Any, tie: Any) -> None:
        self.side = side
        self.value = np.where(side.entry >= 0, value[side.entry], 0.0)
        self.regret, self.average = np.zeros(side.slots), np.zeros(side.slots)
        self.sigma, self.tie = start[side.slot].copy(), tie[side.infoset]
        self.plan = np.full(side.slots + 1, np.nan)
        self.plan[0] = 1.0
        self.cut, self.trunk = np.full(side.all_roots, np.nan), np.full(side.trunk, np.nan)
        self.shares = [_Share(self, row) for row in side.arrays["descriptor"].tolist()]
        for share in self.shares:
            share.down(None)

    def state(self) -> dict[str, Any]:
        """Regret, strategy and summed strategy in the treeplex's order."""
        found = {}
        for name in ("regret", "sigma", "average"):
            array = np.empty(self.side.slots)
            array[self.side.slot] = getattr(self, name)
            found[name] = array
        return found


class _Share:
    def __init__(self, player: Player, row: list[int]) -> None:
        self.player = player
        (self.infosets, self.slots, self.levels, self.infoset0, self.slot0, item0, self.row0, self.rows, self.long0,
         self.longs, self.cut0, self.trunk, self.entry0, _, _, self.roots, _) = row[:FIXED]  # fmt: skip
        ladder = row[FIXED : FIXED + self.levels + 1]
        items = player.side.arrays["item"][item0 * WARP :]
        self.items = [items[a * WARP : b * WARP] for a, b in pairwise(ladder)]
        self.v = [np.nan] * self.infosets
        self.g: list[float] = []

    def sets(self, level: int) -> Iterator[Any]:
        """The information sets of a level, as the warps hold them: the items of each."""
        items = self.items[level]
        for at in np.flatnonzero((items["flags"] & BUSY > 0) & (items["lane"] == np.arange(len(items)) % WARP)):
            mine = items[at : at + items[at]["count"]]
            assert at % WARP + items[at]["count"] <= WARP
            yield mine

    def gradient(self, plan: Any) -> None:
        """Rows of the matrix times the other player's plan, sliced and chunked as laid out."""
        arrays, value = self.player.side.arrays, self.player.value
        self.g = [np.nan] * (self.slots + self.rows)
        for entry, to in arrays["row"][self.row0 : self.row0 + self.rows].tolist():
            total = 0.0
            for step in range(to >> LENGTH_SHIFT):
                at = self.entry0 + entry + WARP * step
                total = total + float(value[at]) * float(plan[arrays["column"][at]])
            self.put(to, total)
        for to, part, count in arrays["longs"][self.long0 : self.long0 + self.longs].tolist():
            total = 0.0
            for index in range(count):
                total = total + self.g[self.slots + part + index]
            self.put(to, total)

    def put(self, to: int, total: float) -> None:
        """Where a row's sum goes."""
        at = to & (FOREIGN - 1)
        if to & FOREIGN:
            self.player.trunk[at] = total
        elif not to & NOWHERE:
            self.g[at] = total

    def up(self) -> None:
        """Values of the information sets, from the deepest level."""
        for level in range(self.levels - 1, -1, -1):
            at_cut = self.trunk and level == self.levels - 1
            for items in self.sets(level):
                v = 0.0
                for item in items:
                    k, kid = int(item["slot"]), int(item["kid"])
                    has_row = item["flags"] & HAS_ROW
                    g = (self.player.trunk[k] if self.trunk else self.g[k]) if has_row else 0.0
                    for below in range(kid + int(item["kids"]) - 1, kid - 1, -1):
                        g = g + (float(self.player.cut[below - self.infosets]) if at_cut else self.v[below])
                    self.g[k] = g
                    v = v + float(self.player.sigma[self.slot0 + k]) * g
                self.v[int(items[0]["infoset"])] = v
        self.player.cut[self.cut0 : self.cut0 + self.roots] = self.v[: self.roots]

    def match(self, positive: float, negative: float, predict: float) -> None:
        """Regret matching everywhere."""
        player = self.player
        for items in (items for level in range(self.levels) for items in self.sets(level)):
            i, slots = int(items[0]["infoset"]), items["slot"].astype(np.int64)
            k = self.slot0 + slots
            r = np.array([self.g[slot] for slot in slots]) - self.v[i]
            r[np.abs(r) <= player.tie[self.infoset0 + i]] = 0.0
            s = player.regret[k] + r
            s = s * np.where(s > 0, positive, negative)
            player.regret[k] = s
            m = s + predict * r
            m = np.where(m > 0, m, 0.0)
            total = 0.0
            for one in m.tolist():
                total = total + one
            player.sigma[k] = m / total if total > 0 else 1.0 / len(items)

    def down(self, weight: float | None) -> None:
        """The plan, from the top; the old one is added to the average first."""
        player = self.player
        for level in range(self.levels):
            for item in (item for items in self.sets(level) for item in items):
                k = self.slot0 + int(item["slot"])
                above = int(item["above"]) if level == 0 else self.slot0 + int(item["above"])
                if weight is not None:
                    player.average[k] += weight * player.plan[k + 1]
                player.plan[k + 1] = player.plan[above] * player.sigma[k]


def half(player: Player, rates: tuple[float, float, float], predict: float) -> None:
    """From gradients to the next plan; subtrees go up before the trunk, and down after it."""
    weight, positive, negative = rates
    for share in sorted(player.shares, key=lambda share: share.trunk):
        share.up()
    for share in player.shares:  # the trunk is the first
        share.match(positive, negative, predict)
        share.down(weight)


def iterate(players: tuple[Player, Player], tables: tuple[Any, Any, Any], predict: float, alternating: bool) -> None:
    """As many iterations as the tables have entries."""
    for rates in zip(*(table.tolist() for table in tables), strict=True):
        if not alternating:
            for me, other in ((0, 1), (1, 0)):
                for share in players[me].shares:
                    share.gradient(players[other].plan)
        for me, other in ((0, 1), (1, 0)):
            if alternating:
                for share in players[me].shares:
                    share.gradient(players[other].plan)
            half(players[me], rates, predict)
