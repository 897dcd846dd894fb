"""A model's expert layers as VAMP sees them: slots that hold experts, and counts of the tokens routed to each slot.

Experts may lie in another order than the model's own, coldest last (`order`: the logical expert in each slot). The
router's ids are rewritten to slots where they are counted, behind vLLM's own hook for recording routes, so results are
exactly those of the model's order, with any router. The hook runs in captured CUDA graphs: fixed buffers, one kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ballast_vamp.geometry import Layer
from ballast_vamp.hotness import Hotness, Phase
from ballast_vamp.reasons import Disabled, Reason

WEIGHTS = ("w13_weight", "w2_weight")
READ_EVERY = 0.5  # seconds between reads of the counts


def layer_of(runner: Any) -> Layer:
    """The shape of a layer's weights on this rank. Raises Disabled where experts are not rows of two plain tensors."""
    experts = runner.routed_experts
    rows = []
    for name in WEIGHTS:
        weight = getattr(experts, name, None)
        if weight is None or weight.dim() < 2 or not weight.is_contiguous():
            raise Disabled(Reason.UNSUPPORTED_BACKEND, f"{runner.layer_name} has no plain tensor {name}")
        if weight.shape[0] != experts.local_num_experts:
            raise Disabled(
                Reason.UNSUPPORTED_BACKEND,
                f"{runner.layer_name}.{name} has {weight.shape[0]} rows for {experts.local_num_experts} experts",
            )
        rows.append(weight[0].numel() * weight.element_size())
    return Layer(experts.local_num_experts, tuple(rows))


def coldest_last(share: NDArray[np.float64] | None, layers: int, experts: int) -> NDArray[np.int64]:
    """Order of slots, (layers, experts), from a profile's shares; the model's own where there is none."""
    if share is None:
        return np.tile(np.arange(experts, dtype=np.int64), (layers, 1))
    return np.argsort(-share, axis=1, kind="stable").astype(np.int64)


def reorder(runner: Any, order: NDArray[np.int64], but: Sequence[str] = ()) -> None:
    """Put every tensor of a layer that has a row for each expert into the order of its slots, in place."""
    experts, index = runner.routed_experts, torch.from_numpy(order)
    for name, parameter in experts.named_parameters(recurse=False):
        if name not in but and parameter.dim() and parameter.shape[0] == len(order):
            parameter.data.copy_(parameter.data[index.to(parameter.device)])


class Counter:
    """Counts of routed tokens by slot: (phases, layers, experts), on the device, never reset."""

    def __init__(self, order: NDArray[np.int64], device: torch.device) -> None:
        layers, experts = order.shape
        self.hotness = Hotness(layers, experts)
        slots = np.empty_like(order)
        np.put_along_axis(slots, order, np.broadcast_to(np.arange(experts), order.shape), axis=1)
        self.slots = torch.from_numpy(slots).to(device=device, dtype=torch.int32)
        self.moved = bool((order != np.arange(experts)).any())
        self.counts = torch.zeros(len(Phase), layers, experts, dtype=torch.int32, device=device)
        self.step = torch.zeros(2, dtype=torch.int32, device=device)  # phase, and tokens that are not padding
        self._host = torch.zeros_like(self.counts, device="cpu", pin_memory=device.type == "cuda")
        self._last = np.zeros(tuple(self.counts.shape), dtype=np.int64)
        self._told: tuple[Phase, int] | None = None
        self._tokens, self._seen = [0, 0], [0, 0]
        self._read_at = time.monotonic()
        self._reading: tuple[Any, float, list[int]] | None = None  # of a copy: its end, seconds counted, tokens
        self._kernel = _kernel() if device.type == "cuda" else None

    def attach(self, layer: int, runner: Any) -> None:
        """Hook into a layer's router; a hook that is there already still sees the model's own ids, first."""
        runner.router.set_capture_fn(self._hook(layer, runner.router.capture_fn))

    def _hook(self, layer: int, before: Callable[[Any], None] | None) -> Callable[[Any], None]:
        def capture(ids: Any) -> None:
            if before is not None:
                before(ids)
            if self._kernel is None:
                self._count(layer, ids)
                return
            packed = ids.contiguous()
            self._kernel(packed, self.slots[layer], self.counts[:, layer], self.step)
            if packed is not ids:
                ids.copy_(packed)

        return capture

    def _count(self, layer: int, ids: Any) -> None:
        """Without a kernel of our own. ids: (tokens, picks)."""
        if self.moved:
            ids.copy_(torch.where(ids >= 0, self.slots[layer][ids.long().clamp(min=0)], ids))
        phase, tokens = (int(value) for value in self.step)
        routed = ids[:tokens].reshape(-1).long()
        self.counts[phase, layer] += torch.bincount(routed[routed >= 0], minlength=self.counts.shape[2]).int()

    def before_step(self, phase: Phase, tokens: int) -> None:
        """Say what the next step is made of; kernels that were launched before it are not disturbed."""
        if (phase, tokens) != self._told:  # most steps are like the one before; each write is a launch
            self._told = (phase, tokens)
            self.step[0].fill_(int(phase))
            self.step[1].fill_(tokens)
        self._tokens[phase] += tokens
        now = time.monotonic()
        if now - self._read_at >= READ_EVERY:
            self._fold(now)

    def read(self) -> None:
        """Take in all counts there are, waiting for the device: only while nothing is known of the routing yet."""
        if self._tokens == self._seen:
            return
        for _ in range(3):  # what is on its way; a copy of all that was counted; that copy
            self._fold(time.monotonic(), wait=True)

    def _fold(self, now: float, wait: bool = False) -> None:
        """Take in the counts whose copy has arrived, and start the next copy."""
        if self._reading is not None:
            event, at, tokens = self._reading
            if event is not None and wait:
                event.synchronize()
            if event is not None and not event.query():
                return
            counts = self._host.numpy().astype(np.int64)
            new = (counts - self._last) % (1 << 32)
            self.hotness.add(new, [after - before for after, before in zip(tokens, self._seen, strict=True)], at)
            self._last, self._seen = counts, tokens
        self._host.copy_(self.counts, non_blocking=True)
        event = None
        if self.counts.is_cuda:
            event = torch.cuda.Event()
            event.record()
        self._reading = (event, min(now - self._read_at, 2 * READ_EVERY), list(self._tokens))  # without idle times
        self._read_at = now


def _kernel() -> Callable[..., None]:
    from ballast_vamp.count_kernel import count

    return count
