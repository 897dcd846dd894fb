"""The inner loops: regret updates over the sequence form and over the tree.

One iteration for player i, given the other player's realisation plan y, is

    g = A y                                      counterfactual value of each of i's sequences, from terminals
    bottom-up over information sets I:  v(I) = sum_a sigma(a) g(a);   r(a) = g(a) - v(I);   g(above I) += v(I)
    R <- (R + r) * (p_t if positive else n_t);   sigma'(a) ~ max(R(a) + c r(a), 0), uniform if all are zero
    top-down:  S += w_t x;   x(a) = x(above I) sigma'(a)

and the variants differ only in the tables p, n, w and in c (`variants.py`). r counts as zero where it is within the
tie tolerance. Hart & Mas-Colell 2000; Zinkevich et al. 2007; von Stengel 1996 for the sequence form. Every sum has
one order and nothing is fused, so that any processor, and the GPU, can come to the same bits.
"""

import numpy as np

from ballast_cfr.game import Floats, Ints
from ballast_cfr.solve.jit import kernel

_ONE = np.uint32(1)

# Rows longer than this are summed in chunks of it, whose sums are then added: several short chains of additions
# instead of a long one, on the CPU, and several threads on the GPU.
ROW_CHUNK = 16
_CHUNK = np.uint32(ROW_CHUNK)

# Kinds of information sets: played by regret matching, held to a strategy, or with forbidden actions.
FREE, LOCKED, MASKED = 0, 1, 2

# Indices are unsigned: for signed ones each access would first look whether it counts from the end.
Plex = tuple[Ints, Ints, Floats]  # first (I + 1,), parent of each slot (S,), tie threshold (I,)
Matrix = tuple[Ints, Ints, Floats]  # start (S + 2,), column (nnz,), value (nnz,)
Nodes = tuple[Ints, Ints, Ints, Floats, Floats]  # parent, actor, slot, chance, gain: each (N,)
State = tuple[Floats, Floats, Floats]  # regret, strategy, average: each (S,)
Rates = tuple[float, float, float]  # positive p, negative n, prediction c
Held = tuple[Ints, Ints]  # kind (I,), live (S,) 0 where an action is forbidden
Tables = tuple[Floats, Floats, Floats]  # weight w, positive p, negative n: one entry for each iteration


@kernel
def gradient(matrix: Matrix, y: Floats, g: Floats) -> None:
    """g = A y, each row from left to right, in chunks."""
    start, column, value = matrix
    for row in range(g.size):
        entry, end = start[row], start[row + 1]
        total = 0.0
        while end - entry > _CHUNK:
            part = 0.0
            for within in range(entry, entry + _CHUNK):
                part += value[within] * y[column[within]]
            total += part
            entry += _CHUNK
        part = 0.0
        for within in range(entry, end):
            part += value[within] * y[column[within]]
        g[row] = total + part


@kernel
def regret_of(g: float, value: float, tie: float) -> float:
    """Instant regret; within the tie tolerance it is zero."""
    r = np.float64(g) - np.float64(value)
    return 0.0 if abs(r) <= tie else r


@kernel
def hold(a: int, n: int, sigma: Floats, g: Floats) -> float:
    """Value of n actions from slot a, their strategy staying as it is."""
    value = g.dtype.type(0.0)
    for k in range(a, a + n):
        value += sigma[k] * g[k]
    return value


@kernel
def weigh(a: int, n: int, tie: float, rates: Rates, regret: Floats, sigma: Floats, g: Floats) -> tuple[float, float]:
    """Regrets of n actions from slot a, from their values g; sigma becomes what the next strategy is proportional to.
    Returns the value under the old strategy, and the sum of the new sigma."""
    positive, negative, predict = rates
    value = hold(a, n, sigma, g)
    total = 0.0
    for k in range(a, a + n):
        r = regret_of(g[k], value, tie)
        s = regret[k] + r
        s *= positive if s > 0.0 else negative
        regret[k] = s
        m = s + predict * r
        m = m if m > 0.0 else 0.0
        sigma[k] = m
        total += m
    return value, total


@kernel
def normalise(a: int, n: int, total: float, sigma: Floats) -> None:
    """Divide by the sum; uniform if it is zero."""
    if total > 0.0:
        for k in range(a, a + n):
            sigma[k] /= total
    else:
        for k in range(a, a + n):
            sigma[k] = 1.0 / n


@kernel
def match_masked(
    a: int, n: int, tie: float, rates: Rates, regret: Floats, sigma: Floats, g: Floats, live: Ints
) -> float:
    """Regret matching where some actions are forbidden (live is 0): these keep regret and probability zero. Returns
    the value under the old strategy."""
    positive, negative, predict = rates
    value = hold(a, n, sigma, g)
    total, allowed = 0.0, 0.0
    for k in range(a, a + n):
        if live[k]:
            r = regret_of(g[k], value, tie)
            s = regret[k] + r
            s *= positive if s > 0.0 else negative
            regret[k] = s
            s += predict * r
            s = s if s > 0.0 else 0.0
            sigma[k] = s
            total += s
            allowed += 1.0
    for k in range(a, a + n):
        if live[k]:
            sigma[k] = sigma[k] / total if total > 0.0 else 1.0 / allowed
    return value


@kernel
def realise(plex: Plex, sigma: Floats, x: Floats) -> None:
    """The realisation plan x (S + 1,) of a behaviour strategy (S,)."""
    parent = plex[1]
    x[0] = 1.0
    for k in range(sigma.size):
        x[k + 1] = x[parent[k]] * sigma[k]


