"""Parked blocks: the engine's pool is made for all blocks that could ever be; those without memory are set aside.

    0 ......... cut ......... physical ............... virtual
    in the pool | being taken back | parked

`pool.num_gpu_blocks` is what the pool may use at the moment, so that vLLM's own usage and reset of the prefix cache
stay right. Blocks are given back from the top: first nobody can get them any more (half-parked), then requests drain.
"""

from __future__ import annotations

from typing import Any


class Balloon:
    """pool: vLLM's BlockPool, all blocks free or null. physical: blocks that have memory."""

    def __init__(self, pool: Any, physical: int) -> None:
        self.pool = pool
        self.virtual = len(pool.blocks)
        self.physical = min(physical, self.virtual)
        self.cut = self.physical
        self.told = False  # those who copy from blocks that no request holds, of the blocks that are all held
        self._held: set[int] = set()
        for block in pool.blocks[self.physical :]:
            pool.free_block_queue.remove(block)
        self._count()

    def _count(self) -> None:
        self.pool.num_gpu_blocks = self.physical - len(self._held)

    @property
    def parked(self) -> int:
        return self.virtual - self.physical

    @property
    def shrinking(self) -> bool:
        return self.cut < self.physical

    def unpark(self, to: int) -> int:
        """Hand out blocks up to `to`, all of which have memory by now; returns how many are new.

        They go to the front: an empty block is used before one that holds a prefix is evicted.
        """
        to = min(to, self.virtual)
        new = self.pool.blocks[self.physical : to]
        if not new:
            return 0
        assert not self.shrinking, "blocks are handed out while others are taken back"
        self.physical = self.cut = to
        self.pool.free_block_queue.prepend_n(new)
        self._count()
        return len(new)

    def begin_shrink(self, cut: int) -> None:
        """Take back blocks from `cut` on: nobody gets them, and nobody finds a prefix in them, from now on."""
        self.cut, self.told = max(1, min(cut, self.physical)), False
        self.pool.evict_blocks({block.block_id for block in self.pool.blocks[self.cut : self.physical]})
        self.sweep()

    def sweep(self) -> bool:
        """Hold blocks that were freed since; returns whether all are held.

        A request that had one since the shrink began may have filled it, and so made it known by its prefix again.
        """
        freed = [
            block
            for block in self.pool.blocks[self.cut : self.physical]
            if block.ref_cnt == 0 and block.block_id not in self._held
        ]
        self.pool.evict_blocks({block.block_id for block in freed})
        for block in freed:
            self.pool.free_block_queue.remove(block)
            self._held.add(block.block_id)
        self._count()
        return len(self._held) == self.physical - self.cut

    def finish_shrink(self) -> None:
        """Blocks from the cut on are parked; their memory may go."""
        assert self.sweep(), "a block that is in use would lose its memory"
        self.physical = self.cut
        self._held.clear()
        self._count()

    def cancel_shrink(self) -> None:
        """Hand held blocks out again."""
        self.cut = self.physical
        held = [self.pool.blocks[number] for number in sorted(self._held)]
        self._held.clear()
        self.pool.free_block_queue.prepend_n(held)
        self._count()

    def blank(self, enough: int) -> int:
        """Free blocks that hold no prefix, counted up to `enough`: they are first in the queue."""
        block, count = self.pool.free_block_queue.fake_free_list_head.next_free_block, 0
        while count < enough and block is not None and block.next_free_block is not None and block.block_hash is None:
            block, count = block.next_free_block, count + 1
        return count

    def cached_above(self, cut: int) -> int:
        """Blocks from `cut` on that hold a prefix: what shrinking to there would forget, sooner or later. Those of a
        request that runs are forgotten at once, and it is likely to be continued."""
        return sum(block.block_hash is not None for block in self.pool.blocks[cut : self.physical])

    @property
    def usage(self) -> float:
        """Share of the blocks with memory that requests hold."""
        free: int = self.pool.get_num_free_blocks()
        return 1.0 - free / max(1, self.physical - len(self._held) - 1)
