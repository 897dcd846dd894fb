"""A rank without a device: every block is really allocated, and pages move in the books only, on a fake device.

Scheduler, plans, the commit over ranks, cost model and metrics are the real ones, in a real vLLM engine.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from ballast_vamp import compat, experts
from ballast_vamp.fake_vmm import ZEROS, FakeVmm
from ballast_vamp.store import Store
from ballast_vamp.vmm import Vmm
from ballast_vamp.worker import VampRank

SPEED = 1e12  # bytes/s: a price without a device means nothing, so that of moving is made so low that it happens


class VampWorker(VampRank, CPUWorker):  # type: ignore[misc]
    """vLLM's worker for CPUs."""

    def _vamp_vmm(self) -> Vmm:
        return FakeVmm()

    def _vamp_house(self, store: Store, order: Any) -> None:
        runners = compat.moe_runners(self.model_runner.get_model())
        for layer, runner in enumerate(runners):
            store.house(layer)
            experts.reorder(runner, order[layer])
            self._vamp_counter.attach(layer, runner)
        vmm = store.vmm
        assert isinstance(vmm, FakeVmm)
        for unit in store.units:
            for tensor, size in enumerate(unit.sizes):
                vmm.write(store.address(unit, tensor), size, ("weights", unit.id, tensor))

    def _vamp_speed(self, store: Store) -> float:  # noqa: ARG002
        return SPEED

    def vamp_check(self) -> dict[str, int]:
        """Raise AssertionError unless the fake memory holds what the table says; for tests in a real engine."""
        rank = self._rank()
        vmm = rank.store.vmm
        assert isinstance(vmm, FakeVmm)
        rank.table.check()
        for unit in rank.table.units:
            for tensor, size in enumerate(unit.sizes):
                assert vmm.read(rank.store.address(unit, tensor), size) == ("weights", unit.id, tensor)
        lent = [address for address, (_, memory) in vmm.mapped.items() if memory.holds == ZEROS]
        return {"handles": len(vmm.alive), "away": len(rank.table.offloaded()), "zeroed": len(lent)}
