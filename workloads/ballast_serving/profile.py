"""The profile of experts that a pod begins with: the one in its cache, else the one that it was given."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

GIVEN, KEPT = "BALLAST_VAMP_SEED", "VAMP_PROFILE"  # variables of the pod: a file to begin with, and where VAMP's own is


def begin(environment: Mapping[str, str]) -> None:
    """Make the folder of VAMP's own profile, with the given one in it unless there is one already: that is newer."""
    if KEPT not in environment:
        return
    kept = Path(environment[KEPT])
    kept.parent.mkdir(parents=True, exist_ok=True)
    if GIVEN not in environment or kept.exists():
        return
    # Replicas that share a cache may do this at once, and each has the process number 1.
    number, partial = tempfile.mkstemp(dir=kept.parent)
    with os.fdopen(number, "wb") as file:
        file.write(Path(environment[GIVEN]).read_bytes())
    Path(partial).replace(kept)
