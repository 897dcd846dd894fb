"""The scheduler's half: vLLM's schedulers, with a pool whose blocks can be parked and a controller that is asked.

__init__              blocks without memory are parked
schedule              grows ahead, shrinks, swaps
allocate_slots        grows when a request finds no block, else puts the cheapest victim where vLLM preempts next
has_requests          an engine without requests goes on stepping until experts are home
"""

from __future__ import annotations

import itertools
import logging
import math
import time
import weakref
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from ballast_vamp import compat, link, metrics
from ballast_vamp.balloon import Balloon
from ballast_vamp.commit import Coordinator
from ballast_vamp.config import Config, Mode
from ballast_vamp.controller import Controller, Now, Shape
from ballast_vamp.cost import Outlook
from ballast_vamp.learn import Fading, Reuse, StepMix, StepTimes
from ballast_vamp.plugin import tell
from ballast_vamp.reasons import Disabled, Reason

if TYPE_CHECKING:
    from typing import Any as _Base
else:
    _Base = object

log = logging.getLogger("vllm.vamp")
WRITE_SECONDS = 0.5
AHEAD_SECONDS = 1.0  # blocks wanted within this time are grown for
IDLE_SECONDS = 0.005  # a step of an engine that only waits for experts to come home
_current: weakref.ref[Any] | None = None


