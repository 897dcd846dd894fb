"""What can go wrong, and the exit code that says so to whoever started the process.

Every message is one sentence that names the object, the field, the value and the way out, because it is shown
unchanged in a terminal and in the status of a CFRSolve.
"""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 42
EXIT_CHECKPOINT_MISMATCH = 43
EXIT_TERMINATED = 143


class SolverError(Exception):
    """An end that its reader can do something about; `reason` is the word machines match on."""

    exit_code = EXIT_FAILED
    reason = "SolverFailed"


class BadInputError(SolverError):
    """The game, or what was asked of it, cannot be solved as given; trying again changes nothing."""

    exit_code = EXIT_BAD_INPUT
    reason = "InvalidGame"


class OutOfMemoryError(BadInputError):
    """The estimate says that the game does not fit, found before anything was allocated."""

    reason = "OutOfMemory"


class CheckpointMismatchError(SolverError):
    """A checkpoint is of another game, of other settings, or damaged. It is never silently replaced."""

    exit_code = EXIT_CHECKPOINT_MISMATCH
    reason = "CheckpointMismatch"


class FileError(SolverError):
    """A file cannot be read or written where it should be, or the disk is full."""


class DeviceError(SolverError):
    """The device that was asked for is not there, or failed."""

    reason = "DeviceUnavailable"
