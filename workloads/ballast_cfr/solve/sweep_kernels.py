"""An iteration on the sequence form, arranged for one core: the same sums as `kernels.py`, in the same order.

What costs time on a CPU is not arithmetic but branches that are guessed wrong, chains of dependent additions, and
work on zeros. So
- rows of the matrix are sorted by length, information sets of one depth by number of actions (`layout.py`), and each
  run of equal ones has a loop whose length is known;
- four rows are summed side by side, each still from left to right;
- where the other player reaches few of its sequences, only their columns are walked. They are walked in the order in
  which rows are summed, and what is left out would have added zero, so both ways come to the same bits.
"""

import numpy as np

from ballast_cfr.game import Floats, Ints
from ballast_cfr.solve.jit import kernel
from ballast_cfr.solve.kernels import (
    FREE,
    LOCKED,
    Rates,
    Tables,
    hold,
    match_masked,
    normalise,
    regret_of,
    weigh,
)

_ONE, _TWO, _THREE, _FOUR, _NINE = np.uint32(1), np.uint32(2), np.uint32(3), np.uint32(4), np.uint32(9)
BLOCK = 64

# runs (k, 4): length, first and last + 1 row, first entry; out: where each row's sum goes; column, value: entries in
# blocks of four rows, each block by position in the row.
Rows = tuple[Ints, Ints, Ints, Floats]
# start (columns + 1,); target, value (nnz,): the same entries by column.
Columns = tuple[Ints, Ints, Floats]
# Rows in several chunks (k, 3): row, where in g its first chunk is summed, chunks.
Longs = Ints
# levels (d, 4), deepest first: first and last + 1 run, first and last + 1 information set; runs (k, 4): actions, first
# and last + 1 of `slot`, kind; slot, infoset, tie: by run; above (I,) sequence above each; live (S,) 0 if forbidden.
Schedule = tuple[Ints, Ints, Ints, Ints, Floats, Ints, Ints]
State = tuple[Floats, Floats, Floats]  # regret, strategy, average: each (S,)
# Plan x (S + 1,), values g (S + 1 + chunks,), values of information sets v (I,), and the sequences with x > 0: how
# many, then which (S + 2,); room for BLOCK sums.
Plan = tuple[Floats, Floats, Floats, Ints, Floats]
Matrix = tuple[Rows, Columns, Longs]


@kernel
def gather(rows: Rows, y: Floats, g: Floats) -> None:
    """g = A y by rows, chunks of long rows apart."""
    runs, out, column, value = rows
    zero = y.dtype.type(0.0)
    for run in range(runs.shape[0]):
        length, row, last, entry = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
        while row + _FOUR <= last:
            a, b, c, d = zero, zero, zero, zero
            for _ in range(length):
                a += value[entry] * y[column[entry]]
                b += value[entry + _ONE] * y[column[entry + _ONE]]
                c += value[entry + _TWO] * y[column[entry + _TWO]]
                d += value[entry + _THREE] * y[column[entry + _THREE]]
                entry += _FOUR
            g[out[row]], g[out[row + _ONE]], g[out[row + _TWO]], g[out[row + _THREE]] = a, b, c, d
            row += _FOUR
        while row < last:
            total = zero
            for _ in range(length):
                total += value[entry] * y[column[entry]]
                entry += _ONE
            g[out[row]] = total
            row += _ONE


@kernel
def scatter(columns: Columns, y: Floats, live: Ints, g: Floats) -> None:
    """g = A y by the columns with y > 0, from the last to the first, as rows are summed."""
    start, target, value = columns
    g[:] = 0.0
    for at in range(live[0], 0, -1):
        column = live[at]
        reach = y[column]
        for entry in range(start[column], start[column + _ONE]):
            g[target[entry]] += value[entry] * reach


@kernel
def gradient(matrix: Matrix, other: Plan, g: Floats) -> None:
    """g = A y by whichever way is faster: by rows, if more than four columns in nine count (measured)."""
    rows, columns, longs = matrix
    y, live = other[0], other[3]
    if live[0] * _NINE < y.size * _FOUR:
        scatter(columns, y, live, g)
    else:
        gather(rows, y, g)
    for at in range(longs.shape[0]):
        total = y.dtype.type(0.0)
        for part in range(longs[at, 1], longs[at, 1] + longs[at, 2]):
            total += g[part]
        g[longs[at, 0]] = total


@kernel
def match_two(a: int, tie: float, rates: Rates, regret: Floats, sigma: Floats, g: Floats) -> float:
    """Regret matching between two actions from slot a; the value under the old strategy."""
    positive, negative, predict = rates
    b = a + _ONE
    value = sigma[a] * g[a] + sigma[b] * g[b]
    r0, r1 = regret_of(g[a], value, tie), regret_of(g[b], value, tie)
    s0, s1 = regret[a] + r0, regret[b] + r1
    s0 *= positive if s0 > 0.0 else negative
    s1 *= positive if s1 > 0.0 else negative
    regret[a], regret[b] = s0, s1
    m0, m1 = s0 + predict * r0, s1 + predict * r1
    m0, m1 = m0 if m0 > 0.0 else 0.0, m1 if m1 > 0.0 else 0.0
    total = m0 + m1
    some = total > 0.0
    total = total if some else 2.0
    sigma[a], sigma[b] = (m0 if some else 1.0) / total, (m1 if some else 1.0) / total
    return float(value)


