from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ballast_vamp import geometry, hotness
from ballast_vamp.geometry import Layer
from ballast_vamp.hotness import Hotness, Phase, Reads

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
    chance = made.chance(Phase.DECODE)[0]
    assert min(chance[0], chance[2]) > 0.3, (
        "what was hot a while ago is not cold yet, and what is hot now counts at once"
    )
    assert chance[5] == 0


def test_a_change_of_traffic_is_believed_within_seconds() -> None:
    made = seen([1, 1, 0, 0, 0, 0, 0, 0], 50_000)
    for _ in range(10):
        made.add(*routed([0, 0, 1, 1, 0, 0, 0, 0], 10_000), 1.0)
    before, now = made.chance(Phase.DECODE)[0, 0], made.chance(Phase.DECODE)[0, 2]
    assert before < 0.35 < 0.6 < now
    for _ in range(40):
        made.add(*routed([0, 0, 1, 1, 0, 0, 0, 0], 10_000), 1.0)
    assert made.chance(Phase.DECODE)[0, 0] < 0.05


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
