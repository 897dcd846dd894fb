"""The worker's half: one rank of a vLLM engine that can move its pages. What differs by device is in two small classes.

load_model                  experts come into memory of our own, coldest last where a profile says which they are
determine_available_memory  the engine is made for the cache that could be had, not only for what there is
initialize_from_config      the cache gets addresses for all blocks, and memory for those it has now
execute_model               tells the counter what the step is made of
vamp_*                      what the scheduler calls
"""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ballast_vamp import compat, experts, geometry, host, hotness, metrics, pages
from ballast_vamp.config import Config, Mode
from ballast_vamp.cost import Mix, Outlook
from ballast_vamp.fake_vmm import FakeVmm
from ballast_vamp.hotness import Phase
from ballast_vamp.plan import Limits, swap
from ballast_vamp.rank import SWAP_GAIN, Answer, Order, Rank
from ballast_vamp.reasons import Disabled, Reason
from ballast_vamp.store import Store, host_sizes
from ballast_vamp.vmm import Vmm, VmmError, Where
from ballast_vamp.weights import Weights

if TYPE_CHECKING:
    from typing import Any as _Base
else:
    _Base = object

SPARES = 8  # packs kept for swaps
LARGE_UNIT = 48 << 20  # bytes of a unit of experts that a profile calls cold; larger ones save 1 ms/GiB at most
SAVE_EVERY = 300.0
DRY_SPEED = 50e9  # bytes/s to reckon with where nothing is moved that could be measured
COPY_AHEAD = 64 << 20  # bytes of host copies written at a time, beside the steps


@dataclass(frozen=True)
class Description:
    """What a rank tells the scheduler once. block_bytes: of one block over all layers. chunk: bytes moved at a time.
    Speeds in bytes a second."""

    physical: int
    virtual: int
    block_bytes: int
    chunk: int
    expert_bytes: int
    offload_bytes: int
    host_bytes: int
    dma: float
    zero_copy: float
    disabled: tuple[Reason, str] | None = None


