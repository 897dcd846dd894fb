"""Several ranks under one coordinator: whatever fails wherever, blocks that are handed out have memory on all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ballast_vamp.commit import Coordinator, Result, grow, shrink
from ballast_vamp.rank import Answer, Direction, Order
from ballast_vamp.steps import Step
from ballast_vamp.testing import Machine, machine


class Ranks:
    """Machines behind a call as the executor makes it."""

    def __init__(self, count: int, fault: Step | None = None, on: int = 0) -> None:
        self.all: list[Machine] = [machine(fault=fault if rank == on else None) for rank in range(count)]
        self.calls: list[str] = []
        self.asked: list[Direction] = []  # of each order that was to be prepared

    def call(self, method: str, epoch: int, order: Order) -> Sequence[Answer]:
        self.calls.append(method)
        verb = method.removeprefix("vamp_")
        if verb == "prepare":
            self.asked.append(order.direction)
            return [made.rank.prepare(epoch, order) for made in self.all]
        return [getattr(made.rank, verb)(epoch) for made in self.all]

    def capacities(self) -> list[int]:
        return [made.rank.table.capacity() for made in self.all]


def test_every_rank_prepares_before_any_commits() -> None:
    ranks = Ranks(2)
    outcome = Coordinator(ranks.call).carry_out(grow(16))
    assert (outcome.result, outcome.capacity) == (Result.OK, 16)
    assert ranks.calls == ["vamp_prepare", "vamp_commit"]


@pytest.mark.parametrize(("step", "rank"), list(itertools.product(Step, range(3))))
def test_a_fault_on_one_rank_hands_out_no_block(step: Step, rank: int) -> None:
    ranks = Ranks(3, step, rank)
    coordinator = Coordinator(ranks.call)
    outcome = coordinator.carry_out(grow(16))
    if step is Step.REPLY:
        assert outcome.result is Result.OK, "it was done, and the second time there is nothing left to do"
        assert ranks.capacities() == [16, 16, 16]
        return
    assert outcome.result is (Result.REFUSED if step is Step.PREPARE else Result.ROLLED_BACK)
    assert outcome.capacity == min(ranks.capacities()) == 10
    for made in ranks.all:
        made.check(16)
        made.rank._fault = None
    assert coordinator.carry_out(grow(16)).capacity == 16, "the order can be repeated once the fault is gone"
    assert not coordinator.degraded
    assert coordinator.carry_out(shrink(10)).capacity == 10
    assert all(made.rank.table.offloaded() == [] for made in ranks.all)


def test_ranks_that_disagree_are_said_to() -> None:
    ranks = Ranks(2, Step.KV, on=1)
    coordinator = Coordinator(ranks.call)
    coordinator.carry_out(grow(16))
    assert coordinator.degraded
    assert ranks.capacities() == [16, 10]


def test_a_slow_prepare_is_given_up() -> None:
    ranks = Ranks(1)
    tick = iter(itertools.count(0.0, 5.0))
    ranks.all[0].rank._clock = lambda: next(tick)
    outcome = Coordinator(ranks.call).carry_out(grow(16))
    assert outcome.result is Result.REFUSED
    assert "more than 2 s" in outcome.message
    ranks.all[0].check(10)


class AnyRanks(RuleBasedStateMachine):
    """Orders over three ranks, a fault at any driver call of any of them."""

    @initialize()
    def make(self) -> None:
        self.ranks = Ranks(3)
        self.coordinator = Coordinator(self.ranks.call)
        self.agreed = 10

    @rule(
        direction=st.sampled_from(Direction),
        blocks=st.integers(1, 12),
        fault=st.none() | st.tuples(st.integers(0, 2), st.integers(1, 60)),
        ahead=st.booleans(),
    )
    def order(self, direction: Direction, blocks: int, fault: tuple[int, int] | None, ahead: bool) -> None:
        if direction is Direction.SHRINK:
            self.agreed = max(10, self.agreed - blocks)
        target = self.agreed + (blocks if direction is Direction.GROW else 0)
        if fault is not None:
            self.ranks.all[fault[0]].fail.left = fault[1]
        order = Order(direction, target)
        if ahead:
            outcome = self.coordinator.prepare(order)
            outcome = outcome or (self.coordinator.commit() if self.coordinator.pending else None)
        else:
            outcome = self.coordinator.carry_out(order)
        for made in self.ranks.all:
            made.fail.left = None
        if outcome is not None and outcome.result is Result.OK:
            self.agreed = max(self.agreed, outcome.capacity) if direction is Direction.GROW else self.agreed

    @rule(seed=st.integers(0, 99))
    def routing_changes(self, seed: int) -> None:
        for made in self.ranks.all:
            made.rank.scores[:] = [(unit * 31 + seed * 17) % 101 for unit in range(len(made.rank.scores))]

    @invariant()
    def whole(self) -> None:
        if hasattr(self, "ranks"):
            assert min(self.ranks.capacities()) >= self.agreed
            for made in self.ranks.all:
                made.check(self.agreed)


TestAnyRanks = AnyRanks.TestCase
TestAnyRanks.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
