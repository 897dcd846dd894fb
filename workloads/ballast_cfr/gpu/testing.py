"""A GPU that is not there: the engine's own kernels, compiled for a CPU, behind the names of `device.py`.

Slow, and for tests only. What it shows without a GPU: layout, kernels and sums give the bits of the CPU's engine. What
it cannot show: the barriers themselves, what caches do, and how fast it is.
"""

import ctypes
import hashlib
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.gpu import batch, choose, device, payoffs, state, work
from ballast_cfr.gpu.shape import Shape

_HOST = Path(__file__).parent / "testing_kernels"
_OPTIONS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")

Put = Callable[[Any, str, Any], None]  # pytest's MonkeyPatch.setattr


def missing() -> str | None:
    """Why it cannot be used here, if it cannot."""
    if platform.machine() != "x86_64":
        return f"the kernels run on the CPU of x86-64 machines only, not of {platform.machine()}"
    return None if shutil.which("g++") else "g++ is not installed"


class Host(device.Device):
    """One of the GPUs that are not there."""

    def use(self) -> None:
        return


class Memory:
    """Memory of this machine for a GPU's, and for what is copied to it."""

    def __init__(self, size: int) -> None:
        self.size = max(int(size), 16)
        whole = np.full(self.size + 16, 0xFF, dtype=np.uint8)
        start = -whole.ctypes.data % 16
        self.bytes = whole[start : start + self.size]
        self.pointer = self.bytes.ctypes.data

    def write(self, array: NDArray[Any], offset: int = 0) -> None:
        array = np.ascontiguousarray(array)
        if offset + array.nbytes > self.size:
            raise ValueError(f"{array.nbytes} bytes at {offset} do not fit a buffer of {self.size}")
        self.bytes[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, dtype: Any, count: int, offset: int = 0) -> NDArray[Any]:
        found: NDArray[Any] = self.bytes[offset : offset + count * np.dtype(dtype).itemsize].view(dtype)
        return found.copy()

    def fill(self, byte: int) -> None:
        self.bytes[:] = byte


class Kernel:
    """A compiled kernel; blocks run one fiber at a time."""

    launches = 0

    def __init__(self, binary: bytes, name: str, shared: int = 0) -> None:
        self.library = ctypes.CDLL(binary.decode())

    def blocks_per_multiprocessor(self, threads: int) -> int:
        return 1

    def launch(
        self, blocks: int, threads: int, argument: NDArray[Any], cluster: int = 0, cooperative: bool = False
    ) -> None:
        Kernel.launches += 1
        place = ctypes.c_void_p(argument.ctypes.data)
        if self.library.launch(place, argument.nbytes, blocks, threads, Kernel.launches):
            raise ValueError(f"the kernel's argument has another size than {argument.nbytes} bytes")


class Stopwatch:
    """Time on this machine."""

    def __enter__(self) -> "Stopwatch":
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.microseconds = 1e6 * (time.perf_counter() - self.started)


def _host_text(source: str) -> str:
    """The kernels' text with what only a GPU has put otherwise: barriers, addresses of shared memory."""
    changes = [
        (re.escape((device.KERNELS / "barrier.cu").read_text()), (_HOST / "barrier.h").read_text()),
        (r'asm volatile\("mov\.u32 %0, %1;" : "=r"\(to\.at\) : "r"\(\(u32\)(.*?)\)\);', r"to.at = (u32)\1;"),
        (r'asm volatile\("mapa.*?;\n', "there = map_to_block(here, rank);\n"),
        (r"extern __shared__.*\n", ""),
        (
            r"__shared__ u32 descriptor\[2\]\[DESCRIPTOR\];",
            "u32 (*descriptor)[DESCRIPTOR] = (u32 (*)[DESCRIPTOR])(memory + (SHARED_BYTES + 63) / 64 * 64);",
        ),
    ]
    for pattern, instead in changes:
        source, times = re.subn(pattern, lambda found, text=instead: found.expand(text), source)  # type: ignore[misc]
        if times != 1:
            raise ValueError(f"the kernels have {times} times what only a GPU has: {pattern[:60]}")
    return source


def compiler(folder: Path) -> Callable[[str, Mapping[str, Any], str], bytes]:
    """Stands in for `compile_source`; keeps what it compiles in a folder."""

    def compile_source(source: str, macros: Mapping[str, Any], architecture: str) -> bytes:
        defined = [f"#define {name} {value}" for name, value in macros.items()]
        launch, host = (_HOST / "launch.h").read_text(), (_HOST / "host.h").read_text()
        text = "\n".join([host, *defined, _host_text(source), launch])
        made = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.so"
        if not made.exists():
            subprocess.run(["g++", *_OPTIONS, "-x", "c++", "-", "-o", made], input=text, text=True, check=True)
        return str(made).encode()

    return compile_source


def install(put: Put, folder: Path, gpus: int = 1) -> None:
    """Let the engine find GPUs that are not there. folder: where compiled kernels are kept."""
    hosts = [Host("host", number, 132, (9, 0), 232448, 1, 1 << 40, 0, 16, None) for number in range(gpus)]

    def one(ordinal: int = 0) -> device.Device:
        return hosts[ordinal]

    stands_in: dict[str, Any] = {
        "device": one, "count": lambda: gpus, "current": one, "Buffer": Memory, "Pinned": Memory, "Kernel": Kernel,
        "Stopwatch": Stopwatch, "compile_source": compiler(folder), "synchronize": lambda _: None, "buffer": buffer,
    }  # fmt: skip
    for module in (device, payoffs, state, work, batch):
        for name, instead in stands_in.items():
            if hasattr(module, name):
                put(module, name, instead)
    put(batch, "SHAPE", Shape("one", 1, 64, sets=True))
    put(choose, "best_shape", best_shape)


def best_shape(program: Any, alternating: bool = True, mixed: bool = False) -> Shape:
    """A small one, as nothing can be measured here."""
    return Shape("cluster", 3, 32, push=True, mixed=mixed)


def buffer(array: NDArray[Any]) -> Memory:
    made = Memory(array.nbytes)
    made.write(array)
    return made
