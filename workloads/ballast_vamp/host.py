"""How much memory of the machine a rank may still take."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ballast_vamp.reasons import Disabled, Reason


def available(root: Path = Path("/")) -> int:
    """Bytes that this container can still get: the machine's, or what its own limit (cgroup v2) leaves. Files that were
    read and are kept for another time, as weights just loaded, count as free: the kernel gives them up first."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    machine = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    group = root / "sys/fs/cgroup"
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        told = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        kept = int(told["inactive_file"])
    except (OSError, ValueError, KeyError):
        return machine
    return machine if limit == "max" else min(machine, int(limit) - used + kept)


def require(size: int, root: Path = Path("/")) -> None:
    """Raise Disabled unless so many bytes can be taken and a tenth of what is there is left."""
    have = available(root)
    if size > have * 9 // 10:
        raise Disabled(
            Reason.HOST_MEMORY_TOO_SMALL,
            f"VAMP_HOST_BYTES asks for {size} bytes of host memory on this rank and {have} are available; "
            "lower it, or give the pod more memory",
        )


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """One rank of this server after another looks what is there and takes it: what one finds, others would find too.
    folder: which they share."""
    with (folder / "host.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
