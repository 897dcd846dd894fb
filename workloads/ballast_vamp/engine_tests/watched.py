"""vLLM's offload of KV to host memory, for an engine on the CPU: its own scheduler half, and a worker half that copies
for real and looks at what each copy reads: a block without memory, or one that holds experts by now, is a defect.

`engines.COPIED` is how an engine is started with it.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from ballast_vamp.fake_vmm import FakeVmm
from ballast_vamp.rank import Rank

stored: list[int] = []  # blocks that were copied, in order
wrong: list[str] = []  # what a copy should not have read
_rank: Rank | None = None


def watch(rank: Rank) -> None:
    """Look at copies from this rank's blocks from now on."""
    global _rank
    _rank = rank
    stored.clear()
    wrong.clear()


class Watched(CPUOffloadingSpec):  # type: ignore[misc]
    """vLLM's own books of what is where; copies are made here."""

    def get_worker(self, kv_caches: Any) -> Any:
        return Copies([each.tensor for each in kv_caches.tensors])


class Copies(OffloadingWorker):  # type: ignore[misc]
    """A chunk is one block. Each copy is made when it is submitted, and told to have ended when somebody asks."""

    def __init__(self, tensors: list[Any]) -> None:
        self._tensors = tensors
        self._kept: dict[int, list[Any]] = {}
        self._ended: list[TransferResult] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        for block, chunk in zip(src_spec.block_ids, dst_spec.block_ids, strict=True):
            stored.append(int(block))
            if _rank is not None and (fault := _fault(_rank, int(block))):
                wrong.append(fault)
            self._kept[int(chunk)] = [tensor[block].clone() for tensor in self._tensors]
        self._ended.append(TransferResult(job_id, success=True))
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        for chunk, block in zip(src_spec.block_ids, dst_spec.block_ids, strict=True):
            for tensor, kept in zip(self._tensors, self._kept[int(chunk)], strict=True):
                tensor[block] = kept
        self._ended.append(TransferResult(job_id, success=True))
        return True

    def get_finished(self) -> list[TransferResult]:
        ended, self._ended = self._ended, []
        return ended

    def wait(self, job_ids: set[int]) -> None:
        """Every copy has been made by now."""


def _fault(rank: Rank, block: int) -> str:
    """What is wrong with reading a block now; nothing if it holds cache."""
    vmm = rank.store.vmm
    assert isinstance(vmm, FakeVmm)
    for region, base in zip(rank.table.regions, rank.moves.regions, strict=True):
        address = base + block * region.block_bytes
        behind = [memory for start, (size, memory) in vmm.mapped.items() if start <= address < start + size]
        if not behind:
            return f"block {block} has no memory"
        if isinstance(behind[0].holds, tuple):
            return f"block {block} holds {behind[0].holds}"
    return ""
