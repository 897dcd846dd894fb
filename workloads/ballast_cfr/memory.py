"""What a game will need in memory, and what there is, compared before anything is allocated."""

import os
from pathlib import Path

from ballast_cfr.errors import OutOfMemoryError

# Measured peaks, rounded up: from 111 for battleship 3x2 to 186 for goofspiel 6 and 139 for oshi-zumo, with solver; 17
# for leduc with six ranks, read; 3 to 10 for batches of payoffs, locks and ranges.
_BASE = 200 << 20
_PER_NODE = 200
_PER_FILE_BYTE = 20
_PER_BATCH_BYTE = 10

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def of_nodes(nodes: int) -> int:
    """Bytes that a game of this many nodes takes at its peak, once it is generated or read."""
    return _BASE + _PER_NODE * nodes


def of_file(size: int, binary: bool = False) -> int:
    """Bytes that a game takes at its peak while it is read from a file of this size; of a binary one only the file
    itself, whose header then says how large the game is."""
    return _BASE + (1 if binary else _PER_FILE_BYTE) * size


def of_batch(size: int) -> int:
    """Bytes that a batch's file of this size takes at its peak."""
    return _BASE + _PER_BATCH_BYTE * size


def limit() -> int:
    """Bytes that this process may use: the container's limit or the machine's memory, whichever is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUP_LIMITS):
        if path.exists() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def demand(what: str, need: int) -> None:
    """Raise OutOfMemoryError if this many bytes are not there. what: a game and its size, as the sentence's subject."""
    have = limit()
    if need > have:
        raise OutOfMemoryError(
            f"{what} needs about {need / 2**30:.1f} GiB, but the limit here is {have / 2**30:.1f} GiB; "
            "choose a smaller game or give the pod more memory"
        )
