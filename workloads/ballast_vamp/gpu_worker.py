"""A rank on an NVIDIA GPU: experts and cache in CUDA's virtual memory, remapped on the worker's own thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from vllm.v1.worker.gpu_worker import Worker

from ballast_vamp import compat, experts
from ballast_vamp.journal import Unrecoverable
from ballast_vamp.rank import Answer, Order
from ballast_vamp.reasons import Disabled, Reason
from ballast_vamp.store import Store
from ballast_vamp.vmm import CudaVmm, Vmm, VmmError
from ballast_vamp.worker import DRY_SPEED, VampRank, view

PROBE_SECONDS = 120
MEASURED = 64 << 20  # bytes copied to learn the speed
FATAL = 70  # exit status: mappings could not be brought back, a restart is the only way out


class VampWorker(VampRank, Worker):  # type: ignore[misc]
    """vLLM's worker for GPUs."""

    def _vamp_vmm(self) -> Vmm:
        if self.device.type != "cuda" or torch.version.cuda is None:
            raise Disabled(Reason.NO_CUDA, f"the device is {self.device}; VAMP needs an NVIDIA GPU")
        index = self.device.index or 0
        found = probe(index)
        try:
            return CudaVmm(index, found["host"], found["numa_node"])
        except (ImportError, VmmError) as error:
            raise Disabled(Reason.NO_VMM, f"virtual memory of GPU {index} cannot be used: {error}") from error

    def _vamp_house(self, store: Store, order: Any) -> None:
        """Layer by layer, so that one layer's memory is needed twice and no more."""
        moved = 0
        for layer, runner in enumerate(compat.moe_runners(self.model_runner.get_model())):
            bases = store.house(layer)
            index = torch.from_numpy(order[layer]).to(self.device)
            for name, base in zip(experts.WEIGHTS, bases, strict=True):
                parameter = getattr(runner.routed_experts, name)
                old = parameter.data
                rows = old.view(len(index), -1).view(torch.uint8)  # as bytes: not every type can be indexed
                new = view(base, rows.numel(), self.device)
                torch.index_select(rows, 0, index, out=new.view(rows.shape))
                parameter.data = new.view(old.dtype).view(old.shape)
                moved += rows.numel()
                del old, rows
            experts.reorder(runner, order[layer], but=experts.WEIGHTS)
            self._vamp_counter.attach(layer, runner)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        # vLLM counts memory that torch does not know apart from weights; ours would be counted twice.
        self.model_runner.model_memory_usage = max(0, int(self.model_runner.model_memory_usage) - moved)

    def _vamp_allocation(self, allocations: list[tuple[int, int]]) -> AbstractContextManager[None]:
        left = iter(allocations)

        def make(size: int) -> torch.Tensor:
            base, mine = next(left)
            assert mine == size
            return view(base, size, self.device).view(torch.int8)

        return compat.cache_allocated_by(make, [size for _, size in allocations])

    def _vamp_speed(self, store: Store) -> float:
        """Copies of units into a host pack that holds nothing yet, 64 MiB or so."""
        host = next((pack for pack in self._rank().table.hosts if pack.of is None), None)
        if host is None:
            return DRY_SPEED  # all were written at load time: nothing to measure with
        unit = next(unit for unit in store.units if unit.sizes == host.sizes)
        times = max(1, MEASURED // unit.bytes)
        store.vmm.synchronize()
        started = time.perf_counter()
        for _ in range(times):
            for tensor, size in enumerate(unit.sizes):
                store.vmm.copy(store.windows[host.id][tensor], store.address(unit, tensor), size)
        store.vmm.synchronize()
        return times * unit.bytes / (time.perf_counter() - started)

    def vamp_prepare(self, epoch: int, order: Order) -> Answer:
        with _or_end():
            return super().vamp_prepare(epoch, order)

    def vamp_commit(self, epoch: int, order: Order) -> Answer:
        with _or_end():
            return super().vamp_commit(epoch, order)

    def vamp_rollback(self, epoch: int, order: Order) -> Answer:
        with _or_end():
            return super().vamp_rollback(epoch, order)

    def vamp_forget_copies(self) -> None:
        with _or_end():
            super().vamp_forget_copies()


@contextmanager
def _or_end() -> Iterator[None]:
    """End the process where mappings cannot be brought back: kernels would read addresses without memory."""
    try:
        yield
    except Unrecoverable as error:
        print(f"VAMP: {error}; the process ends so that it can be started anew", file=sys.stderr, flush=True)
        os._exit(FATAL)  # nobody may catch this and serve on


def probe(device: int) -> dict[str, Any]:
    """What the driver can do, asked in a process of its own: some drivers end the process that asks for host memory."""
    command = [sys.executable, "-m", "ballast_vamp", "probe", "--device", str(device), "--quick"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Disabled(Reason.NO_VMM, f"the probe of GPU {device} gave no answer: {error}") from error
    if found.get("host") is None:
        raise Disabled(Reason.NO_VMM, f"GPU {device} cannot map host memory: {found.get('error', 'not supported')}")
    return found
