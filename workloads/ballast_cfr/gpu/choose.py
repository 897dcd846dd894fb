"""Which device, and which shape on it: by what each takes for this game on this machine, measured once and kept."""

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError, DeviceError
from ballast_cfr.gpu import batch
from ballast_cfr.gpu import device as gpu
from ballast_cfr.gpu.engine import CudaEngine, build_kernel, lay_out, source
from ballast_cfr.gpu.shape import Shape, candidates

# Below this many slots and entries a CPU thread is done before a GPU has met its own blocks once.
_TOO_SMALL = 1_000
_SECONDS = 0.05


def available() -> bool:
    """Whether this machine has a GPU that the solver can use."""
    try:
        gpu.device()
    except DeviceError:
        return False
    return True


def best_shape(program: Program, alternating: bool = True, mixed: bool = False) -> Shape:
    """The fastest shape for a game. Measured, and kept in the user's cache by game, GPU and kernels."""
    return _fastest(program, alternating, mixed)[0]


def _fastest(program: Program, alternating: bool, mixed: bool) -> tuple[Shape, float]:
    """The fastest shape, and microseconds for an iteration with it."""
    device = gpu.device()
    key = f"{program.game.digest}-{device.name}-{alternating}-{mixed}-{hash_of(source())}"
    path = _folder() / f"shape-{hash_of(key)}.json"
    if path.exists():
        known = json.loads(path.read_text())
        return Shape(**{**known["shape"], "cut": tuple(known["shape"]["cut"])}), float(known["microseconds"])
    if program.matrix is None:
        raise BadInputError(
            f"game {program.game.name} is compiled to the tree form, which runs on the CPU only; choose --device cpu"
        )
    tried: list[tuple[float, Shape]] = []
    for shape in _shapes(program, mixed):
        try:
            tried.append((measure(program, alternating, shape), shape))
        except (BadInputError, DeviceError):  # does not fit this game or this GPU
            continue
    if not tried:
        raise BadInputError(f"game {program.game.name} fits no shape on {device.name}; choose --device cpu")
    microseconds, shape = min(tried, key=lambda one: one[0])
    gpu.keep(path, json.dumps({"shape": asdict(shape), "microseconds": microseconds}).encode())
    return shape, microseconds


def _shapes(program: Program, mixed: bool) -> list[Shape]:
    """The shapes to try for a game on this machine's GPU."""
    assert program.matrix is not None
    device = gpu.device()
    slots, entries = sum(plex.slots for plex in program.plex), 2 * len(program.matrix[0].value)
    return candidates(slots, entries, device.multiprocessors, device.largest_cluster, mixed)


def compile_all(program: Program, mixed: bool = False) -> int:
    """Compile the kernels of all shapes that would be tried into the user's cache; returns how many fit the game."""
    count = 0
    for shape in _shapes(program, mixed):
        with suppress(BadInputError):  # does not fit this game
            build_kernel(lay_out(program, shape), shape, True, gpu.device())
            count += 1
    return count


def measure(program: Program, alternating: bool, shape: Shape) -> float:
    """Microseconds for an iteration with a shape, the least of three launches."""
    engine = CudaEngine(program, 0.0, alternating, 64, shape)
    tables = (np.ones(100), np.ones(100), np.zeros(100))
    times = []
    for _ in range(3):
        engine.prepare(tables)
        with engine.seconds:
            engine.start()
        engine.finish()
        times.append(engine.seconds.microseconds / 100)
    return min(times)


def cpu_microseconds(program: Program, mixed: bool = False) -> float:
    """Microseconds for an iteration on one CPU thread, the least of a few blocks."""
    from ballast_cfr.solve.engine import Engine

    engine = Engine(program, 0.0, True, 64, mixed)
    one = (np.ones(1), np.ones(1), np.zeros(1))
    engine.run(one)
    started, best, count = time.perf_counter(), np.inf, 1
    while time.perf_counter() - started < _SECONDS:
        begun = time.perf_counter()
        engine.run((np.ones(count), np.ones(count), np.zeros(count)))
        took = time.perf_counter() - begun
        best = min(best, took / count)
        count = max(1, min(1000, int(_SECONDS / 5 / best)))
    return best * 1e6


def pick(program: Program, alternating: bool = True, mixed: bool = False) -> Shape | None:
    """The fastest shape, or None where the CPU is faster or there is no GPU to use."""
    if program.matrix is None:
        return None
    if sum(plex.slots for plex in program.plex) + 2 * len(program.matrix[0].value) < _TOO_SMALL or not available():
        return None
    try:
        shape, microseconds = _fastest(program, alternating, mixed)
    except BadInputError:
        return None
    return shape if microseconds < cpu_microseconds(program, mixed) else None


def batch_is_faster(program: Program, size: int, alternating: bool = True) -> bool:
    """Whether the GPUs do so many solves at once sooner than a CPU thread does them one after another."""
    if program.matrix is None or not available():
        return False
    try:
        microseconds = measure(program, alternating, batch.SHAPE)
    except BadInputError:
        return False
    # two blocks of this shape share a multiprocessor
    rounds = -(-size // (2 * gpu.device().multiprocessors * gpu.count()))
    return rounds * microseconds < size * cpu_microseconds(program)


def hash_of(text: str) -> str:
    """A short name for a text."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _folder() -> Path:
    home: Any = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ballast" / "cuda"
