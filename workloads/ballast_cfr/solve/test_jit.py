"""A warm cache in a read-only image is used; a missing or a cold one only costs time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

PROBE = """
import numpy as np
from ballast_cfr.solve import kernels
held = np.zeros(1, np.uint8), np.ones(2, np.uint8)
kernels.average_strategy(np.array([0, 2], np.uint32), np.ones(2), held, np.ones(2))
stats = kernels.average_strategy.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run(cache: Path, source: Path, *, unprivileged: bool = False) -> str:
    command = [sys.executable, "-c", PROBE]
    if unprivileged:
        command = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", *command]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source), "HOME": "/nonexistent"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the package and a cache made from it."""
    root = tmp_path_factory.mktemp("image")
    source = root / "source"
    shutil.copytree(Path(__file__).parents[1], source / "ballast_cfr", ignore=shutil.ignore_patterns("__pycache__"))
    cache = root / "cache"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source)}
    subprocess.run([sys.executable, "-m", "ballast_cfr", "warm"], env=environment, check=True, capture_output=True)
    return source, cache


def test_a_warm_cache_is_used(image: tuple[Path, Path]) -> None:
    source, cache = image
    assert run(cache, source) == "1 0"


def test_layers_that_change_modification_times_do_not_matter(image: tuple[Path, Path]) -> None:
    source, cache = image
    for file in [*source.rglob("*"), *cache.rglob("*")]:
        os.utime(file, (0, 0))
    assert run(cache, source) == "1 0"


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to become another user"
)
def test_another_user_uses_a_cache_that_it_cannot_write(image: tuple[Path, Path]) -> None:
    source, cache = image
    for folder in [cache, *cache.parents]:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    assert run(cache, source, unprivileged=True) == "1 0"


def test_changed_kernels_are_compiled_anew(image: tuple[Path, Path], tmp_path: Path) -> None:
    source, cache = image
    shutil.copytree(source, tmp_path / "source")
    with (tmp_path / "source/ballast_cfr/solve/kernels.py").open("a") as file:
        file.write("# changed\n")
    shutil.copytree(cache, tmp_path / "cache")
    assert run(tmp_path / "cache", tmp_path / "source") == "0 1"


def test_without_a_cache_that_can_be_written_kernels_are_compiled_in_memory(image: tuple[Path, Path]) -> None:
    assert run(Path("/proc/nowhere"), image[0]) == "0 1"


BITS = """
import hashlib
from ballast_cfr import Solver, compile, load
digest = hashlib.sha256()
for variant in ("CFR", "CFRPlus", "DCFR", "PCFRPlus"):
    solver = Solver(compile(load("leduc")), variant)
    solver.step(300)
    for strategy in solver.average():
        digest.update(strategy.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.long
def test_every_model_of_cpu_comes_to_the_same_bits(tmp_path: Path) -> None:
    found = set()
    host = {"NUMBA_CPU_NAME": get_host_cpu_name(), "NUMBA_CPU_FEATURES": get_host_cpu_features().flatten()}
    for number, cpu in enumerate(({}, host, {"NUMBA_OPT": "1"})):
        environment = {**os.environ, **cpu, "NUMBA_CACHE_DIR": str(tmp_path / str(number))}
        done = subprocess.run([sys.executable, "-c", BITS], env=environment, check=True, capture_output=True, text=True)
        found.add(done.stdout)
    assert len(found) == 1
