from __future__ import annotations

import itertools

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ballast_vamp.plan import Limits
from ballast_vamp.rank import KEPT_SECONDS, Direction, Order
from ballast_vamp.steps import Step
from ballast_vamp.testing import Machine, machine

EPOCH = itertools.count(1)


def carry_out(made: Machine, direction: Direction, capacity: int) -> bool:
    epoch = next(EPOCH)
    prepared = made.rank.prepare(epoch, Order(direction, capacity))
    if not prepared.ok:
        return False
    return made.rank.commit(epoch).ok


def test_a_grow_takes_the_coldest_experts_and_a_shrink_brings_the_hottest_home() -> None:
    made = machine(scores=lambda unit: float(unit % 16))
    assert carry_out(made, Direction.GROW, 16)
    assert made.rank.table.capacity() == 16
    assert {unit % 16 for unit in made.rank.table.offloaded()} <= {0, 1}, "over all layers, not layer by layer"
    assert carry_out(made, Direction.SHRINK, 13)
    assert made.rank.table.capacity() == 13
    assert {unit % 16 for unit in made.rank.table.offloaded()} == {0}
    made.check(13)


def test_parked_blocks_are_written_only_after_steps_that_may_still_write_them() -> None:
    made = machine()
    carry_out(made, Direction.GROW, 16)
    calls: list[str] = []
    made.vmm.fail = calls.append
    made.rank.prepare(next(EPOCH), Order(Direction.SHRINK, 10))
    assert calls.index("synchronize") < calls.index("copy")


def test_weights_that_are_written_anew_are_what_every_unit_serves_from_then_on() -> None:
    made = machine()
    table, store = made.rank.table, made.rank.store
    parts = [(unit, n, store.address(unit, n), size) for unit in table.units for n, size in enumerate(unit.sizes)]
    carry_out(made, Direction.GROW, 30)
    carry_out(made, Direction.SHRINK, 20)
    assert len(table.host) > len(table.away) > 0, "some units at home have a copy"
    prepared = next(EPOCH)
    made.rank.prepare(prepared, Order(Direction.SHRINK, 10))  # old weights are on their way home
    for unit, tensor, address, size in parts:
        made.vmm.write(address, size, ("new", unit.id, tensor))
    made.rank.forget_copies()
    made.rank.commit(prepared)
    made.clock.now += KEPT_SECONDS + 1
    for capacity, direction in ((10, Direction.SHRINK), (30, Direction.GROW), (10, Direction.SHRINK)):
        assert carry_out(made, direction, capacity)
        for unit, tensor, address, size in parts:
            assert made.vmm.read(address, size) == ("new", unit.id, tensor)


def test_an_order_that_is_repeated_changes_nothing() -> None:
    made = machine()
    assert carry_out(made, Direction.GROW, 20)
    before = made.rank.table.capacity()
    answer = made.rank.prepare(99_999, Order(Direction.GROW, before))
    assert (answer.ok, answer.changed, answer.capacity) == (True, False, before)


def test_a_chunk_bounds_what_one_commit_moves() -> None:
    made = machine(limits=Limits(chunk=12 * 16, offload=1 << 20, reserve=2))
    assert carry_out(made, Direction.GROW, 60)
    assert sum(len(packs) for packs in made.rank.table.lent) == 4


def test_the_cap_on_offloaded_bytes_holds() -> None:
    made = machine(limits=Limits(chunk=1 << 20, offload=10 * 48, reserve=2))
    carry_out(made, Direction.GROW, 60)
    assert made.rank.table.offloaded_bytes() <= 10 * 48


def test_without_host_memory_nothing_leaves() -> None:
    made = machine(hosts=0)
    answer = made.rank.prepare(1, Order(Direction.GROW, 20))
    assert (answer.ok, answer.changed, answer.capacity) == (True, False, 10)


def test_a_swap_exchanges_hot_for_cold_and_leaves_the_cache_alone() -> None:
    made = machine(scores=lambda unit: 1.0 + unit)
    carry_out(made, Direction.GROW, 16)
    away = set(made.rank.table.offloaded())
    made.clock.now += KEPT_SECONDS + 1
    made.rank.scores = made.rank.scores[::-1].copy()
    assert carry_out(made, Direction.SWAP, 0)
    now = set(made.rank.table.offloaded())
    assert now - away == {43, 44}, "the two coldest now; there are two spare packs"
    assert len(now) == len(away)
    made.check(16)


def test_an_expert_that_came_home_stays_a_while() -> None:
    made = machine()
    carry_out(made, Direction.GROW, 16)
    away = set(made.rank.table.offloaded())
    carry_out(made, Direction.SHRINK, 10)
    carry_out(made, Direction.GROW, 16)
    assert not away & set(made.rank.table.offloaded())
    made.clock.now += KEPT_SECONDS + 1
    carry_out(made, Direction.SHRINK, 10)
    made.clock.now += KEPT_SECONDS + 1
    carry_out(made, Direction.GROW, 16)
    assert away == set(made.rank.table.offloaded())


