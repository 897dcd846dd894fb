"""A hook for tests: die right after the n-th write, as a machine might.

`BALLAST_CRASH_AFTER_WRITES=n` ends the process with 137 after n writes to the API server, Leases not counted. The
crash matrix starts the operator once for every n and expects the same end state each time.
"""

import os

_ENV = "BALLAST_CRASH_AFTER_WRITES"


class CrashAfter:
    """Counts writes; ends the process without any cleaning up at the one that the environment names."""

    def __init__(self, limit: int | None = None) -> None:
        text = os.environ.get(_ENV)
        self._left = limit if limit is not None else int(text) if text else None

    def wrote(self) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left <= 0:
            os._exit(137)
