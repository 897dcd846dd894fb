"""Other payoffs and chances over a tree that is compiled already: what the solver's arrays then hold, by the sums that
compiling makes, in their order. Indices are unsigned, as in `kernels.py`; NOWHERE is none.
"""

import numpy as np

from ballast_cfr.game import Floats, Ints
from ballast_cfr.solve.jit import kernel

NOWHERE = 0xFFFFFFFF
_NOWHERE, _ONE = np.uint32(NOWHERE), np.uint32(1)


@kernel
def share_out(payoff: Floats, shift: float, both: Floats, gain: Floats) -> None:
    """both (T, 2): player 0's payoffs (T,), and player 1's, which keep the sum; gain (T,): half of what they differ."""
    for t in range(payoff.size):
        first = payoff[t]
        second = 2.0 * shift - first
        both[t, 0], both[t, 1] = first, second
        gain[t] = (first - second) / 2.0


@kernel
def deal(edges: Ints, parent: Ints, mass: Floats, chance: Floats) -> None:
    """Chances of some edges, from the last level, if deals come in the proportions that `mass` has at their nodes; it
    is zero elsewhere, and then holds the sums."""
    for at in range(edges.size):
        mass[parent[edges[at]]] += mass[edges[at]]
    for at in range(edges.size):
        above = mass[parent[edges[at]]]
        if above > 0.0:
            chance[edges[at]] = mass[edges[at]] / above


@kernel
def reach_nodes(parent: Ints, chance: Floats, reach: Floats) -> None:
    """(N,) product of the chances on the way to each node; a parent comes before its children."""
    reach[0] = 1.0
    for n in range(_ONE, parent.size):
        reach[n] = reach[parent[n]] * chance[n]


@kernel
def reach_infosets(reach: Floats, place: Ints, total: Floats) -> None:
    """total: sum of the reach of the nodes at each place (N,)."""
    total[:] = 0.0
    for n in range(reach.size):
        if place[n] != _NOWHERE:
            total[place[n]] += reach[n]


@kernel
def largest_below(gain: Floats, sequence: Ints, first: Ints, above: Ints, largest: Floats, below: Floats) -> None:
    """below (I,): the largest absolute gain (T,) behind each information set. sequence: (T,) what each terminal ends;
    above: (I,) the sequence that leads to each; largest (S + 1,): scratch."""
    largest[:] = 0.0
    for t in range(gain.size):
        largest[sequence[t]] = max(largest[sequence[t]], abs(gain[t]))
    for i in range(below.size - 1, -1, -1):
        most = 0.0
        for k in range(first[i], first[i + 1]):
            most = max(most, largest[k + _ONE])
        below[i] = most
        largest[above[i]] = max(largest[above[i]], most)


@kernel
def weigh_cells(
    gain: Floats,
    terminal: Ints,
    reach: Floats,
    cell0: Ints,
    cell1: Ints,
    weight: Floats,
    value0: Floats,
    value1: Floats,
) -> bool:
    """weight (T,): chance reach times gain; value0, value1 (nnz,): its sums in the cells (T,) of both players'
    matrices, player 1's with the other sign. Returns whether every terminal that counts has a cell."""
    value0[:] = 0.0
    value1[:] = 0.0
    whole = True
    for t in range(gain.size):
        w = reach[terminal[t]] * gain[t]
        weight[t] = w
        if cell0[t] != _NOWHERE:
            value0[cell0[t]] += w
            value1[cell1[t]] -= w
        elif w != 0.0:
            whole = False
    return whole


@kernel
def arrange(value: Floats, entry: Ints, out: Floats) -> None:
    """out: the matrix's values (nnz,) in another order, zero where an entry is NOWHERE."""
    for i in range(entry.size):
        out[i] = value[entry[i]] if entry[i] != _NOWHERE else 0.0


@kernel
def thresholds(magnitude: Floats, ulps: float, infoset: Ints, out: Floats) -> None:
    """out: how far from zero a regret still counts as a tie, in another order of the information sets."""
    for i in range(infoset.size):
        out[i] = ulps * magnitude[infoset[i]]