def test_a_host_copy_is_written_once() -> None:
    made = machine()
    first = made.rank.prepare(1, Order(Direction.GROW, 16))
    made.rank.commit(1)
    carry_out(made, Direction.SHRINK, 10)
    made.clock.now += KEPT_SECONDS + 1
    again = made.rank.prepare(2, Order(Direction.GROW, 16))
    assert first.copied > 0
    assert again.copied == 0, "weights never change: the second time an offload is only a remap"


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("direction", [Direction.GROW, Direction.SHRINK, Direction.SWAP])
def test_a_fault_at_any_step_leaves_a_whole_machine(step: Step, direction: Direction) -> None:
    made = machine(scores=lambda unit: 1.0 + unit)
    carry_out(made, Direction.GROW, 16)
    made.clock.now += KEPT_SECONDS + 1
    made.rank.scores = made.rank.scores[::-1].copy()
    made.rank._fault = step
    target = {Direction.GROW: 24, Direction.SHRINK: 10, Direction.SWAP: 0}[direction]
    ok = carry_out(made, direction, target)
    made.rank._fault = None
    nothing_to_zero = step is Step.ZERO and direction is not Direction.GROW
    assert ok == nothing_to_zero
    made.check(16)
    if step is not Step.REPLY and not nothing_to_zero:
        assert made.rank.table.capacity() == 16
    assert carry_out(made, Direction.SHRINK, 10), "what stayed on the host can come home"
    assert made.rank.table.offloaded() == []
    made.check(10)


def test_every_driver_call_may_fail_once() -> None:
    for direction, target in ((Direction.GROW, 22), (Direction.SHRINK, 11), (Direction.SWAP, 0)):
        for n in itertools.count(1):
            made = machine(scores=lambda unit: 1.0 + unit)
            carry_out(made, Direction.GROW, 16)
            made.clock.now += KEPT_SECONDS + 1
            made.rank.scores = made.rank.scores[::-1].copy()
            made.fail.left = n
            ok = carry_out(made, direction, target)
            if made.fail.left is not None:
                break  # fewer than n calls are made: every one was tried
            assert not ok
            made.check(min(16, made.rank.table.capacity()))
            assert carry_out(made, Direction.SHRINK, 10)
            assert made.rank.table.offloaded() == []
        assert n > 10


class AnyOrder(RuleBasedStateMachine):
    """Any orders, on any shape, with a fault at any driver call: experts read their weights and nothing leaks."""

    @initialize(
        rows=st.sampled_from([(32, 16), (48, 24), (24, 16), (64, 32)]),
        regions=st.integers(1, 3),
        block=st.sampled_from([16, 40, 96]),
        hosts=st.sampled_from([0, 700, 1 << 20]),
        spares=st.integers(0, 3),
        chunk=st.sampled_from([128, 1 << 20]),
    )
    def make(self, rows: tuple[int, int], regions: int, block: int, hosts: int, spares: int, chunk: int) -> None:
        self.made = machine(
            rows=rows,
            regions=regions,
            block_bytes=block,
            physical=16,
            virtual=64,
            hosts=hosts,
            spares=spares,
            limits=Limits(chunk, 1500, spares),
        )
        self.agreed = 16

    @rule(blocks=st.integers(1, 20), fault=st.none() | st.integers(1, 60))
    def grow(self, blocks: int, fault: int | None) -> None:
        self.made.fail.left = fault
        if carry_out(self.made, Direction.GROW, self.agreed + blocks):
            self.agreed = self.made.rank.table.capacity()
        self.made.fail.left = None

    @rule(blocks=st.integers(0, 20), fault=st.none() | st.integers(1, 60))
    def shrink(self, blocks: int, fault: int | None) -> None:
        self.agreed = max(16, self.agreed - blocks)  # parked first
        self.made.fail.left = fault
        carry_out(self.made, Direction.SHRINK, self.agreed)
        self.made.fail.left = None

    @rule(fault=st.none() | st.integers(1, 40))
    def swap(self, fault: int | None) -> None:
        self.made.fail.left = fault
        carry_out(self.made, Direction.SWAP, 0)
        self.made.fail.left = None

    @rule(seed=st.integers(0, 1000))
    def routing_changes(self, seed: int) -> None:
        count = len(self.made.rank.scores)
        self.made.rank.scores[:] = [(unit * 7919 + seed * 104729) % 997 for unit in range(count)]

    @rule()
    def prepared_and_given_up(self) -> None:
        epoch = next(EPOCH)
        self.made.rank.prepare(epoch, Order(Direction.SHRINK, self.agreed))
        self.made.rank.rollback(epoch)

    @rule()
    def copies_ahead(self) -> None:
        self.made.rank.copy_ahead(200)

    @rule(seconds=st.floats(0, 30))
    def time_passes(self, seconds: float) -> None:
        self.made.clock.now += seconds

    @invariant()
    def whole(self) -> None:
        if hasattr(self, "made"):
            assert self.made.rank.table.capacity() >= self.agreed
            self.made.check(self.agreed)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # what fails is short already; shrinking it takes minutes
)
