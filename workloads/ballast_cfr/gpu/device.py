"""The CUDA driver, as far as the engine needs it: memory, modules, launches, times. Every return code is checked."""

import ctypes
import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.errors import DeviceError

KERNELS = Path(__file__).parent / "kernels"


def _libraries() -> tuple[Any, Any]:
    """The driver's and the compiler's bindings."""
    try:
        from cuda.bindings import driver, nvrtc
    except ImportError as error:
        raise DeviceError(
            f"device cuda needs the package cuda-bindings, which is not installed ({error}); "
            "install ballast[cfr-gpu] or choose --device cpu"
        ) from error
    return driver, nvrtc


def _ask(result: tuple[Any, ...], what: str) -> Any:
    """What a driver call returned, if it went well."""
    code, *values = result
    if int(code):
        raise DeviceError(f"device cuda: {what} failed with {getattr(code, 'name', code)}")
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class Device:
    """One GPU, with its primary context current. largest_cluster: blocks in a cluster, non-portable sizes included."""

    name: str
    ordinal: int
    multiprocessors: int
    capability: tuple[int, int]
    shared_bytes: int
    l2_bytes: int
    memory_bytes: int
    driver_version: int
    largest_cluster: int
    context: Any = field(repr=False, compare=False)

    def use(self) -> None:
        """Make it the one that this thread's calls go to."""
        if _now.device is not self:
            driver, _ = _libraries()
            _ask(driver.cuCtxSetCurrent(self.context), "cuCtxSetCurrent")
            _now.device = self


class _Now(threading.local):
    device: Device | None = None


_now = _Now()


def count() -> int:
    """How many GPUs this process sees. Raises DeviceError, saying what is missing, if it cannot see any."""
    driver, _ = _libraries()
    try:
        _ask(driver.cuInit(0), "cuInit")
    except RuntimeError as error:  # the bindings could not load the driver's library
        raise DeviceError(f"device cuda: no NVIDIA driver is on this machine ({error}); choose --device cpu") from error
    return int(_ask(driver.cuDeviceGetCount(), "cuDeviceGetCount"))


@cache
def device(ordinal: int = 0) -> Device:
    """One GPU of this process. Raises DeviceError, saying what is missing, if it is not there."""
    if count() <= ordinal:
        raise DeviceError(f"device cuda: the driver sees no GPU number {ordinal}; choose --device cpu")
    driver, _ = _libraries()
    handle = _ask(driver.cuDeviceGet(ordinal), "cuDeviceGet")
    context = _ask(driver.cuDevicePrimaryCtxRetain(handle), "cuDevicePrimaryCtxRetain")

    def attribute(name: str) -> int:
        key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_ask(driver.cuDeviceGetAttribute(key, handle), name))

    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    return Device(
        name=_ask(driver.cuDeviceGetName(64, handle), "cuDeviceGetName").split(b"\0")[0].decode(),
        ordinal=ordinal,
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        capability=(major, minor),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        memory_bytes=int(_ask(driver.cuDeviceTotalMem(handle), "cuDeviceTotalMem")),
        driver_version=int(_ask(driver.cuDriverGetVersion(), "cuDriverGetVersion")),
        largest_cluster=16 if major >= 9 else 1,
        context=context,
    )


def current() -> Device:
    """The GPU that this thread's calls go to: the one used last, or the first."""
    if _now.device is None:
        device().use()
    assert _now.device is not None
    return _now.device


class Buffer:
    """Memory of the current GPU, freed with its owner."""

    def __init__(self, size: int) -> None:
        self.size = max(int(size), 16)
        self.device = current()
        self.driver, _ = _libraries()
        self.pointer = int(_ask(self.driver.cuMemAlloc(self.size), f"allocating {self.size} bytes"))

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self.driver.cuMemFree(self.pointer)

    def write(self, array: NDArray[Any], offset: int = 0) -> None:
        """Copy an array here."""
        array = np.ascontiguousarray(array)
        if offset + array.nbytes > self.size:
            raise ValueError(f"{array.nbytes} bytes at {offset} do not fit a buffer of {self.size}")
        self.device.use()
        if array.nbytes:
            _ask(self.driver.cuMemcpyHtoD(self.pointer + offset, array.ctypes.data, array.nbytes), "copying to the GPU")

    def read(self, dtype: Any, count: int, offset: int = 0) -> NDArray[Any]:
        """A copy of what is here."""
        array = np.empty(count, dtype=dtype)
        self.device.use()
        if array.nbytes:
            _ask(
                self.driver.cuMemcpyDtoH(array.ctypes.data, self.pointer + offset, array.nbytes), "copying from the GPU"
            )
        return array

    def fill(self, byte: int) -> None:
        """Set every byte."""
        self.device.use()
        _ask(self.driver.cuMemsetD8(self.pointer, byte, self.size), "filling memory")


class Pinned:
    """Memory of this machine that a GPU copies from without a detour, as an array of bytes; freed with its owner."""

    def __init__(self, size: int) -> None:
        current()
        self.driver, _ = _libraries()
        self.pointer = int(
            _ask(self.driver.cuMemHostAlloc(max(size, 16), 0), f"allocating {size} bytes of host memory")
        )
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.pointer))

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self.driver.cuMemFreeHost(self.pointer)


