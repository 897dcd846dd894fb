"""What ends a command, with the exit code that says so."""


class ReplayError(Exception):
    """The replay could not be done, or its arms cannot be compared."""

    exit_code = 1


class BadInputError(ReplayError):
    """What was asked for makes no sense; trying again changes nothing."""

    exit_code = 42
