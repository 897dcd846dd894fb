"""Checkpoint format, version 1: everything that a bitwise resume needs, and proof that it is whole.

    8 bytes    b"BALLCFR\\x01"
    8 bytes    length H of the header, little-endian
    H bytes    header: JSON, UTF-8
    ...        the arrays named in the header, little-endian, one after the other
    32 bytes   SHA-256 of all that comes before

A file is written beside its final name, flushed to the disk and renamed, so that a reader finds the old one or the
new one.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.errors import CheckpointMismatchError, FileError
from ballast_cfr.reading import whole
from ballast_cfr.writing import replacing, why

MAGIC = b"BALLCFR\x01"
FILE_NAME = "checkpoint.ballast"
_DIGEST = 32
_HEADER = {"settings": dict, "iteration": int, "seconds": float | int}


def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float64]]) -> None:
    """Replace the checkpoint at `path`, so that no crash can leave half of one. Raises FileError."""
    listed = [{"name": name, "shape": list(array.shape), "dtype": "<f8"} for name, array in arrays.items()]
    text = json.dumps({**header, "arrays": listed}, sort_keys=True, allow_nan=False).encode()
    digest = hashlib.sha256()
    with replacing("checkpoint", path) as beside, beside.open("wb") as file:
        for part in (MAGIC, len(text).to_bytes(8, "little"), text):
            digest.update(part)
            file.write(part)
        for array in arrays.values():
            part = np.ascontiguousarray(array, dtype="<f8").tobytes()
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Header and arrays of a checkpoint. Raises CheckpointMismatchError if it is damaged or of another version,
    FileError if it cannot be read."""
    try:
        content = whole(path)
    except OSError as error:
        raise FileError(f"checkpoint {path} cannot be read: {why(error)}; choose another place or delete it") from error
    if content[:7] != MAGIC[:7]:
        raise CheckpointMismatchError(
            f"checkpoint {path} is not a checkpoint of this solver; choose another place or delete it"
        )
    if len(content) > 7 and content[7] != MAGIC[7]:
        raise CheckpointMismatchError(
            f"checkpoint {path} has format version {content[7]}, but this solver reads version {MAGIC[7]}; "
            "use the release that wrote it"
        )
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise CheckpointMismatchError(
            f"checkpoint {path} is damaged (its digest does not match its content); delete it to start over"
        )
    try:
        return _unpack(content)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CheckpointMismatchError(
            f"checkpoint {path} does not fit the format ({error}); delete it to start over"
        ) from error


def _unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    length = int.from_bytes(content[8:16], "little")
    header = json.loads(content[16 : 16 + length])
    arrays, at = {}, 16 + length
    for entry in header.pop("arrays"):
        count = int(np.prod(entry["shape"], dtype=np.int64))
        arrays[entry["name"]] = (
            np.frombuffer(content, dtype="<f8", count=count, offset=at).reshape(entry["shape"]).copy()
        )
        at += 8 * count
    if at != len(content) - _DIGEST:
        raise ValueError(f"{len(content) - _DIGEST - at} bytes are left over")
    for key, kind in _HEADER.items():
        if not isinstance(header[key], kind) or (key != "settings" and not 0 <= header[key] < 2**63):
            raise ValueError(f"{key} is {header[key]!r}")
    return header, arrays


def demand_same(path: Path, held: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise CheckpointMismatchError naming every setting in which a checkpoint differs from what is asked for."""
    differ = [
        f"{key} {_show(held.get(key))} where this solve has {_show(value)}"
        for key, value in asked.items()
        if held.get(key) != value
    ]
    if differ:
        raise CheckpointMismatchError(
            f"checkpoint {path} holds {', and '.join(differ)}; "
            "use another checkpoint directory, or the settings it was made with"
        )


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 48 else text[:16] + "..."
