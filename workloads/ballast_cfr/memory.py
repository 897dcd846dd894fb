"""What a game will need in memory, and what there is, compared before anything is allocated."""

import os
from pathlib import Path

from ballast_cfr.errors import OutOfMemoryError

# Peak while a tree is built and compiled, measured with liar's dice 1x6 and 1x7; solving takes far less.
BYTES_PER_NODE = 400
BASE_BYTES = 150 << 20

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def estimate(nodes: int) -> int:
    """Bytes that a game of this many nodes takes at its peak."""
    return BASE_BYTES + BYTES_PER_NODE * nodes


def limit() -> int:
    """Bytes that this process may use: the container's limit or the machine's memory, whichever is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUP_LIMITS):
        if path.exists() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def demand(what: str, nodes: int) -> None:
    """Raise OutOfMemoryError if a game of this many nodes does not fit."""
    need, have = estimate(nodes), limit()
    if need > have:
        raise OutOfMemoryError(
            f"{what} has {nodes:,} nodes and needs about {need / 2**30:.1f} GiB, but the limit here is "
            f"{have / 2**30:.1f} GiB; choose smaller parameters or give the pod more memory"
        )
