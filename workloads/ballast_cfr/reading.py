"""Files that are read whole, or to their end: only such as have one."""

import stat
from collections.abc import Callable
from pathlib import Path


def demand_end(path: Path) -> int:
    """Bytes of a file. Raises OSError if it is not there, or is a device, a pipe or a socket: those may have no end,
    and a pipe may never have a beginning."""
    found = path.stat()
    for what, kind in (("a folder", stat.S_IFDIR), ("a pipe", stat.S_IFIFO), ("a socket", stat.S_IFSOCK)):
        if stat.S_IFMT(found.st_mode) == kind:
            raise OSError(f"it is {what}, not a regular file")
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is a device, not a regular file")
    return found.st_size


def whole(path: Path, accept: Callable[[int], None] = lambda _: None) -> bytes:
    """The content of a file, in as much memory as it has bytes. accept: told how many, before any is read; it may
    raise. Raises OSError."""
    size = demand_end(path)
    accept(size)
    with path.open("rb") as file:
        content = file.read(size + 1)
    if len(content) > size:
        raise OSError("it grew while it was read; try again when it is complete")
    return content
