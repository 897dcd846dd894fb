"""What vLLM's expert kernels cost by the size of the memory handles behind their weights: does fine backing slow reads?

    python -m ballast_vamp handles          16 layers of 512 experts, top 10 (48 GiB), in a CUDA graph, as JSON

`torch` is an allocation of torch's own; `counted` is the same with VAMP's counter of routes in the graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

MIB = 1 << 20
EXPERTS, TOP, HIDDEN, INTERMEDIATE = 512, 10, 2048, 512
ROWS = (2 * INTERMEDIATE * HIDDEN * 2, HIDDEN * INTERMEDIATE * 2)  # bytes of an expert in each tensor, as bfloat16
EXPERTS_A_HANDLE = (1, 8, 64, EXPERTS)
BATCHES = (1, 16, 48)
REPLAYS, ROUNDS = 20, 5


def add_parsers(commands: Any) -> None:
    parser = commands.add_parser("handles", help="expert kernels by the size of memory handles", allow_abbrev=False)
    parser.add_argument("--layers", type=int, default=16)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import torch
    from vllm.config import VllmConfig, set_current_vllm_config

    torch.zeros(1, device="cuda")  # makes the context that handles belong to
    rows = []
    with set_current_vllm_config(VllmConfig()):
        for experts in (None, *EXPERTS_A_HANDLE):
            rows += _backed_by(experts, options.layers)
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, indent=1))
    return 0


def _backed_by(experts: int | None, layers: int) -> list[dict[str, Any]]:
    """Milliseconds of all layers' experts; None: memory of torch's."""
    weights, give_back = _weights(experts, layers)
    name = "torch" if experts is None else "/".join(f"{row * experts // MIB}" for row in ROWS) + " MiB"
    found = []
    for batch in BATCHES:
        for counted in (False, True) if experts is None else (False,):
            found.append({"handles": name, "batch": batch, "counted": counted, "ms": _time(weights, batch, counted)})
    give_back()
    return found


def _weights(experts: int | None, layers: int) -> tuple[list[tuple[Any, Any]], Callable[[], None]]:
    import torch

    from ballast_vamp.vmm import CudaVmm, Where
    from ballast_vamp.worker import view

    vmm, mapped, made = CudaVmm(0, "HOST_NUMA"), [], []
    shapes = ((EXPERTS, 2 * INTERMEDIATE, HIDDEN), (EXPERTS, HIDDEN, INTERMEDIATE))
    for _ in range(layers):
        tensors = []
        for row, shape in zip(ROWS, shapes, strict=True):
            if experts is None:
                tensor = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
            else:
                base, size = vmm.reserve(EXPERTS * row), experts * row
                for start in range(0, EXPERTS * row, size):
                    handle = vmm.create(size, Where.DEVICE)
                    vmm.map(base + start, size, handle)
                    mapped.append((base + start, size, handle))
                tensor = view(base, EXPERTS * row, torch.device("cuda", 0)).view(torch.bfloat16).view(shape)
            tensors.append(tensor.normal_(0, 0.02))
        made.append((tensors[0], tensors[1]))

    def give_back() -> None:
        made.clear()
        vmm.synchronize()
        for address, size, handle in mapped:
            vmm.unmap(address, size)
            vmm.release(handle)
        torch.cuda.empty_cache()

    return made, give_back


def _time(weights: list[tuple[Any, Any]], batch: int, counted: bool) -> float:
    import torch
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    from ballast_vamp.count_kernel import count

    dice = torch.Generator("cuda").manual_seed(batch)
    hidden = torch.randn(batch, HIDDEN, dtype=torch.bfloat16, device="cuda", generator=dice)
    picks = [
        torch.rand(batch, EXPERTS, device="cuda", generator=dice).topk(TOP).indices.to(torch.int32) for _ in weights
    ]
    shares = torch.full((batch, TOP), 1 / TOP, device="cuda")
    slots = torch.arange(EXPERTS, dtype=torch.int32, device="cuda")
    counts = torch.zeros(2, EXPERTS, dtype=torch.int32, device="cuda")
    step = torch.tensor([0, batch], dtype=torch.int32, device="cuda")

    def layers() -> None:
        out = hidden
        for (w13, w2), ids in zip(weights, picks, strict=True):
            if counted:
                count(ids, slots, counts, step)
            out = fused_experts(out, w13, w2, shares, ids)

    layers()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layers()
    seconds = []
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - started) / REPLAYS)
    return round(1e3 * statistics.median(seconds[1:]), 3)
