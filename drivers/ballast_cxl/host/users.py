"""Which processes still have a device open or mapped, whatever path it had in their own mount namespace.

The API may say that a pod is gone while its container still runs (a forced deletion, a kubelet that was cut off), so
before a device is taken down the processes themselves are asked. A file is known by its inode, a device by its numbers:
a container's `/dev/ballast/kv` is another inode than the host's `/dev/dax0.0`, but the same device.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

Identity = tuple[str, int, int]


class Hidden(Exception):
    """A process does not let us look into it, so nobody knows what it uses."""


def users(path: Path, proc: Path = Path("/proc"), *, hidden: bool = False) -> list[int]:
    """Process ids, in order, other than our own. Needs the host's process namespace and CAP_SYS_PTRACE to see all.

    hidden: pass over processes that we may not look into, instead of raising Hidden.
    """
    wanted = _identity(path.stat())
    found = []
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        if pid == os.getpid():
            continue
        try:
            if any(seen == wanted for seen in _held(proc / str(pid))):
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        except PermissionError as error:
            if not hidden:
                raise Hidden(f"process {pid} does not let us look into it; CAP_SYS_PTRACE is needed") from error
    return found


def _held(process: Path) -> Iterator[Identity]:
    """What a process holds: open files, and files that are mapped shared (a mapping outlives its descriptor)."""
    for entry in (process / "fd").iterdir():
        yield from _look(entry)
    for line in (process / "maps").read_text().splitlines():
        addresses, permissions, *_ = line.split(maxsplit=2)
        if permissions.endswith("s"):
            # The kernel names the entry without leading zeros, the table of mappings pads with them.
            begin, end = (f"{int(part, 16):x}" for part in addresses.split("-"))
            yield from _look(process / "map_files" / f"{begin}-{end}")


def _look(entry: Path) -> Iterator[Identity]:
    try:
        yield _identity(entry.stat())
    except (FileNotFoundError, ProcessLookupError):
        return  # closed or unmapped while we looked


def _identity(found: os.stat_result) -> Identity:
    if stat.S_ISCHR(found.st_mode):
        return "device", os.major(found.st_rdev), os.minor(found.st_rdev)
    return "file", found.st_dev, found.st_ino
