"""Decisions, against ranks that are real and an engine that is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from ballast_vamp.balloon import Balloon
from ballast_vamp.commit import Coordinator
from ballast_vamp.controller import QUIET_SECONDS, Controller, Now, Shape
from ballast_vamp.cost import Mix, Outlook, Prefill
from ballast_vamp.rank import Direction
from ballast_vamp.reasons import Reason
from ballast_vamp.steps import Step
from ballast_vamp.test_balloon import Pool
from ballast_vamp.test_commit import Ranks
from ballast_vamp.testing import Clock

MIX = Mix(decode_tokens=16, decode_rate=50, prefill_tokens=300, prefill_rate=1)
BUSY = {"context": 8000.0, "mix": MIX, "prefill": Prefill(5e-5, 1e-9), "reuse": 0.9}


def now(need: int = 0, running: int = 8, waiting: int = 2, gap: float = 2.0) -> Now:
    return Now(running=running, waiting=waiting, need=need, gap=gap, **BUSY)  # type: ignore[arg-type]


@dataclass
class Engine:
    """A controller over two ranks and a pool. cold: bytes that a decode step would read of the next chunk."""

    cold: float = 0.0
    learned: bool = True
    flat: float = 0.0
    dry: bool = False
    always: bool = False
    fault: Step | None = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.ranks = Ranks(2, self.fault, on=1)
        self.pool = Pool(60)
        balloon = Balloon(self.pool, 10)
        shape = Shape(step=6, block_tokens=512, block_bytes=1 << 20, dry=self.dry, always=self.always)
        self.controller = Controller(
            balloon, Coordinator(self.ranks.call, self.clock), self.observe, shape, 55e9, 50e9, clock=self.clock
        )

    def observe(self, mix: Mix, blocks: int) -> Outlook:
        rank = self.ranks.all[0].rank
        plan = rank.next_grow(blocks)
        return Outlook(
            blocks=plan.capacity - rank.table.capacity(),
            handles=24,
            copied=0,
            decode_now=0,
            decode_after=self.cold,
            prefill_now=0,
            prefill_after=self.cold,
            learned=self.learned,
            flat=self.flat,
        )

    def run(self, seconds: float, what: Now) -> None:
        for _ in range(int(seconds * 10)):
            self.controller.tick(what)
            self.clock.now += 0.1

    def count(self, name: str) -> float:
        return sum(value for key, value in self.controller.metrics.snapshot().items() if key.startswith(name))

    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.pool.take() is not None


def test_cold_experts_are_offloaded_ahead_of_need_and_committed_a_step_later() -> None:
    engine = Engine()
    engine.controller.tick(now(need=12))
    assert engine.ranks.calls == ["vamp_prepare"]
    assert engine.controller.balloon.physical == 10
    engine.controller.tick(now(need=12))
    assert engine.controller.balloon.physical == 16
    assert min(engine.ranks.capacities()) == 16


def test_a_policy_that_decides_nothing_offloads_whatever_it_costs() -> None:
    engine = Engine(cold=3e9, always=True)
    engine.run(5, now(need=12))
    assert engine.controller.balloon.physical > 10
    assert engine.count("vamp:decision_cost_seconds") > 0


def test_hot_experts_are_left_where_they_are() -> None:
    engine = Engine(cold=3e9)
    engine.run(5, now(need=12))
    assert engine.controller.balloon.physical == 10
    assert engine.count('vamp:decision_total{option="evict"}') > 0
    assert engine.ranks.calls == []


def test_nothing_moves_before_routing_is_known() -> None:
    engine = Engine(learned=False)
    engine.run(5, now(need=12))
    assert not engine.controller.emergency(now(need=12), 4000, 8)
    assert engine.controller.balloon.physical == 10


def test_flat_routing_is_said() -> None:
    engine = Engine(cold=3e9, flat=0.2)
    engine.run(1, now(need=12))
    reason = engine.controller.reason()
    assert reason is not None
    assert reason[0] is Reason.ROUTING_TOO_FLAT
    assert "takes 20.0 % of the tokens" in reason[1]


def test_a_request_without_a_block_gets_one_at_once() -> None:
    engine = Engine()
    engine.take(9)
    assert engine.controller.emergency(now(), 4000, 8)
    assert engine.controller.balloon.physical == 16
    assert engine.pool.take() is not None


def test_three_emergencies_in_one_step_each_bring_their_own_blocks() -> None:
    engine = Engine()
    for expected in (16, 22, 28):
        assert engine.controller.emergency(now(), 4000, 8)
        assert engine.controller.balloon.physical == expected


def test_when_load_falls_every_expert_comes_home_within_thirty_seconds() -> None:
    engine = Engine()
    for _ in range(5):
        engine.controller.grow(6)
    assert engine.controller.balloon.physical == 40
    engine.run(30, now(running=0, waiting=0))
    assert engine.controller.balloon.physical == 10
    assert not engine.controller.busy()
    assert all(made.rank.table.offloaded() == [] for made in engine.ranks.all)


def test_a_pause_between_two_turns_is_not_quiet() -> None:
    engine = Engine()
    engine.controller.grow(6)
    for _ in range(5):
        engine.run(QUIET_SECONDS - 2, now(running=0, waiting=0))
        engine.run(0.2, now(need=16))
    assert engine.controller.balloon.physical >= 16


@pytest.mark.parametrize("gap", [2.0, 60.0])
def test_prefixes_that_will_be_asked_for_keep_their_memory_until_nobody_comes(gap: float) -> None:
    engine = Engine()
    engine.controller.grow(6)
    for block in [engine.pool.take() for _ in range(12)]:
        assert block is not None
        engine.pool.give(block, cached=True)
    engine.run(20, now(running=2, waiting=0, gap=gap))
    assert engine.controller.balloon.physical == 16
    engine.run(30, now(running=0, waiting=0, gap=gap))
    assert engine.controller.balloon.physical == 10


def test_blocks_in_use_are_waited_for() -> None:
    engine = Engine()
    engine.controller.grow(6)
    used = [engine.pool.take() for _ in range(8)]
    engine.run(20, now(running=0, waiting=0))
    held = [block for block in used if block is not None and block.block_id >= 10]
    assert held
    assert engine.controller.balloon.physical == 16
    assert engine.controller.shrink(6) == 0
    for block in held:
        engine.pool.give(block, cached=True)
    engine.run(10, now(running=0, waiting=0))
    assert engine.controller.balloon.physical == 10


def test_memory_goes_a_step_after_those_who_copy_from_it_were_told() -> None:
    engine = Engine()
    engine.controller.grow(6)
    told: list[range] = []

    def copiers(blocks: range) -> bool:
        told.append(blocks)
        return True

    engine.controller.copiers = copiers
    engine.controller.balloon.begin_shrink(10)
    calls = list(engine.ranks.calls)
    engine.controller.tick(now())
    assert (told, engine.controller.balloon.physical, engine.ranks.calls) == ([range(10, 16)], 16, calls)
    engine.controller.tick(now())
    assert (len(told), engine.controller.balloon.physical) == (1, 10)
    engine.controller.grow(6)
    assert engine.controller.shrink(6) == 0, "nothing waits for a step here"
    engine.controller.tick(now())
    engine.controller.balloon.begin_shrink(10)
    engine.controller.tick(now())
    assert told == [range(10, 16)] * 3, "what was said of blocks that were handed out since is worth nothing"


@pytest.mark.parametrize("step", [step for step in Step if step is not Step.REPLY])
def test_a_rank_that_cannot_leaves_blocks_parked_and_is_asked_ever_less(step: Step) -> None:
    engine = Engine(fault=step)
    engine.run(10, now(need=12))
    assert engine.controller.balloon.physical == 10
    assert 2 <= engine.count("vamp:repartition_total") <= 6
    for made in engine.ranks.all:
        made.rank._fault = None
        made.check(10)
    engine.clock.now += 60
    engine.run(5, now(need=12))
    assert engine.controller.balloon.physical >= 16


def test_a_swap_that_cannot_be_done_holds_up_no_grow() -> None:
    engine = Engine()
    observe = engine.controller.observe
    engine.controller.observe = lambda mix, blocks: replace(observe(mix, blocks), swaps=4)
    engine.run(3, now())
    assert engine.controller.emergency(now(), 4000, 8)


def test_hot_experts_are_exchanged_while_the_cache_is_under_pressure_and_may_not_grow() -> None:
    engine = Engine()
    engine.controller.grow(6)
    engine.cold = 3e9  # of what could leave next: evicting is cheaper
    observe = engine.controller.observe
    engine.controller.observe = lambda mix, blocks: replace(observe(mix, blocks), swaps=4)
    engine.run(3, now(need=60))
    assert Direction.SWAP in engine.ranks.asked
    assert engine.controller.balloon.physical == 16


def test_hot_experts_are_exchanged_while_prefixes_keep_the_others_away() -> None:
    engine = Engine()
    engine.controller.grow(6)
    for block in [engine.pool.take() for _ in range(12)]:
        assert block is not None
        engine.pool.give(block, cached=True)
    engine.run(QUIET_SECONDS + 1, now(running=2, waiting=0))
    observe = engine.controller.observe
    engine.controller.observe = lambda mix, blocks: replace(observe(mix, blocks), swaps=4)
    engine.run(10, now(running=2, waiting=0))
    assert engine.controller.balloon.physical == 16
    assert Direction.SWAP in engine.ranks.asked


def test_prefixes_of_requests_that_run_count_too() -> None:
    engine = Engine()
    engine.controller.grow(6)
    for block in [engine.pool.take() for _ in range(6)]:
        assert block is not None
        assert block.block_id >= 10
        block.block_hash = "its request is not done with it"
    engine.run(20, now(running=2, waiting=0))
    assert all(block.block_hash for block in engine.pool.blocks[10:16])


def test_a_dry_run_decides_and_moves_nothing() -> None:
    engine = Engine(dry=True)
    engine.run(5, now(need=12))
    engine.controller.emergency(now(), 4000, 8)
    assert engine.count('vamp:decision_total{option="offload"}') > 0
    assert engine.ranks.calls == []
    reason = engine.controller.reason()
    assert reason is not None
    assert reason[0] is Reason.DRY_RUN
