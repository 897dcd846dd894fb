"""What this machine's driver and its way to host memory can do: run before an engine starts, and by hand.

    python -m ballast_vamp probe --device 0            attributes, cost of a remap by handle size, speeds, as JSON
    python -m ballast_vamp probe --device 0 --quick    only whether host memory can be mapped, and from which kind

It is a process of its own because some drivers end the process that asks them for host memory.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from ballast_vamp.vmm import CudaVmm, VmmError, Where

KINDS = ("HOST_NUMA", "HOST")
HANDLE_MIB = (2, 4, 16, 64, 256)
TOTAL = 512 << 20
ATTRIBUTES = {
    "vmm": "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "host_numa_vmm": "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "host_vmm": "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
    "numa_node": "HOST_NUMA_ID",
}


def add_parsers(commands: Any) -> None:
    parser = commands.add_parser("probe", help="virtual memory and host link of a GPU, as JSON", allow_abbrev=False)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="only what an engine must know to start")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(json.dumps(probe(options.device, options.quick), indent=None if options.quick else 1))
    return 0


def probe(device: int, quick: bool) -> dict[str, Any]:
    """Facts about a GPU. `host`: the kind of host memory that can be mapped, None with `error` where there is none."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return {"host": None, "error": "cuda-bindings is not installed"}
    try:
        found = _attributes(driver, device)
        _make_current(driver, device)
        for kind in KINDS:
            try:
                vmm = CudaVmm(device, kind, found["numa_node"])
                _map_once(vmm)
            except VmmError as error:
                found["error"] = str(error)
                continue
            found.pop("error", None)
            found |= {"host": kind, "granularity": vmm.granularity}
            return found if quick else found | _measure(vmm)
    except VmmError as error:
        return {"host": None, "error": str(error)}
    return found | {"host": None}


def _ask(driver: Any, name: str, *arguments: Any) -> Any:
    answer, *values = getattr(driver, name)(*arguments)
    if answer != driver.CUresult.CUDA_SUCCESS:
        raise VmmError(name, str(getattr(answer, "name", answer)), memory=False)
    return values[0] if values else None


def _attributes(driver: Any, device: int) -> dict[str, Any]:
    _ask(driver, "cuInit", 0)
    gpu = _ask(driver, "cuDeviceGet", device)
    names = {
        key: int(
            _ask(driver, "cuDeviceGetAttribute", getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), gpu)
        )
        for key, name in ATTRIBUTES.items()
    }
    name = _ask(driver, "cuDeviceGetName", 128, gpu)
    names["numa_node"] = max(0, names["numa_node"])  # -1 where the machine hides its nodes
    return {"device": name.split(b"\0")[0].decode(), "driver": int(_ask(driver, "cuDriverGetVersion")), **names}


def _make_current(driver: Any, device: int) -> None:
    gpu = _ask(driver, "cuDeviceGet", device)
    _ask(driver, "cuCtxSetCurrent", _ask(driver, "cuDevicePrimaryCtxRetain", gpu))


def _map_once(vmm: CudaVmm) -> None:
    """Map host memory, write it from the device, and copy it to device memory."""
    size = vmm.granularity
    host, device = vmm.reserve(size), vmm.reserve(size)
    vmm.map(host, size, vmm.create(size, Where.HOST))
    vmm.map(device, size, vmm.create(size, Where.DEVICE))
    vmm.zero(host, size)
    vmm.copy(device, host, size)
    vmm.synchronize()


def _timed(vmm: CudaVmm, work: Callable[[], object]) -> float:
    vmm.synchronize()
    started = time.perf_counter()
    work()
    vmm.synchronize()
    return time.perf_counter() - started


def _measure(vmm: CudaVmm) -> dict[str, Any]:
    """Microseconds a handle for each call, by its kind and size, over 512 MiB; and bytes a second of copies."""
    remaps = [_remap(vmm, mib, where) for where in Where for mib in HANDLE_MIB]
    return {"remap": remaps, **_speeds(vmm)}


def _remap(vmm: CudaVmm, mib: int, where: Where) -> dict[str, Any]:
    size = mib << 20
    count = TOTAL // size
    address = vmm.reserve(TOTAL)
    places = [address + n * size for n in range(count)]
    handles: list[Any] = []
    create = _timed(vmm, lambda: handles.extend(vmm.create(size, where) for _ in range(count)))
    mapped = _timed(vmm, lambda: _all(vmm.map, places, size, handles))
    unmapped = _timed(vmm, lambda: _all(vmm.unmap, places, size))
    for handle in handles:
        vmm.release(handle)
    seconds = {"create_us": create, "map_us": mapped, "unmap_us": unmapped, "remap_us": mapped + unmapped}
    return {
        "memory": where,
        "handle_mib": mib,
        **{name: round(1e6 * value / count, 1) for name, value in seconds.items()},
    }


def _all(call: Callable[..., None], places: list[int], size: int, *handles: list[Any]) -> None:
    for n, place in enumerate(places):
        call(place, size, *(handle[n] for handle in handles))


def _speeds(vmm: CudaVmm) -> dict[str, float]:
    size = 256 << 20
    host, device = vmm.reserve(size), vmm.reserve(size)
    created = _timed(vmm, lambda: vmm.map(host, size, vmm.create(size, Where.HOST)))
    vmm.map(device, size, vmm.create(size, Where.DEVICE))
    vmm.copy(device, host, size)
    return {
        "create_host_seconds_per_gib": created * (1 << 30) / size,
        "to_device_bytes_per_second": size / _timed(vmm, lambda: vmm.copy(device, host, size)),
        "to_host_bytes_per_second": size / _timed(vmm, lambda: vmm.copy(host, device, size)),
        "zero_bytes_per_second": size / _timed(vmm, lambda: vmm.zero(device, size)),
    }
