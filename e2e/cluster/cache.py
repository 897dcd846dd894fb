"""The user's cache: what was built once, keyed by the content it was built from, for every checkout on the machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

KEEP_SECONDS = 30 * 24 * 3600


def root() -> Path:
    """~/.cache/ballast, or where XDG_CACHE_HOME says."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ballast"


def folder(kind: str) -> Path:
    """A folder of the cache, made if need be."""
    path = root() / kind
    path.mkdir(parents=True, exist_ok=True)
    return path


def content_key(words: Iterable[str], files: Iterable[Path] = ()) -> str:
    """A short hash of words and of the names and contents of files, in the order given."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for file in files:
        digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


@contextmanager
def lock(name: str) -> Iterator[None]:
    """One process at a time makes `name`; the others wait and then find it made."""
    with (folder("locks") / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def used(path: Path) -> Path:
    """Mark as used now, and drop what shares its stem but has another key and was not used for a month."""
    os.utime(path)
    stem = path.name.rsplit("-", 1)[0]
    for other in path.parent.glob(f"{stem}-*"):
        if other.name.rsplit("-", 1)[0] == stem and time.time() - other.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return path