@kernel
def match_three(a: int, tie: float, rates: Rates, regret: Floats, sigma: Floats, g: Floats) -> float:
    """The same among three actions."""
    positive, negative, predict = rates
    b, c = a + _ONE, a + _TWO
    value = sigma[a] * g[a] + sigma[b] * g[b] + sigma[c] * g[c]
    r0, r1, r2 = regret_of(g[a], value, tie), regret_of(g[b], value, tie), regret_of(g[c], value, tie)
    s0, s1, s2 = regret[a] + r0, regret[b] + r1, regret[c] + r2
    s0 *= positive if s0 > 0.0 else negative
    s1 *= positive if s1 > 0.0 else negative
    s2 *= positive if s2 > 0.0 else negative
    regret[a], regret[b], regret[c] = s0, s1, s2
    m0, m1, m2 = s0 + predict * r0, s1 + predict * r1, s2 + predict * r2
    m0, m1, m2 = m0 if m0 > 0.0 else 0.0, m1 if m1 > 0.0 else 0.0, m2 if m2 > 0.0 else 0.0
    total = m0 + m1 + m2
    some = total > 0.0
    total = total if some else 3.0
    sigma[a] = (m0 if some else 1.0) / total
    sigma[b] = (m1 if some else 1.0) / total
    sigma[c] = (m2 if some else 1.0) / total
    return float(value)


@kernel
def up(schedule: Schedule, state: State, plan: Plan, rates: Rates) -> None:
    """Bottom-up: values of information sets, regrets, next strategy."""
    levels, runs, slot, infoset, tie, above, live = schedule
    regret, sigma, _ = state
    g, v, totals = plan[1], plan[2], plan[4]
    g_of = g[1:]
    for level in range(levels.shape[0]):
        for run in range(levels[level, 0], levels[level, 1]):
            n, first, last, kind = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
            if kind == LOCKED or n == 1:
                for at in range(first, last):
                    v[infoset[at]] = hold(slot[at], n, sigma, g_of)
            elif kind == FREE and n == 2:
                for at in range(first, last):
                    v[infoset[at]] = match_two(slot[at], tie[at], rates, regret, sigma, g_of)
            elif kind == FREE and n == 3:
                for at in range(first, last):
                    v[infoset[at]] = match_three(slot[at], tie[at], rates, regret, sigma, g_of)
            elif kind == FREE:
                # Dividing at once would read, two by two, what was just written one by one: a stall for each.
                for block in range(first, last, BLOCK):
                    end = min(block + BLOCK, last)
                    for at in range(block, end):
                        v[infoset[at]], totals[at - block] = weigh(slot[at], n, tie[at], rates, regret, sigma, g_of)
                    for at in range(block, end):
                        normalise(slot[at], n, totals[at - block], sigma)
            else:
                for at in range(first, last):
                    v[infoset[at]] = match_masked(slot[at], n, tie[at], rates, regret, sigma, g_of, live)
        for at in range(levels[level, 3], levels[level, 2], -1):
            g[above[at - 1]] += v[at - 1]


@kernel
def down(parent: Ints, state: State, plan: Plan, weight: float) -> None:
    """Top-down: the average takes what was played, then the plan follows the next strategy."""
    _, sigma, average = state
    x, live = plan[0], plan[3]
    x_of = x[1:]
    many = _ONE
    live[1] = 0
    for k in range(average.size):
        average[k] += weight * x_of[k]
    for k in range(sigma.size):
        reach = x[parent[k]] * sigma[k]
        x_of[k] = reach
        live[many + _ONE] = k + 1
        many += _ONE if reach != 0.0 else np.uint32(0)
    live[0] = many


@kernel
def realise(parent: Ints, sigma: Floats, plan: Plan) -> None:
    """The plan of a strategy, from nothing."""
    x, live = plan[0], plan[3]
    x[0] = 1.0
    many = 1
    live[1] = 0
    for k in range(sigma.size):
        x[k + 1] = x[parent[k]] * sigma[k]
        live[many + 1] = k + 1
        many += 1 if x[k + 1] != 0.0 else 0
    live[0] = many


@kernel
def run_sequence(
    alternating: bool,
    predict: float,
    tables: Tables,
    schedules: tuple[Schedule, Schedule],
    parents: tuple[Ints, Ints],
    matrices: tuple[Matrix, Matrix],
    states: tuple[State, State],
    plans: tuple[Plan, Plan],
) -> None:
    """As many iterations as the tables have entries."""
    weight, positive, negative = tables
    for t in range(weight.size):
        rates = (positive[t], negative[t], predict)
        gradient(matrices[0], plans[1], plans[0][1])
        if not alternating:
            gradient(matrices[1], plans[0], plans[1][1])
        up(schedules[0], states[0], plans[0], rates)
        down(parents[0], states[0], plans[0], weight[t])
        if alternating:
            gradient(matrices[1], plans[0], plans[1][1])
        up(schedules[1], states[1], plans[1], rates)
        down(parents[1], states[1], plans[1], weight[t])
