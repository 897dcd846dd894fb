from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ballast_vamp.cost import Link, Mix, Option, Outlook, Prefill, Pressure, choose, costs
from ballast_vamp.learn import Reuse, StepTimes

# An H200 with the probe's shape: 16 layers of 512 experts, agents that come back after a second or two.
LINK = Link(zero_copy=50e9, dma=55e9, handle=67e-6)
MIX = Mix(decode_tokens=24, decode_rate=70, prefill_tokens=600, prefill_rate=4)
PREFILL = Prefill(linear=4e-5, attention=1e-9)
COLD = Outlook(512, 96, 0, 0, 2e6, 0, 40e6, learned=True, flat=0.001)
HOT = replace(COLD, decode_after=400e6, prefill_after=256e6)
AGENTS = Pressure(running=16, waiting=4, horizon=30, tokens=8192, context=8000, reuse=0.9, gap=1.5, cached=True)


def test_cold_experts_go_before_prefixes_that_will_be_asked_for() -> None:
    assert choose(costs(MIX, LINK, COLD, AGENTS, PREFILL)) is Option.OFFLOAD


def test_hot_experts_stay_even_under_pressure() -> None:
    assert choose(costs(MIX, LINK, HOT, replace(AGENTS, reuse=0.1, gap=60), PREFILL)) is Option.EVICT


def test_prefixes_that_nobody_asks_for_are_evicted() -> None:
    assert choose(costs(MIX, LINK, COLD, replace(AGENTS, reuse=0.0), PREFILL)) is Option.EVICT


def test_a_connector_that_brings_blocks_back_quickly_is_used() -> None:
    fetch = replace(AGENTS, fetch_bytes=256 << 20)
    warm = replace(COLD, decode_after=100e6)
    assert choose(costs(MIX, LINK, warm, fetch, PREFILL)) is Option.FETCH
    assert choose(costs(MIX, LINK, warm, replace(fetch, held=0.2), PREFILL)) is Option.OFFLOAD, (
        "it had lost most of them"
    )
    unread = replace(COLD, decode_after=1e5, prefill_after=1e6)
    assert choose(costs(MIX, LINK, unread, fetch, PREFILL)) is Option.OFFLOAD


def test_preempting_a_short_request_beats_reading_hot_experts() -> None:
    victim = replace(AGENTS, cached=False, victim_tokens=200, victim_blocks=400)
    assert choose(costs(MIX, LINK, HOT, victim, PREFILL)) is Option.PREEMPT
    assert choose(costs(MIX, LINK, COLD, replace(victim, victim_tokens=30_000), PREFILL)) is Option.OFFLOAD


def test_a_narrow_win_is_no_reason_to_move() -> None:
    assert choose({Option.OFFLOAD: 0.9, Option.EVICT: 1.0}) is Option.EVICT
    assert choose({Option.OFFLOAD: 0.7, Option.EVICT: 1.0}) is Option.OFFLOAD


@pytest.mark.parametrize("seconds", [1.0, 30.0, 300.0])
def test_the_longer_pressure_lasts_the_more_a_read_costs(seconds: float) -> None:
    short = costs(MIX, LINK, HOT, replace(AGENTS, horizon=seconds), PREFILL)[Option.OFFLOAD]
    long = costs(MIX, LINK, HOT, replace(AGENTS, horizon=2 * seconds), PREFILL)[Option.OFFLOAD]
    assert long == pytest.approx(2 * short, rel=0.05)


def test_step_times_are_learned_from_steps() -> None:
    times = StepTimes()
    for n, context in itertools.product(range(0, 4000, 100), range(0, 16000, 1000)):
        times.add(6e-3 + 3e-5 * n + 2e-9 * n * context + 1e-4 * 16, n, n * context, 16)
    learned = times.prefill()
    assert learned.linear == pytest.approx(3e-5, rel=0.1)
    assert learned.attention == pytest.approx(2e-9, rel=0.1)


def test_reuse_is_learned_from_what_is_asked_for_again() -> None:
    reuse = Reuse()
    for n in range(200):
        reuse.evicted(n, float(n))
        assert reuse.asked([n], n + 2.0) == 1
    assert reuse.chance > 0.9
    assert reuse.gap.value == pytest.approx(2.0, abs=0.1)
    for n in range(1000):
        reuse.evicted(("never", n), 1000.0 + n)
    assert reuse.chance < 0.5