class VampRank(Weights, _Base):  # type: ignore[misc]
    """Mixed into vLLM's worker classes, before them."""

    _vamp_disabled: Disabled | None = None
    _vamp_budget = 0
    _vamp_virtual = 0
    _vamp_block_bytes = 0

    # --- what a device class says

    def _vamp_vmm(self) -> Vmm:
        """The memory of this rank's device. Raises Disabled."""
        raise NotImplementedError

    def _vamp_house(self, store: Store, order: Any) -> None:
        """Bring the experts into the store, in the order of their slots, and attach the counter to each layer at once:
        without it the router's ids would be of another order than the experts."""
        raise NotImplementedError

    def _vamp_allocation(self, allocations: list[tuple[int, int]]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Within it vLLM allocates its cache: at these addresses, of so many bytes, where there is a device."""
        return nullcontext()

    def _vamp_speed(self, store: Store) -> float:
        """Bytes a second of copies between device and host."""
        raise NotImplementedError

    # --- vLLM's own calls

    def load_model(self, **options: Any) -> None:
        super().load_model(**options)
        try:
            self._vamp_load(Config.from_environment())
        except Disabled as disabled:
            self._vamp_disabled = disabled
        except VmmError as error:  # layers that were moved by then serve from where they are
            self._vamp_disabled = Disabled(Reason.NO_VMM, f"memory for experts or their copies: {error}")

    def _vamp_load(self, config: Config) -> None:
        self._vamp_config = config
        runners = compat.moe_runners(self.model_runner.get_model())
        layers = [experts.layer_of(runner) for runner in runners]
        if len({layer.experts for layer in layers}) > 1:
            raise Disabled(Reason.UNSUPPORTED_BACKEND, "layers of the model differ in their number of experts")
        count = layers[0].experts
        total = sum(layer.bytes for layer in layers)
        budget = min(config.max_offload_bytes, int(total * (1 - config.min_resident_fraction)))
        dry = config.mode is Mode.DRY_RUN
        if not dry:
            host.require(min(config.host_bytes, total))
        vmm = self._vamp_vmm() if not dry else FakeVmm()
        share = hotness.load(config.profile, len(layers), count) if config.profile else None
        known = None if dry or self._vamp_numbered() else share
        order = experts.coldest_last(known, len(layers), count)
        tail = 0 if known is None else count * budget // total
        units = geometry.units(layers, vmm.granularity, tail, LARGE_UNIT)
        if budget < max(unit.bytes for unit in units):
            raise Disabled(
                Reason.BAD_CONFIGURATION,
                f"VAMP_MAX_OFFLOAD_BYTES and VAMP_MIN_RESIDENT_FRACTION leave {budget} of {total} bytes that may move, "
                f"less than a unit of {max(unit.bytes for unit in units)}",
            )
        self._vamp_store = Store(vmm, layers, units)
        self._vamp_share = share
        self._vamp_order = order
        self._vamp_counter = experts.Counter(order, self.device)
        self._vamp_house(self._vamp_store, order) if not dry else self._vamp_imagine(runners)
        self._vamp_make_room()
        self._vamp_budget = 0 if dry else budget
        self._vamp_limit = budget
        self._vamp_saved = time.monotonic()
        if config.profile is not None and self.rank == 0:
            atexit.register(self.vamp_save)

    def _vamp_numbered(self) -> bool:
        """Whether somebody besides the router knows experts by the model's numbers: adapters of experts are looked up
        by the ids that kernels get, and a trainer writes them in the model's order."""
        return bool(self.vllm_config.lora_config or getattr(self.vllm_config, "weight_transfer_config", None))

    def _vamp_imagine(self, runners: Sequence[Any]) -> None:
        """A store that only counts: nothing real is moved."""
        for layer, runner in enumerate(runners):
            self._vamp_store.house(layer)
            self._vamp_counter.attach(layer, runner)

    def _vamp_make_room(self) -> None:
        """Spare packs and host packs, made ahead: neither is created while a request waits."""
        store = self._vamp_store
        sizes = max({unit.sizes for unit in store.units}, key=lambda s: sum(unit.sizes == s for unit in store.units))
        self._vamp_spares = [sizes] * SPARES
        for spare in self._vamp_spares:
            store.add_spare(spare)
        first = np.argsort(self._vamp_first_scores(), kind="stable")
        self._vamp_hosts = host_sizes(store.units, [int(unit) for unit in first], self._vamp_config.host_bytes)
        if not self._vamp_hosts:
            raise Disabled(
                Reason.HOST_MEMORY_TOO_SMALL,
                f"VAMP_HOST_BYTES is {self._vamp_config.host_bytes}, less than a unit of {store.units[0].bytes} bytes",
            )
        with host.turn(metrics.folder()):
            if self._vamp_config.mode is not Mode.DRY_RUN:
                host.require(sum(sum(sizes) for sizes in self._vamp_hosts))
            for sizes in self._vamp_hosts:
                store.add_host(sizes)

    def _vamp_first_scores(self) -> Any:
        """Scores before any token was routed: a profile's, or all alike."""
        units = self._vamp_store.units
        if self._vamp_share is None:
            return np.zeros(len(units))
        slots = np.take_along_axis(self._vamp_share, self._vamp_order, axis=1)
        return np.array([slots[unit.layer, unit.first : unit.first + unit.count].sum() for unit in units])

    def determine_available_memory(self) -> int:
        self._vamp_physical = int(super().determine_available_memory())
        return self._vamp_physical + self._vamp_budget

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        if self._vamp_disabled is not None:
            super().initialize_from_config(kv_cache_config)
            return
        virtual = kv_cache_config.num_blocks
        total = sum(size for size, _ in compat.cache_parts(kv_cache_config))
        self._vamp_block_bytes = total // virtual
        physical = min(self._vamp_physical // self._vamp_block_bytes, virtual)
        future = virtual if self._vamp_budget else virtual + self._vamp_limit // self._vamp_block_bytes
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what torch keeps for later it gives back to its own requests only, not to ours
        regions, addresses, allocations = self._vamp_lay_out(kv_cache_config, physical, future)
        real = bool(self._vamp_budget)
        with self._vamp_allocation(allocations) if real else nullcontext():
            super().initialize_from_config(kv_cache_config)
        table = pages.table(self._vamp_store.units, regions, self._vamp_spares, self._vamp_hosts)
        largest = max(unit.bytes for unit in self._vamp_store.units)
        # Blocks are gained when every region got a pack: less than that in one move would gain none, ever.
        self._vamp_chunk = max(self._vamp_config.chunk_bytes, len(regions) * largest)
        limits = Limits(self._vamp_chunk, self._vamp_limit, SPARES)
        fault = self._vamp_config.fault
        step = fault.step if fault is not None and fault.rank == self.rank else None
        self._vamp = Rank(table, self._vamp_store, addresses, limits, step)
        self._vamp.scores = self._vamp_first_scores()
        self._vamp_reads = hotness.Reads(table.units, *self._vamp_order.shape)
        self._vamp_virtual = virtual
        if self._vamp_share is not None and self._vamp_budget:
            self._vamp.copy_ahead(self._vamp_config.host_bytes)
            self._vamp_store.vmm.synchronize()
        self._vamp_dma = self._vamp_speed(self._vamp_store) if real else DRY_SPEED

    def _vamp_lay_out(
        self, config: Any, physical: int, virtual: int
    ) -> tuple[list[geometry.Region], list[int], list[tuple[int, int]]]:
        """Addresses for `virtual` blocks, memory for `physical`: the regions, where each begins, and allocations."""
        vmm = self._vamp_store.vmm
        regions: list[geometry.Region] = []
        addresses: list[int] = []
        allocations: list[tuple[int, int]] = []
        for size, parts in compat.cache_parts(config):
            if virtual != config.num_blocks:  # a dry run: as if the engine had been made for more
                parts = [
                    geometry.Part(n * part.block_bytes * virtual, part.block_bytes) for n, part in enumerate(parts)
                ]
            end = max(size, *(part.start + part.block_bytes * virtual for part in parts))
            base = vmm.reserve(-(-end // vmm.granularity) * vmm.granularity)
            extents, made = geometry.lay_out(parts, physical, virtual, vmm.granularity)
            for offset, extent in extents:
                vmm.map(base + offset, extent, vmm.create(extent, Where.DEVICE))
                vmm.zero(base + offset, extent)
            regions += made
            addresses += [base + part.start for part in parts]
            allocations.append((base, size))
        vmm.synchronize()
        return regions, addresses, allocations

    def execute_model(self, scheduler_output: Any) -> Any:
        if self._vamp is not None and scheduler_output.total_num_scheduled_tokens:
            tokens, requests = scheduler_output.total_num_scheduled_tokens, len(scheduler_output.num_scheduled_tokens)
            drafts = self.vllm_config.num_speculative_tokens if self.vllm_config.speculative_config else 0
            phase = Phase.DECODE if tokens <= requests * (1 + drafts) else Phase.PREFILL
            self._vamp_counter.before_step(phase, tokens)
        return super().execute_model(scheduler_output)

    def execute_dummy_batch(self) -> None:
        """Step along with other ranks of a data-parallel group: nobody asked for these tokens, so none is counted, and
        the blocks that they would read of an earlier request may have no memory any more."""
        if self._vamp is not None:
            self._vamp_counter.before_step(Phase.DECODE, 0)
            compat.forget_rows(self.model_runner)
        super().execute_dummy_batch()

    def shutdown(self) -> None:
        self.vamp_save()
        super().shutdown()

    # --- what the scheduler calls

    def vamp_describe(self) -> Description:
        """What this rank has, or why it has nothing to move."""
        if self._vamp is None:
            why = self._vamp_disabled or Disabled(Reason.NOT_MOE, "no cache was made")
            blocks = self.cache_config.num_gpu_blocks
            return Description(blocks, blocks, 0, 0, 0, 0, 0, 1.0, 1.0, (why.reason, why.message))
        table = self._vamp.table
        real = self._vamp_budget > 0
        return Description(
            physical=table.capacity() if real else self._vamp_virtual,
            virtual=self._vamp_virtual,
            block_bytes=self._vamp_block_bytes,
            chunk=self._vamp_chunk,
            expert_bytes=sum(layer.bytes for layer in self._vamp_store.layers),
            offload_bytes=self._vamp_limit,
            host_bytes=sum(pack.bytes for pack in table.hosts) if real else 0,
            dma=self._vamp_dma,
            zero_copy=self._vamp_dma * 0.92,  # kernels read mapped host memory at 50.4 of 55 GB/s on an H200
        )

    def vamp_observe(self, mix: Mix, blocks: int) -> Outlook:
        """Take in what was routed, and say what offloading for `blocks` more would cost steps of this mix."""
        rank, heat = self._rank(), self._vamp_counter.hotness
        if not heat.learned():
            self._vamp_counter.read()
        decode = self._vamp_reads.by_unit(heat.chance(Phase.DECODE), mix.decode_tokens)
        prefill = self._vamp_reads.by_unit(heat.chance(Phase.PREFILL), mix.prefill_tokens)
        learned = heat.learned()
        if learned:
            rank.scores = (mix.decode_rate * decode + mix.prefill_rate * prefill) / (self._vamp_dma * 0.92)
        plan, away = rank.next_grow(blocks), rank.table.offloaded()
        more = [offload.unit for offload in plan.offloads]
        if learned and any(offload.copy for offload in plan.offloads):
            rank.copy_ahead(COPY_AHEAD)  # so that the move itself is a remap, and waits for no copy
        self._vamp_maybe_save()
        return Outlook(
            blocks=plan.capacity - rank.table.capacity(),
            handles=2 * (len(plan.offloads) + len(plan.lends)),
            copied=sum(rank.table.units[offload.unit].bytes for offload in plan.offloads if offload.copy),
            decode_now=float(decode[away].sum()),
            decode_after=float(decode[away].sum() + decode[more].sum()),
            prefill_now=float(prefill[away].sum()),
            prefill_after=float(prefill[away].sum() + prefill[more].sum()),
            learned=learned or self._vamp_share is not None,
            away=rank.table.offloaded_bytes(),
            flat=self._vamp_reads.busy_share(heat.picks[-1].sum(axis=0), 0.25) if learned else 0.0,
            swaps=len(swap(rank.table, rank.scores, rank.limits, SWAP_GAIN).restores) if learned and away else 0,
        )

    def vamp_prepare(self, epoch: int, order: Order) -> Answer:
        return self._rank().prepare(epoch, order)

    def vamp_commit(self, epoch: int, order: Order) -> Answer:  # noqa: ARG002 - all three are called alike
        return self._rank().commit(epoch)

    def vamp_rollback(self, epoch: int, order: Order) -> Answer:  # noqa: ARG002
        return self._rank().rollback(epoch)

    def vamp_save(self) -> None:
        """Write the profile, where one was asked for and anything was learned."""
        path = self._vamp_config.profile if self._vamp is not None else None
        if path is not None and self.rank == 0 and self._vamp_counter.hotness.learned():
            with contextlib.suppress(OSError):
                hotness.save(path, self.model_config.model, self._vamp_order, self._vamp_counter.hotness)

    def _vamp_maybe_save(self) -> None:
        if time.monotonic() - self._vamp_saved > SAVE_EVERY:
            self._vamp_saved = time.monotonic()
            self.vamp_save()

    def _rank(self) -> Rank:
        assert self._vamp is not None
        return self._vamp


def view(address: int, size: int, device: torch.device) -> torch.Tensor:
    """Bytes of device memory at an address, as a tensor that does not own them."""

    class Raw:
        def __init__(self) -> None:
            shape: dict[str, Any] = {"shape": (size,), "typestr": "|u1", "strides": None, "version": 3}
            self.__cuda_array_interface__ = {"data": (address, False), **shape}

    return torch.as_tensor(Raw(), device=device)
