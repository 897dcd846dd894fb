"""Parking on a pool that works as vLLM's does; the engine tests do the same on the real one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ballast_vamp.balloon import Balloon


@dataclass(eq=False)
class Block:
    block_id: int
    ref_cnt: int = 0
    block_hash: str | None = None
    next_free_block: Any = None


class Queue:
    """Free blocks in order, with the links that vLLM's queue has."""

    def __init__(self, blocks: list[Block]) -> None:
        self.order = list(blocks)
        self.fake_free_list_head = Block(-1)
        self._tail = Block(-1)

    def _link(self) -> None:
        chain = [self.fake_free_list_head, *self.order, self._tail]
        for block, after in itertools.pairwise(chain):
            block.next_free_block = after

    def remove(self, block: Block) -> None:
        self.order.remove(block)
        self._link()

    def prepend_n(self, blocks: list[Block]) -> None:
        self.order[:0] = blocks
        self._link()

    def append_n(self, blocks: list[Block]) -> None:
        self.order += blocks
        self._link()


@dataclass
class Pool:
    size: int
    blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = [Block(n) for n in range(self.size)]
        self.num_gpu_blocks = self.size
        self.free_block_queue = Queue(self.blocks)
        self.free_block_queue.remove(self.blocks[0])  # vLLM's null block
        self.blocks[0].ref_cnt = 1

    def get_num_free_blocks(self) -> int:
        return len(self.free_block_queue.order)

    def evict_blocks(self, ids: set[int]) -> None:
        for number in ids:
            self.blocks[number].block_hash = None

    def take(self) -> Block | None:
        if not self.free_block_queue.order:
            return None
        block = self.free_block_queue.order[0]
        self.free_block_queue.remove(block)
        block.ref_cnt, block.block_hash = 1, None
        return block

    def give(self, block: Block, cached: bool) -> None:
        block.ref_cnt = 0
        if cached:
            block.block_hash = f"h{block.block_id}"
            self.free_block_queue.append_n([block])
        else:
            self.free_block_queue.prepend_n([block])


def test_blocks_without_memory_are_not_to_be_had() -> None:
    pool = Pool(20)
    balloon = Balloon(pool, 8)
    assert (pool.num_gpu_blocks, pool.get_num_free_blocks(), balloon.parked, balloon.usage) == (8, 7, 12, 0.0)
    assert balloon.unpark(12) == 4
    assert pool.free_block_queue.order[0].block_id == 8, "empty blocks come before cached ones"


def test_a_shrink_waits_for_requests_and_evicts_prefixes_first() -> None:
    pool = Pool(20)
    balloon = Balloon(pool, 12)
    used = [block for block in iter(pool.take, None) if block is not None]
    pool.give(used[8], cached=True)  # block 9
    balloon.begin_shrink(8)
    assert pool.blocks[9].block_hash is None
    assert not balloon.sweep()
    for block in used:
        if block.ref_cnt and block.block_id >= 8:
            pool.give(block, cached=True)
    assert balloon.sweep()
    balloon.finish_shrink()
    assert (balloon.physical, pool.num_gpu_blocks, pool.get_num_free_blocks()) == (8, 8, 0)
    assert all(block.block_hash is None for block in pool.blocks[8:]), "written while it was being taken back"


def test_pressure_calls_a_shrink_off() -> None:
    pool = Pool(20)
    balloon = Balloon(pool, 12)
    balloon.begin_shrink(6)
    assert pool.get_num_free_blocks() == 5
    balloon.cancel_shrink()
    assert (pool.get_num_free_blocks(), pool.num_gpu_blocks) == (11, 12)


class AnyUse(RuleBasedStateMachine):
    """Blocks taken, freed, cached, parked in any order: no block that has no memory is ever in use or free."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(30)
        self.balloon = Balloon(self.pool, 12)
        self.used: list[Block] = []

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        self.used += [block for block in (self.pool.take() for _ in range(count)) if block is not None]

    @rule(which=st.integers(0, 100), cached=st.booleans())
    def give(self, which: int, cached: bool) -> None:
        if self.used:
            self.pool.give(self.used.pop(which % len(self.used)), cached)

    @rule(count=st.integers(1, 8))
    def grow(self, count: int) -> None:
        if self.balloon.shrinking:
            self.balloon.cancel_shrink()
        self.balloon.unpark(self.balloon.physical + count)

    @rule(count=st.integers(1, 8))
    def shrink(self, count: int) -> None:
        if self.balloon.shrinking:
            if self.balloon.sweep():
                self.balloon.finish_shrink()
        else:
            self.balloon.begin_shrink(self.balloon.physical - count)

    @rule()
    def sweep(self) -> None:
        self.balloon.sweep()

    @invariant()
    def whole(self) -> None:
        free = self.pool.free_block_queue.order
        assert all(block.block_id < self.balloon.physical for block in free)
        assert all(block.block_id < self.balloon.physical for block in self.used)
        assert self.pool.num_gpu_blocks - len(free) == len(self.used) + 1, "vLLM counts what is in use this way"
        found = [block for block in self.pool.blocks if block.block_hash is not None]
        assert all(block.ref_cnt or block in free for block in found), "a prefix is found where nobody can get it"


TestAnyUse = AnyUse.TestCase
