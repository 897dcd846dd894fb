"""The kernel of `experts.Counter`: one launch for a layer, inside captured graphs. Needs Triton, so a GPU."""

from __future__ import annotations

from typing import Any

from vllm.triton_utils import tl, triton

BLOCK = 256


@triton.jit(do_not_specialize=["size"])  # type: ignore[untyped-decorator]
def _count(ids, slots, counts, step, phase_stride, size, picks: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rewrite ids to slots, and count those of real tokens. step: phase, tokens. Ids below 0 are nobody's."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    expert = tl.load(ids + at, mask=at < size, other=-1)
    there = (at < size) & (expert >= 0)
    slot = tl.load(slots + expert, mask=there, other=0)
    tl.store(ids + at, slot.to(ids.dtype.element_ty), mask=there)
    real = there & (at < tl.load(step + 1) * picks)
    tl.atomic_add(counts + tl.load(step) * phase_stride + slot, 1, mask=real, sem="relaxed")


def count(ids: Any, slots: Any, counts: Any, step: Any) -> None:
    """ids: (tokens, picks), contiguous. slots: (experts,). counts: (phases, experts). step: (2,)."""
    size = ids.numel()
    if size:
        grid = (triton.cdiv(size, BLOCK),)
        _count[grid](ids, slots, counts, step, counts.stride(0), size, picks=ids.shape[-1], block=BLOCK)
