"""One writer of one checkpoint."""

import fcntl
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ballast_cfr.errors import FileError, SolverError
from ballast_cfr.writing import why

_PATIENCE = 60.0


class BusyError(SolverError):
    """Another process has the checkpoint directory and does not let go."""


def hold(directory: Path, interrupted: Callable[[], bool]) -> IO[str]:
    """Lock a checkpoint directory until the process ends, waiting a minute for an earlier pod that is still going
    down. Raises BusyError, or FileError if the directory cannot be used."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / "lock").open("w")
    except OSError as error:
        raise FileError(f"checkpoint directory {directory} cannot be used: {why(error)}; choose another") from error
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until or interrupted():
                raise BusyError(
                    f"checkpoint directory {directory} is in use by another process; end that one first"
                ) from None
            time.sleep(0.2)
        else:
            return file