@kernel
def walk(
    player: int, nodes: Nodes, own: Floats, other: Floats, average: Floats, reach: Floats, q: Floats, weight: float
) -> None:
    """The tree form's gradient: q[slot] sums (reach of all others) times (value of the node behind), over the nodes.

    own, other: strategies (S,). reach: (3, N) scratch for own reach, others' reach, value. Adds weight x own reach to
    the average.
    """
    parent, actor, slot, chance, gain = nodes
    sign = 1.0 if player == 0 else -1.0
    reach[0, 0] = 1.0
    reach[1, 0] = 1.0
    reach[2, 0] = sign * gain[0]
    for n in range(1, parent.size):
        above = parent[n]
        mine, theirs = reach[0, above], reach[1, above]
        if actor[n] == player:
            mine *= own[slot[n]]
            average[slot[n]] += weight * mine
        elif actor[n] >= 0:
            theirs *= other[slot[n]]
        else:
            theirs *= chance[n]
        reach[0, n] = mine
        reach[1, n] = theirs
        reach[2, n] = sign * gain[n]
    q[:] = 0.0
    for n in range(parent.size - 1, 0, -1):
        above = parent[n]
        value = reach[2, n]
        if actor[n] == player:
            q[slot[n]] += reach[1, above] * value
            reach[2, above] += own[slot[n]] * value
        elif actor[n] >= 0:
            reach[2, above] += other[slot[n]] * value
        else:
            reach[2, above] += chance[n] * value


@kernel
def match_all(plex: Plex, held: Held, state: State, q: Floats, rates: Rates) -> None:
    """Regret matching in every information set, from values q (S,) that are complete already."""
    first, _, tie = plex
    kind, live = held
    regret, sigma, _ = state
    for i in range(tie.size):
        a, n = first[i], first[i + 1] - first[i]
        if kind[i] == FREE:
            total = weigh(a, n, tie[i], rates, regret, sigma, q)[1]
            normalise(a, n, total, sigma)
        elif kind[i] == MASKED:
            match_masked(a, n, tie[i], rates, regret, sigma, q, live)


@kernel
def run_tree(
    alternating: bool,
    predict: float,
    tables: Tables,
    plex0: Plex,
    plex1: Plex,
    held0: Held,
    held1: Held,
    nodes: Nodes,
    state0: State,
    state1: State,
    reach: Floats,
    q0: Floats,
    q1: Floats,
) -> None:
    """As many iterations as the tables have entries, on the tree form."""
    weight, positive, negative = tables
    for t in range(weight.size):
        walk(0, nodes, state0[1], state1[1], state0[2], reach, q0, weight[t])
        if not alternating:
            walk(1, nodes, state1[1], state0[1], state1[2], reach, q1, weight[t])
        match_all(plex0, held0, state0, q0, (positive[t], negative[t], predict))
        if alternating:
            walk(1, nodes, state1[1], state0[1], state1[2], reach, q1, weight[t])
        match_all(plex1, held1, state1, q1, (positive[t], negative[t], predict))


@kernel
def average_strategy(first: Ints, average: Floats, held: Held, sigma: Floats) -> None:
    """Normalise the summed strategy (S,) in each information set; uniform, over what is not forbidden, where it was
    never reached."""
    kind, live = held
    for i in range(first.size - 1):
        if kind[i] == LOCKED:
            continue
        total, allowed = 0.0, 0.0
        for k in range(first[i], first[i + 1]):
            total += average[k]
            allowed += 1.0 if kind[i] == FREE or live[k] else 0.0
        for k in range(first[i], first[i + 1]):
            even = 1.0 / allowed if kind[i] == FREE or live[k] else 0.0
            sigma[k] = average[k] / total if total > 0.0 else even


@kernel
def best_response(plex: Plex, held: Held, sigma: Floats, g: Floats) -> float:
    """Value of the best strategy that keeps to what is locked (as in sigma) and forbidden, from the terminals' part g
    of the sequences' values (changed)."""
    first, parent, tie = plex
    kind, live = held
    g_of = g[1:]
    for i in range(tie.size - 1, -1, -1):
        best = -np.inf
        for k in range(first[i], first[i + 1]):
            best = max(best, g_of[k]) if kind[i] != MASKED or live[k] else best
        if kind[i] == LOCKED:
            best = hold(first[i], first[i + 1] - first[i], sigma, g_of)
        g[parent[first[i]]] += best
    return float(g[0])


@kernel
def value_of(plex: Plex, sigma: Floats, g: Floats) -> float:
    """Value of a behaviour strategy, from the terminals' part g of the sequences' values (changed)."""
    first, parent, tie = plex
    g_of = g[1:]
    for i in range(tie.size - 1, -1, -1):
        value = 0.0
        for k in range(first[i], first[i + 1]):
            value += sigma[k] * g_of[k]
        g[parent[first[i]]] += value
    return float(g[0])


@kernel
def judge(
    plex0: Plex,
    plex1: Plex,
    held0: Held,
    held1: Held,
    matrix0: Matrix,
    matrix1: Matrix,
    sigma0: Floats,
    sigma1: Floats,
) -> Floats:
    """Value of two behaviour strategies for player 0, and each player's best reply to the other: (3,)."""
    x = np.empty(sigma0.size + 1)
    y = np.empty(sigma1.size + 1)
    realise(plex0, sigma0, x)
    realise(plex1, sigma1, y)
    result = np.zeros(3)
    g = np.empty(x.size)
    gradient(matrix0, y, g)
    result[0] = value_of(plex0, sigma0, g)
    gradient(matrix0, y, g)
    result[1] = best_response(plex0, held0, sigma0, g)
    g = np.empty(y.size)
    gradient(matrix1, x, g)
    result[2] = best_response(plex1, held1, sigma1, g)
    return result
