"""Files that are replaced as a whole: a crash, or a disk that is full, leaves the old one or the new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ballast_cfr.errors import FileError


def why(error: OSError) -> str:
    """What the operating system said, as part of a sentence."""
    return (error.strerror or str(error)).lower()


def demand_place(what: str, path: Path) -> None:
    """Make the folder that a file is to lie in. Raises FileError if the file could not be written there; asked before
    hours of work, not after. what: what is written, as the sentence's subject."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{what} {path} cannot be written: {why(error)}; choose another place") from error
    if path.is_dir():
        raise FileError(f"{what} {path} cannot be written: it is a folder; give the name of a file")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FileError(f"{what} {path} cannot be written: its folder is read-only; choose another place")


@contextmanager
def replacing(what: str, path: Path) -> Iterator[Path]:
    """The path of a file to write in the block; it then takes the place of `path`, on the disk as well. Raises
    FileError if it cannot be written, and leaves nothing behind."""
    demand_place(what, path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")  # two processes do not write into one file
    try:
        yield beside
        _sync(beside)
        beside.replace(path)
        _sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise FileError(f"{what} {path} cannot be written: {why(error)}; make room or choose another place") from error


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
