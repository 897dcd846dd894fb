"""The limits that a GPU sets to a solve, measured: what a barrier costs in each regime, and how fast memory is."""

from dataclasses import dataclass

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.shape import CLUSTER, GRID, ONE

_REGIME = {ONE: 0, CLUSTER: 1, GRID: 2}
_ONE_BYTES, _CLUSTER_BYTES = 227 << 10, 16 * 227 << 10


@dataclass(frozen=True)
class Limits:
    """barrier: microseconds, by regime. cached, memory: terabytes a second that a copy reads and writes, within the
    second-level cache and beyond it. addition: nanoseconds from one float64 addition to the next that needs it."""

    barrier: dict[str, float]
    cached: float
    memory: float
    addition: float


@dataclass(frozen=True)
class Floor:
    """The least an iteration can take, in microseconds. bytes: moved at least. stages: that wait for one another."""

    bytes: int
    stages: int
    bandwidth: float
    latency: dict[str, float]
    regime: str

    @property
    def microseconds(self) -> float:
        return max(self.bandwidth, self.latency[self.regime])


def measure() -> Limits:
    """Measure on this machine's GPU."""
    device = gpu.device()
    barrier = {
        ONE: _barrier(ONE, 1, 256),
        CLUSTER: _barrier(CLUSTER, min(8, device.largest_cluster), 256),
        GRID: _barrier(GRID, device.multiprocessors, 256),
    }
    return Limits(barrier, _copy(16 << 20, 200), _copy(2 << 30, 3), _addition())


def _text() -> str:
    barrier = (gpu.KERNELS / "barrier.cu").read_text()
    return (gpu.KERNELS / "limits.cu").read_text().replace("// BARRIERS", barrier)


def _kernel(name: str, regime: str = ONE, blocks: int = 1, threads: int = 1024) -> gpu.Kernel:
    macros = {"NB": blocks, "NT": threads, "REGIME": _REGIME[regime]}
    return gpu.Kernel(gpu.compile_source(_text(), macros, "sm_{}{}".format(*gpu.device().capability)), name)


def _barrier(regime: str, blocks: int, threads: int, count: int = 20_000) -> float:
    kernel = _kernel("barriers", regime, blocks, threads)
    counters = gpu.Buffer(512)
    watch = gpu.Stopwatch()
    times = []
    for _ in range(4):
        counters.fill(0)
        arguments = (np.array([counters.pointer], dtype=np.uint64), np.array([count], dtype=np.uint32))
        with watch:
            cluster = blocks if regime == CLUSTER else 0
            kernel.launch(blocks, threads, *arguments, cluster=cluster, cooperative=regime == GRID)
        times.append(watch.microseconds / count)
    return min(times[1:])


def _copy(size: int, times: int) -> float:
    kernel = _kernel("copies")
    source, target = gpu.Buffer(size), gpu.Buffer(size)
    source.fill(0x3F)
    watch = gpu.Stopwatch()
    found = []
    for _ in range(4):
        arguments = (
            np.array([source.pointer], dtype=np.uint64), np.array([target.pointer], dtype=np.uint64),
            np.array([size // 16], dtype=np.uint64), np.array([times], dtype=np.uint32),
        )  # fmt: skip
        with watch:
            kernel.launch(2 * gpu.device().multiprocessors, 1024, *arguments)
        found.append(2 * size * times / watch.microseconds / 1e6)
    return max(found[1:])


def _addition(count: int = 200_000) -> float:
    kernel = _kernel("additions")
    out = gpu.Buffer(256)
    out.fill(0)
    watch = gpu.Stopwatch()
    arguments = (np.array([out.pointer], dtype=np.uint64), np.array([1.0]), np.array([count], dtype=np.uint32))
    for _ in range(2):
        with watch:
            kernel.launch(1, 32, *arguments)
    return watch.microseconds * 1e3 / count


def floor(program: Program, limits: Limits) -> Floor:
    """The floor of one alternating iteration on the sequence form, float64, in the best regime that holds the game."""
    assert program.matrix is not None
    entries = len(program.matrix[0].value)
    slots = sum(plex.slots for plex in program.plex)
    infosets = sum(plex.infosets for plex in program.plex)
    moved = 24 * entries + 72 * slots + 12 * infosets
    stages = 2 + 2 * sum(len(plex.levels()) for plex in program.plex)
    speed = limits.cached if moved <= 24 << 20 else limits.memory
    state = 40 * slots
    regime = ONE if state <= _ONE_BYTES else CLUSTER if state <= _CLUSTER_BYTES else GRID
    latency = {name: stages * barrier for name, barrier in limits.barrier.items()}
    return Floor(moved, stages, moved / speed / 1e6, latency, regime)
