from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ballast_vamp import geometry, hotness
from ballast_vamp.geometry import Layer
from ballast_vamp.hotness import Hotness, Phase, Reads
from ballast_vamp.replay.profiles import Profile

LAYERS, EXPERTS = 2, 8
UNITS = geometry.units([Layer(EXPERTS, (32, 16))] * LAYERS, 16)


def routed(shares: list[float], tokens: int, phase: Phase = Phase.DECODE) -> tuple[np.ndarray, list[int]]:
    picks = np.zeros((len(Phase), LAYERS, EXPERTS), dtype=np.int64)
    picks[phase] = (np.array(shares) * tokens).astype(np.int64)
    return picks, [tokens if p is phase else 0 for p in Phase]


def seen(shares: list[float], tokens: int = 1000) -> Hotness:
    made = Hotness(LAYERS, EXPERTS)
    made.add(*routed(shares, tokens), 1.0)
    return made


def test_bytes_read_follow_the_chance_that_any_token_of_a_step_picks_the_expert() -> None:
    shares = [0.5, 0.5, 0.5, 0.2, 0.2, 0.1, 0.0, 0.0]
    reads = Reads(UNITS, LAYERS, EXPERTS)
    chance = seen(shares).chance(Phase.DECODE)
    one, many = reads.by_unit(chance, 1), reads.by_unit(chance, 64)
    assert one[:7] == pytest.approx([48 * p for p in shares[1:]])
    assert many[4] == pytest.approx(48 * (1 - 0.9**64))
    assert many[5] == many[6] == 0


def test_in_a_lull_what_was_hot_a_while_ago_is_not_cold_yet() -> None:
    made = Hotness(LAYERS, EXPERTS)
    made.add(*routed([1, 1, 0, 0, 0, 0, 0, 0], 10_000), 1.0)
    for _ in range(120):
        made.add(*routed([0, 0, 1, 1, 0, 0, 0, 0], 100), 1.0)
    chance = made.chance(Phase.DECODE)
    assert chance[0, 2] > 0.9, "what is hot now counts at once"
    assert Reads(UNITS, LAYERS, EXPERTS).by_unit(chance, 64)[0] > 0.9 * 48, "what was hot a while ago is not cold yet"
    assert chance[0, 5] == 0


def test_a_change_of_traffic_is_believed_within_seconds() -> None:
    made = seen([1, 1, 0, 0, 0, 0, 0, 0], 50_000)
    for _ in range(2):
        made.add(*routed([0, 0, 1, 1, 0, 0, 0, 0], 10_000), 1.0)
    before, now = made.chance(Phase.DECODE)[0, 0], made.chance(Phase.DECODE)[0, 2]
    assert before < 0.02 < 0.98 < now


LARGE, TOP = 512, 10
Chances = np.ndarray


def power_law(rng: np.random.Generator) -> Chances:
    """Chances of 512 experts, top 10, a seventh of which are never picked."""
    shares = (np.arange(LARGE) + 1.0) ** -0.6
    shares[440:] = 0
    found: Chances = TOP * rng.permutation(shares) / shares.sum()
    return found