class Handle:
    """What this process can ask of its scheduler: for the replay's arms and for tests."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def grow(self, blocks: int) -> int:
        """Offload experts for so many more blocks at least; returns how many were handed out."""
        return int(self._scheduler.vamp.grow(blocks))

    def shrink(self, blocks: int) -> int:
        """Take so many blocks back; returns how many were, 0 if a request holds one of them."""
        return int(self._scheduler.vamp.shrink(blocks))

    def snapshot(self) -> dict[str, float]:
        """All samples, by the names that /metrics has."""
        self._scheduler.vamp.look(self._scheduler.vamp_now())
        self._scheduler.vamp_fill()
        return self._scheduler.vamp.metrics.snapshot()  # type: ignore[no-any-return]


def current() -> Handle | None:
    """The scheduler of this process that moves pages; None if there is none."""
    scheduler = None if _current is None else _current()
    return None if scheduler is None or scheduler.vamp is None else Handle(scheduler)


class VampMixin(_Base):  # type: ignore[misc]
    """Mixed into vLLM's schedulers, before them."""

    vamp: Controller | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        global _current
        super().__init__(*arguments, **options)
        self._vamp_written, self._vamp_busy = 0.0, False
        self._vamp_engine = str(self.parallel_config.data_parallel_index)
        try:
            self.vamp = self._vamp_start(Config.from_environment())
        except Disabled as disabled:
            tell(disabled, self._vamp_engine)
            return
        _current = weakref.ref(self)
        self.vamp_write()

    def _vamp_start(self, config: Config) -> Controller:
        ranks = link.call("vamp_describe")
        for rank, told in enumerate(ranks):
            if told.disabled is not None:
                raise Disabled(Reason(told.disabled[0]), f"rank {rank}: {told.disabled[1]}")
        pool = self.kv_cache_manager.block_pool
        physical = min(told.physical for told in ranks)
        self._vamp_require(physical)
        balloon = Balloon(pool, physical)
        self._vamp_ranks = ranks
        self._vamp_watermark()
        self._vamp_times, self._vamp_mix, self._vamp_reuse = StepTimes(), StepMix(), Reuse()
        self._vamp_hits = Fading(0.0, 0.1)  # share of a prompt that is found in the cache
        self._vamp_wanted = 0  # blocks, by the request that asked last
        self._vamp_asked = ""  # the request whose prefix was looked up last
        self._vamp_lost = 0  # tokens of its prefix that were evicted, until a connector was asked for them
        self._vamp_stepped: float | None = None
        self._vamp_tokens: dict[int, tuple[int, int, int, int]] = {}
        shape = Shape(
            step=max(1, max(rank.chunk for rank in ranks) // ranks[0].block_bytes),
            block_tokens=compat.block_tokens(self.kv_cache_config),
            block_bytes=ranks[0].block_bytes,
            dry=config.mode is Mode.DRY_RUN,
            always=config.mode is Mode.ALWAYS,
        )
        self._vamp_wrap(pool)
        log.info("VAMP: %d blocks have memory, %d more may get it", balloon.physical, balloon.parked)
        dma, zero_copy = min(r.dma for r in ranks), min(r.zero_copy for r in ranks)
        copiers = compat.copiers(self.connector)

        def tell(blocks: range) -> bool:
            for copier in copiers:
                compat.hand_to_somebody_else(copier, blocks)
            return bool(copiers)

        return Controller(balloon, Coordinator(link.call), self._vamp_observe, shape, dma, zero_copy, copiers=tell)

    def _vamp_require(self, physical: int) -> None:
        """Raise ValueError, as vLLM itself does, unless one request of the greatest length, and one block for each
        sequence, fit in blocks that have memory of their own: the others cannot be promised."""
        longest: int = compat.longest_request_blocks(self.kv_cache_config, self.vllm_config)
        least: int = max(longest, self.max_num_running_reqs + 1) + 1
        if physical < least:
            raise ValueError(
                f"the KV cache has memory of its own for {physical} blocks; a request of {self.max_model_len} tokens "
                f"and {self.max_num_running_reqs} sequences need {least}; raise --kv-cache-memory-bytes or "
                "--gpu-memory-utilization, or lower --max-model-len or --max-num-seqs"
            )

    def _vamp_observe(self, mix: Any, blocks: int) -> Outlook:
        """Ranks route alike; where their numbers differ the worst counts."""
        told: list[Outlook] = list(link.call("vamp_observe", mix, blocks))
        return min(told, key=lambda outlook: (outlook.learned, outlook.blocks, -outlook.decode_after))

    def _vamp_watermark(self) -> None:
        """vLLM computes it once, from all blocks that could be."""
        manager = self.kv_cache_manager
        share = getattr(self.scheduler_config, "watermark", 0.0)
        manager.watermark_blocks = int(share * manager.block_pool.num_gpu_blocks)

    def _vamp_wrap(self, pool: Any) -> None:
        """Take hold of allocation, eviction and prefix lookup of this scheduler's own objects."""
        manager, reuse = self.kv_cache_manager, self._vamp_reuse
        allocate, evict, look_up = manager.allocate_slots, pool._maybe_evict_cached_block, manager.get_computed_blocks
        count = manager.coordinator.get_num_blocks_to_allocate

        def get_num_blocks_to_allocate(*arguments: Any, **options: Any) -> int:
            self._vamp_wanted = int(count(*arguments, **options))
            return self._vamp_wanted

        def allocate_slots(request: Any, *arguments: Any, **options: Any) -> Any:
            found = allocate(request, *arguments, **options)
            while found is None and self._vamp_short() and self._vamp_emergency(request):
                found = allocate(request, *arguments, **options)
            if found is None and not (self.vamp is None or self.vamp.shape.dry):
                self._vamp_pick_victim(request)
            return found

        def maybe_evict(block: Any) -> Any:
            if block.block_hash is not None:
                reuse.evicted(compat.plain_hash(block), time.monotonic())
            return evict(block)

        def get_computed_blocks(request: Any) -> Any:
            found = look_up(request)
            if not request.num_preemptions and request.request_id != self._vamp_asked:  # not again while it waits
                self._vamp_asked = request.request_id
                reuse.kept(sum(len(blocks) for blocks in found[0].blocks))
                self._vamp_hits.add(found[1] / max(1, request.num_tokens))
                self._vamp_lost = reuse.asked(request.block_hashes, time.monotonic()) * self.block_size
            return found

        manager.coordinator.get_num_blocks_to_allocate = get_num_blocks_to_allocate
        manager.allocate_slots = allocate_slots
        manager.get_computed_blocks = get_computed_blocks
        pool._maybe_evict_cached_block = maybe_evict
        if self.connector is not None:
            self._vamp_wrap_connector(self.connector)

    def _vamp_wrap_connector(self, connector: Any) -> None:
        """Learn how much of what was evicted it still has. It is asked right after the cache is."""
        match = connector.get_num_new_matched_tokens

        def get_num_new_matched_tokens(request: Any, *arguments: Any, **options: Any) -> Any:
            found = match(request, *arguments, **options)
            if self._vamp_lost and request.request_id == self._vamp_asked and found[0] is not None:
                self._vamp_reuse.held.add(min(1.0, found[0] / self._vamp_lost))
                self._vamp_lost = 0
            return found

        connector.get_num_new_matched_tokens = get_num_new_matched_tokens

    # --- vLLM's own calls

    def schedule(self, *arguments: Any, **options: Any) -> Any:
        if self.vamp is None:
            return super().schedule(*arguments, **options)
        self.vamp.tick(self.vamp_now())
        if not self._vamp_tokens:  # nothing is on its way: what was waited for was not a step
            self._vamp_stepped = time.monotonic()
        self._vamp_watermark()
        output = super().schedule(*arguments, **options)
        if output.total_num_scheduled_tokens:
            self._vamp_note(output)
        elif not super().has_requests():  # requests that wait for a connector or a grammar are asked for without delay
            self._vamp_stepped = None
            time.sleep(IDLE_SECONDS)
        if time.monotonic() - self._vamp_written > WRITE_SECONDS:
            self.vamp_write()
        return output

    def update_from_output(self, scheduler_output: Any, *arguments: Any, **options: Any) -> Any:
        if self.vamp is not None and (step := self._vamp_tokens.pop(id(scheduler_output), None)) is not None:
            now = time.monotonic()
            if self._vamp_stepped is not None:
                decoding, prompt, context, requests = step
                seconds = now - self._vamp_stepped
                self._vamp_mix.add(seconds, decoding, prompt)
                self._vamp_times.add(seconds, prompt, context, requests)
            self._vamp_stepped = now
        return super().update_from_output(scheduler_output, *arguments, **options)

    def has_requests(self) -> bool:
        if super().has_requests():
            return True
        if self.vamp is None or self.parallel_config.data_parallel_size > 1:
            return False  # ranks of a data-parallel group step together
        if self.pause_state.value or link.ending():
            return False  # who paused or ends an engine waits until it has nothing to do
        busy = self.vamp.busy()
        if self._vamp_busy and not busy:
            self.vamp.look(self.vamp_now())
            self.vamp_write()  # the last for now: nothing is stepped any more
        self._vamp_busy = busy
        return busy

    def shutdown(self) -> None:
        if self.vamp is not None:
            self.vamp.coordinator.pending.clear()  # the workers go too
            self.vamp_write()
        super().shutdown()

    # --- what the controller is told

    def _vamp_note(self, output: Any) -> None:
        """Tokens of a step, kept until its output comes: decode, prompt, prompt x context, requests that decode."""
        decoding = prompt = context = requests = 0
        for name, tokens in output.num_scheduled_tokens.items():
            request = self.requests[name]
            if tokens > 1 + self.num_spec_tokens:
                prompt += tokens
                context += tokens * (request.num_computed_tokens - tokens // 2)
            else:
                decoding += tokens
                requests += 1
        self._vamp_tokens[id(output)] = (decoding, prompt, max(0, context), requests)

    def vamp_now(self) -> Now:
        running, waiting = self.get_request_counts()
        waiting -= self.num_waiting_for_streaming_input  # sessions that say nothing wait for nobody
        tokens = self.block_size
        grows = running * AHEAD_SECONDS / max(self._vamp_mix.seconds, 1e-3) / tokens
        prompts = 0
        missed = 1.0 - self._vamp_hits.value
        for request in itertools.islice(compat.waiting(self), 8):
            prompts += math.ceil(missed * (request.num_tokens - request.num_computed_tokens) / tokens)
        groups = len(self.kv_cache_config.kv_cache_groups)
        context = sum(request.num_computed_tokens for request in self.running) / max(1, running)
        return Now(
            running=running,
            waiting=waiting,
            need=int(grows + prompts) * groups + 1 if running or waiting else 0,
            context=context,
            mix=self._vamp_mix.mix(),
            prefill=self._vamp_times.prefill(),
            reuse=self._vamp_reuse.chance,
            gap=self._vamp_reuse.gap.value,
            held=None if self.connector is None else self._vamp_reuse.held.value,
        )

    def _vamp_short(self) -> bool:
        """Whether more blocks would help a request that got none. vLLM says that it wants more than there are at all
        where it must not run in this step, since what it found in the cache is only being computed."""
        assert self.vamp is not None
        return self._vamp_wanted <= self.vamp.balloon.physical

    def _vamp_emergency(self, request: Any) -> bool:
        assert self.vamp is not None
        victim = self.running[-1] if self.running else request
        blocks = sum(len(group) for group in self.kv_cache_manager.get_blocks(victim.request_id).blocks)
        grown = self.vamp.emergency(self.vamp_now(), max(1, victim.num_computed_tokens), max(1, blocks))
        self._vamp_watermark()
        return grown

    def _vamp_pick_victim(self, request: Any) -> None:
        """vLLM preempts the last running request: put the one there that costs least to compute again, block for block.

        Only requests after this one are free to be moved: those before it are part of the step already.
        """
        if request not in self.running or self.policy.value != "fcfs":
            return
        first = self.running.index(request) + 1
        if len(self.running) - first < 2:
            return
        prefill = self._vamp_times.prefill()

        def price(candidate: Any) -> float:
            blocks = sum(len(group) for group in self.kv_cache_manager.get_blocks(candidate.request_id).blocks)
            tokens = candidate.num_computed_tokens
            return prefill.seconds(tokens, tokens / 2) / max(1, blocks)

        victim = min(reversed(self.running[first:]), key=price)
        self.running.remove(victim)
        self.running.append(victim)

    # --- metrics

    def vamp_fill(self) -> None:
        """Bring gauges up to date."""
        assert self.vamp is not None
        made, balloon, ranks = self.vamp.metrics, self.vamp.balloon, self._vamp_ranks
        block, units = ranks[0].block_bytes, ranks[0].expert_bytes
        away = self.vamp.outlook.away if self.vamp.outlook is not None else 0
        reason = self.vamp.reason()
        made.set("vamp:active", reason is None)
        made.clear("vamp:disabled_info")
        if reason is not None:
            made.set("vamp:disabled_info", 1, reason=reason[0], message=reason[1])
        made.set("vamp:degraded", self.vamp.coordinator.degraded)
        made.set("vamp:kv_bytes_physical", balloon.physical * block)
        made.set("vamp:kv_bytes_virtual", balloon.virtual * block)
        made.set("vamp:kv_blocks_parked", balloon.parked)
        made.set("vamp:expert_bytes_host", away)
        made.set("vamp:expert_bytes_resident", units - away)
        made.set("vamp:host_bytes", ranks[0].host_bytes)
        made.set("vamp:bandwidth_bytes_per_second", self.vamp.zero_copy, path="zc")
        made.set("vamp:bandwidth_bytes_per_second", self.vamp.dma, path="dma")
        if self.connector is not None:
            made.set("vamp:connector_held_share", self._vamp_reuse.held.value)
        made.add("vamp:kv_bytes_copied", 0)  # pages move by remapping; nothing in this package copies cache

    def vamp_write(self) -> None:
        self._vamp_written = time.monotonic()
        self.vamp_fill()
        assert self.vamp is not None
        metrics.write(self._vamp_engine, self.vamp.metrics)


class VampScheduler(VampMixin, Scheduler):  # type: ignore[misc]
    """One batch at a time."""


class VampAsyncScheduler(VampMixin, AsyncScheduler):  # type: ignore[misc]
    """A batch is scheduled while the one before it runs."""
