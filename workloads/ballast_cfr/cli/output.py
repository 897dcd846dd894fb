"""What commands write for people and machines."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ballast_cfr.errors import FileError
from ballast_cfr.writing import demand_place, why

STANDARD = Path("-")


def say(text: str) -> None:
    """Write to standard output. Raises BrokenPipeError if its reader has gone, FileError if it cannot be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # What is left would be written, and fail again, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise FileError(f"standard output cannot be written: {why(error)}") from error


def emit(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as JSON to a file, or to standard output for -. Raises FileError."""
    text = json.dumps(facts, indent=1)
    if path == STANDARD:
        say(text)
        return
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise FileError(f"json {path} cannot be written: {why(error)}; choose another place") from error


def demand_places(**paths: Path | None) -> None:
    """Raise FileError if any of these could not be written: asked before hours of work, not after. Names say what is
    written."""
    for what, path in paths.items():
        if path is None or path == STANDARD:
            continue
        pipe_or_device = path.exists() and not path.is_file() and not path.is_dir()
        if not pipe_or_device:
            demand_place(what, path)
