"""`python -m ballast_serving`."""

import signal
import sys
from types import FrameType


def _told_early(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


# The first process of a container is not ended by a signal that it has no handler for, and imports take a while.
signal.signal(signal.SIGTERM, _told_early)

from ballast_serving.cli import main  # noqa: E402

sys.exit(main())
