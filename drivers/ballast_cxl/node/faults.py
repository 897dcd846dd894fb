"""A hook for tests: die at one step, as a machine might.

`BALLAST_CXL_CRASH_AT=step` ends the process with 137 when it has done that step; `step:n` at the n-th time. The crash
matrix starts the plugin once for every step and expects the same end state each time.
"""

import os

STEPS = (
    "prepare.noted",
    "prepare.asked",
    "prepare.up",
    "prepare.reported",
    "prepare.cdi",
    "prepare.done",
    "unprepare.cdi",
    "unprepare.crossed",
    "keeper.deleted",
    "keeper.down",
    "keeper.told",
    "scrub.done",
    "scrub.told",
)
_ENV = "BALLAST_CXL_CRASH_AT"
_seen: dict[str, int] = {}


def reached(step: str) -> None:
    """Say that a step was done."""
    wanted, _, count = os.environ.get(_ENV, "").partition(":")
    if wanted != step:
        return
    _seen[step] = _seen.get(step, 0) + 1
    if _seen[step] == int(count or 1):
        os._exit(137)
