"""How good poker hands are: the best five of up to seven cards.

A card is 4 rank + suit, rank 0 a two and 12 an ace.
"""

import numpy as np

from ballast_cfr.game import Ints

RANKS, SUITS = "23456789TJQKA", "cdhs"


def name(card: int) -> str:
    """Such as Ah."""
    return RANKS[card // 4] + SUITS[card % 4]


def strength(cards: Ints) -> Ints:
    """(n,) a number for each row of cards (n, k), 5 <= k <= 7; the higher one wins, equal ones tie.

    The kind of hand, then the ranks that decide among hands of that kind, four bits each.
    """
    rank, suit = cards // 4, cards % 4
    counts = (rank[:, :, None] == np.arange(13)).sum(axis=1)
    suited = (suit[:, :, None] == np.arange(4)).sum(axis=1)
    flush = suited.max(axis=1) >= 5
    of_flush = suit == suited.argmax(axis=1)[:, None]
    flushed = ((rank[:, :, None] == np.arange(13)) & of_flush[:, :, None]).any(axis=1)
    top, straight = _straight(counts > 0), _straight(flushed)
    fours, threes, pairs = (_highest(counts == many) for many in (4, 3, 2))
    three, rest = threes[:, 0], _highest((counts >= 2) & (np.arange(13) != threes[:, :1]))
    results = [
        (flush & (straight > 0), _code(8, straight)),
        (fours[:, 0] >= 0, _code(7, fours[:, 0], _kickers(counts, fours[:, :1], 1))),
        ((three >= 0) & (rest[:, 0] >= 0), _code(6, three, rest[:, 0])),
        (flush, _code(5, *_highest(flushed)[:, :5].T)),
        (top > 0, _code(4, top)),
        (three >= 0, _code(3, three, *_kickers(counts, threes[:, :1], 2))),
        (pairs[:, 1] >= 0, _code(2, pairs[:, 0], pairs[:, 1], _kickers(counts, pairs[:, :2], 1))),
        (pairs[:, 0] >= 0, _code(1, pairs[:, 0], *_kickers(counts, pairs[:, :1], 3))),
    ]
    high = _code(0, *_highest(counts > 0)[:, :5].T)
    return np.select([is_one for is_one, _ in results], [code for _, code in results], high)


def _straight(has: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Ints:
    """(n,) highest rank of five in a row, 0 if there are none; an ace also counts as one."""
    low = np.concatenate([has[:, 12:], has], axis=1)
    run = np.stack([low[:, start : start + 5].all(axis=1) for start in range(10)])
    best = 9 - run[::-1].argmax(axis=0)
    return np.where(run.any(axis=0), best + 3, 0)


def _highest(marked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Ints:
    """(n, 13) the marked ranks from the highest down, then -1."""
    return -np.sort(-np.where(marked, np.arange(13), -1), axis=1)


def _kickers(counts: Ints, used: Ints, many: int) -> Ints:
    """(many, n) the highest ranks of those held that are not used."""
    left = (counts > 0) & ~(np.arange(13)[None, :, None] == used[:, None, :]).any(axis=2)
    return _highest(left)[:, :many].T


def _code(kind: int, *ranks: Ints) -> Ints:
    flat = [row for given in ranks for row in np.atleast_2d(given)]
    code = np.full(flat[0].shape, kind, dtype=np.int64)
    for row in [*flat, *[np.zeros_like(flat[0])] * (5 - len(flat))]:
        code = code * 16 + np.maximum(row, 0)
    return code