def play(made: Hotness, chances: list[Chances], rng: np.random.Generator, tokens: int = 5_000) -> None:
    """Half a second of prompts for each, all tokens routed with these chances."""
    for chance in chances:
        picks = np.zeros((len(Phase), 4, LARGE), dtype=np.int64)
        picks[Phase.PREFILL] = rng.poisson(tokens * chance, (4, LARGE))
        made.add(picks, [0, tokens], 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_experts_that_this_traffic_never_picks_are_cold_however_hot_they_were(seed: int) -> None:
    """Were what was counted of other traffic to fade with its half-life alone, a step with a prompt would for half a
    minute be expected to read most of what it never reads."""
    rng = np.random.default_rng(seed)
    old, new = power_law(rng), power_law(rng)
    made = Hotness(4, LARGE)
    play(made, [old] * 80, rng)
    assert np.abs(made.chance(Phase.PREFILL) - old).max() < 0.1 * old.max()
    play(made, [new] * 6, rng)
    never = 1 - np.exp(600 * np.log1p(-made.chance(Phase.PREFILL)[:, new == 0]))
    assert never.mean() < 0.1
    play(made, [new] * 40, rng)
    assert np.abs(made.chance(Phase.PREFILL) - new).max() < 0.1 * new.max()


def test_two_seconds_after_a_change_what_is_taken_for_coldest_is_nearly_so() -> None:
    """A tenth of all bytes on the host, a step of 600 tokens: what it reads, against the best choice there is."""
    rng, made = np.random.default_rng(0), Hotness(4, LARGE)
    old, new = (
        np.array([TOP * np.array(Profile("next512", seed).shares(n, LARGE)) for n in range(4)]) for seed in (1, 2)
    )
    play(made, [old] * 80, rng)
    play(made, [new] * 4, rng)

    def read(order: Chances) -> float:
        taken = np.argsort(order, axis=None, kind="stable")[: 4 * LARGE // 10]
        return float((1 - np.exp(600 * np.log1p(-new))).ravel()[taken].sum())

    assert read(made.chance(Phase.PREFILL)) < 1.5 * read(new) < 0.3 * read(old)


def test_that_each_prompt_has_its_own_experts_is_no_change() -> None:
    """What 40 prompts use, a few at a time, is remembered while others run."""
    rng = np.random.default_rng(0)
    prompts = [power_law(rng) for _ in range(40)]
    made = Hotness(4, LARGE)
    play(made, [np.mean([prompts[n] for n in rng.integers(40, size=4)], axis=0) for _ in range(120)], rng)
    chance, true = made.chance(Phase.PREFILL), np.mean(prompts, axis=0)
    assert np.corrcoef(chance.mean(axis=0), true)[0, 1] > 0.75
    assert (chance.min(axis=0)[true > np.quantile(true, 0.25)] > 0.2 * true.min()).all()


def test_an_estimate_is_worth_the_more_the_better_it_foretold() -> None:
    assert hotness.worth(10.0, 0.8) == 12.5
    assert hotness.worth(10.0, 0.0) == float("inf")


def test_decode_and_prefill_are_told_apart_and_stand_in_for_each_other() -> None:
    made = seen([1, 1, 0, 0, 0, 0, 0, 0])
    assert (made.chance(Phase.PREFILL) == made.chance(Phase.DECODE)).all()
    made.add(*routed([0, 0, 0, 0, 0, 0, 1, 1], 500, Phase.PREFILL), 1.0)
    assert made.chance(Phase.PREFILL)[0, 0] == 0
    assert made.chance(Phase.DECODE)[0, 0] == 1


def test_few_tokens_teach_nothing() -> None:
    assert not seen([0.25] * 8, 10).learned()
    assert seen([0.25] * 8, 1000).learned()


@pytest.mark.parametrize(("shares", "low", "high"), [([0.25] * 8, 0.15, 0.25), ([1, 0.9, 0.1, 0, 0, 0, 0, 0], 0, 0)])
def test_flat_routing_is_told_from_skewed(shares: list[float], low: float, high: float) -> None:
    heat = seen(shares)
    share = Reads(UNITS, LAYERS, EXPERTS).busy_share(heat.picks[-1].sum(axis=0), 0.25)
    assert low <= share <= high


def test_a_profile_comes_back_in_the_models_own_order(tmp_path: Path) -> None:
    order = np.tile(np.arange(EXPERTS)[::-1], (LAYERS, 1))
    hotness.save(tmp_path / "p/profile.json", "m", order, seen([1, 0.5, 0, 0, 0, 0, 0, 0]))
    share = hotness.load(tmp_path / "p/profile.json", LAYERS, EXPERTS)
    assert share is not None
    assert share[0].argmax() == 7, "slot 0 held expert 7"
    assert hotness.load(tmp_path / "p/profile.json", LAYERS, EXPERTS + 1) is None
    assert hotness.load(tmp_path / "none.json", LAYERS, EXPERTS) is None
    (tmp_path / "bad.json").write_text("{")
    assert hotness.load(tmp_path / "bad.json", LAYERS, EXPERTS) is None


def test_a_profile_of_the_largest_models_fits_a_config_map(tmp_path: Path) -> None:
    large = Hotness(94, 512)
    hotness.save(tmp_path / "p.json", "m", np.tile(np.arange(512), (94, 1)), large)
    assert (tmp_path / "p.json").stat().st_size < 1 << 20
