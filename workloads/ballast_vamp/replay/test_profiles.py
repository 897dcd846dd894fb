"""Router profiles have the shares that were measured of real models, and engines route by them."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_vamp.replay.errors import BadInputError
from ballast_vamp.replay.profiles import SHAPES, Profile, popularity, unused


def coldest(name: str, experts: int, share: float) -> float:
    """What the coldest share of a layer's experts carries."""
    return sum(sorted(Profile(name).shares(0, experts))[: round(share * experts)])


@pytest.mark.parametrize("experts", [512, 128])
def test_next512_has_a_coldest_57_percent_that_carries_little_and_7_percent_that_carry_nothing(experts: int) -> None:
    assert coldest("next512", experts, 0.57) == pytest.approx(0.0785, abs=0.002)
    never = sum(share == 0 for share in Profile("next512").shares(0, experts))
    assert never / experts == pytest.approx(0.069, abs=0.004)


@pytest.mark.parametrize(("prompts", "measured"), [(5, 0.30), (20, 0.07), (100, 0.006)])
def test_mixed256_uses_more_experts_the_broader_the_traffic(prompts: int, measured: float) -> None:
    assert unused(popularity(256), prompts) == pytest.approx(measured, abs=0.01)


def test_mixed256_stands_for_a_window_in_which_a_few_experts_are_unused() -> None:
    never = [share == 0 for layer in range(40) for share in Profile("mixed256").shares(layer, 256)]
    assert sum(never) / len(never) == pytest.approx(0.07, abs=0.01)


def test_flat64_has_no_cold_zone_worth_moving() -> None:
    assert 1 - coldest("flat64", 64, 0.5) == pytest.approx(0.75, abs=0.001)
    assert coldest("flat64", 64, 0.25) > 0.09
    assert min(Profile("flat64").shares(0, 64)) > 0


def hot(profile: Profile, layer: int, count: int) -> set[int]:
    shares = profile.shares(layer, 256)
    return set(sorted(range(256), key=lambda expert: -shares[expert])[:count])


def test_another_seed_is_other_traffic_with_its_own_hot_set() -> None:
    overlaps = []
    for layer in range(40):
        one, other = hot(Profile("mixed256", 0), layer, 16), hot(Profile("mixed256", 1), layer, 16)
        overlaps.append(len(one & other) / len(one | other))
    assert sum(overlaps) / len(overlaps) < 0.07
    assert hot(Profile("mixed256"), 0, 16) != hot(Profile("mixed256"), 1, 16)


def test_a_profile_is_written_with_its_seed() -> None:
    assert Profile.parse("next512") == Profile("next512", 0)
    assert Profile.parse("flat64#7") == Profile("flat64", 7)
    assert Profile.parse(str(Profile("mixed256", 3))) == Profile("mixed256", 3)
    for wrong in ("zipf", "next512#x", ""):
        with pytest.raises(BadInputError, match="is not one of next512, mixed256, flat64"):
            Profile.parse(wrong)
    with pytest.raises(BadInputError, match="at least 3 experts"):
        Profile("next512").shares(0, 1)


@settings(deadline=None)
@given(st.sampled_from(sorted(SHAPES)), st.integers(4, 600), st.integers(0, 99), st.integers(0, 99))
def test_shares_are_shares(name: str, experts: int, seed: int, layer: int) -> None:
    shares = Profile(name, seed).shares(layer, experts)
    assert len(shares) == experts
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0
    assert shares == Profile(name, seed).shares(layer, experts)
    assert all(math.isfinite(value) for value in Profile(name, seed).log_shares(layer, experts))


def test_logarithms_with_gumbel_noise_pick_in_proportion() -> None:
    """What `routing.biased` relies on, without an engine: the largest of log share + noise is expert e by its share."""
    rng = random.Random(0)
    profile = Profile("flat64")
    shares, logs = profile.shares(0, 16), profile.log_shares(0, 16)
    draws = 20_000
    picked = Counter(max(range(16), key=lambda e: logs[e] - math.log(-math.log(rng.random()))) for _ in range(draws))
    for expert, share in enumerate(shares):
        assert picked[expert] / draws == pytest.approx(share, abs=0.01)
