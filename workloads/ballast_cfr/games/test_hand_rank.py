from itertools import combinations

import numpy as np
import pytest

from ballast_cfr.game import Ints
from ballast_cfr.games.hand_rank import RANKS, SUITS, name, strength


def cards(text: str) -> list[int]:
    return [4 * RANKS.index(card[0]) + SUITS.index(card[1]) for card in text.split()]


def test_every_kind_of_hand_is_as_frequent_as_it_is() -> None:
    every = np.array(list(combinations(range(4 * RANKS.index("8"), 52), 5)))
    kinds = np.bincount(strength(every) // 16**5)
    # Of seven ranks in a row, by hand: three straights, 7 x 6 x 4 fours of a kind and so on.
    assert kinds.tolist() == [18360, 53760, 15120, 6720, 3060, 72, 1008, 168, 12]


@pytest.mark.long
def test_every_kind_of_hand_of_the_whole_deck_is_as_frequent_as_published() -> None:
    every = np.array(list(combinations(range(52), 5)))
    kinds = np.bincount(strength(every) // 16**5)
    assert kinds.tolist() == [1302540, 1098240, 123552, 54912, 10200, 5108, 3744, 624, 40]


def test_seven_cards_are_worth_their_best_five() -> None:
    random = np.random.default_rng(0)
    seven = np.array([random.permutation(52)[:7] for _ in range(3000)])
    # Straights, flushes and full houses of seven cards are rare at random.
    seven = np.concatenate([seven, seven[:, :] % 24, 4 * (seven % 13)])
    seven = np.array([row for row in seven if len(set(row)) == 7])
    fives: list[Ints] = [strength(seven[:, list(kept)]) for kept in combinations(range(7), 5)]
    assert (strength(seven) == np.max(fives, axis=0)).all()
    assert set(np.unique(strength(seven) // 16**5)) >= {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("6c 5d 4h 3s 2c", "5c 4d 3h 2s Ac"),
        ("5c 4d 3h 2s Ac", "Ac Ad Ah Ks Qc"),
        ("5h 4h 3h 2h Ah", "Ac Ad Ah As Kc"),
        ("Ac Ad 2h 2s 3c", "Kc Kd Qh Qs Ac"),
        ("7c 7d 7h 2s 2c", "Ah Kh Qh Jh 9h"),
        ("Ah Kh Qh Jh 9h", "Ad Kd Qd Jd 8d"),
    ],
)
def test_better_hands_are_worth_more(better: str, worse: str) -> None:
    one, other = strength(np.array([cards(better), cards(worse)]))
    assert one > other


def test_cards_have_the_usual_names() -> None:
    assert [name(card) for card in (0, 51, 4 * 8 + 2)] == ["2c", "As", "Th"]