def buffer(array: NDArray[Any]) -> Buffer:
    """A buffer with an array's content."""
    made = Buffer(array.nbytes)
    made.write(array)
    return made


def compile_source(source: str, macros: Mapping[str, Any], architecture: str) -> bytes:
    """Machine code, from the user's cache if it is there. No fused multiply-add: sums must round as on the CPU."""
    _, nvrtc = _libraries()
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "--fmad=false"]
    options += [f"-D{name}={value}" for name, value in macros.items()]
    key = hashlib.sha256(repr((source, options)).encode()).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cached = Path(home) / "ballast" / "cuda" / f"{key}.cubin"
    if cached.exists():
        return cached.read_bytes()
    program = _ask(nvrtc.nvrtcCreateProgram(source.encode(), b"ballast.cu", 0, [], []), "nvrtcCreateProgram")
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(code):
        log = b" " * _ask(nvrtc.nvrtcGetProgramLogSize(program), "nvrtcGetProgramLogSize")
        _ask(nvrtc.nvrtcGetProgramLog(program, log), "nvrtcGetProgramLog")
        raise DeviceError(f"device cuda: the kernel does not compile: {log.decode(errors='replace').strip()}")
    binary = b" " * _ask(nvrtc.nvrtcGetCUBINSize(program), "nvrtcGetCUBINSize")
    _ask(nvrtc.nvrtcGetCUBIN(program, binary), "nvrtcGetCUBIN")
    _ask(nvrtc.nvrtcDestroyProgram(program), "nvrtcDestroyProgram")
    keep(cached, binary)
    return bytes(binary)


def keep(path: Path, content: bytes) -> None:
    """Put a file into the cache, whole or not at all; a cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        return


class Kernel:
    """A kernel of a compiled source, ready to launch."""

    def __init__(self, binary: bytes, name: str, shared: int = 0) -> None:
        self.driver, _ = _libraries()
        self.device = current()
        self.binary = binary
        self.module = _ask(self.driver.cuModuleLoadData(binary), "loading the kernel")
        self.function = _ask(self.driver.cuModuleGetFunction(self.module, name.encode()), f"finding {name}")
        self.shared = shared
        attribute = self.driver.CUfunction_attribute
        if shared > 48 * 1024:
            self.set(attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)

    def set(self, attribute: Any, value: int) -> None:
        _ask(self.driver.cuFuncSetAttribute(self.function, attribute, value), f"setting {attribute.name}")

    def get(self, name: str) -> int:
        key = getattr(self.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(_ask(self.driver.cuFuncGetAttribute(key, self.function), name))

    def blocks_per_multiprocessor(self, threads: int) -> int:
        """How many blocks of this many threads are resident at once."""
        ask = self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(_ask(ask(self.function, threads, self.shared), "asking for the occupancy"))

    def launch(
        self,
        blocks: int,
        threads: int,
        *arguments: NDArray[Any],
        cluster: int = 0,
        cooperative: bool = False,
        stream: Any = 0,
    ) -> None:
        """Start it. Arguments are arrays of the bytes that the kernel takes by value."""
        driver = self.driver
        self.device.use()
        addresses = np.array([argument.ctypes.data for argument in arguments], dtype=np.uint64)
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = self.shared
        config.hStream = stream
        wanted = []
        if cluster:
            one = driver.CUlaunchAttribute()
            one.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z = cluster, 1, 1
            wanted.append(one)
            if cluster > 8:
                self.set(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        if cooperative:
            one = driver.CUlaunchAttribute()
            one.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            one.value.cooperative = 1
            wanted.append(one)
        config.attrs = wanted
        config.numAttrs = len(wanted)
        _ask(driver.cuLaunchKernelEx(config, self.function, addresses.ctypes.data, 0), "launching the kernel")


def synchronize(device: Device) -> None:
    """Wait until a GPU has done all it was given; raises DeviceError if anything in it failed."""
    driver, _ = _libraries()
    device.use()
    _ask(driver.cuCtxSynchronize(), "the kernel")


class Stopwatch:
    """Time on the GPU between two points."""

    def __init__(self) -> None:
        self.driver, _ = _libraries()
        self.device = current()
        self.start = _ask(self.driver.cuEventCreate(0), "cuEventCreate")
        self.stop = _ask(self.driver.cuEventCreate(0), "cuEventCreate")

    def __enter__(self) -> "Stopwatch":
        self.device.use()
        _ask(self.driver.cuEventRecord(self.start, 0), "cuEventRecord")
        return self

    def __exit__(self, *_: object) -> None:
        self.device.use()
        _ask(self.driver.cuEventRecord(self.stop, 0), "cuEventRecord")
        _ask(self.driver.cuEventSynchronize(self.stop), "the kernel")

    @property
    def microseconds(self) -> float:
        return 1000.0 * float(_ask(self.driver.cuEventElapsedTime(self.start, self.stop), "cuEventElapsedTime"))
