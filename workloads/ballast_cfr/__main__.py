"""`python -m ballast_cfr`."""

import signal
import sys
from types import FrameType


def _told_early(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


# The first process of a container is not ended by a signal that it has no handler for, and the imports below take
# seconds: without this a pod that is deleted meanwhile would stay for its whole grace period.
signal.signal(signal.SIGTERM, _told_early)

from ballast_cfr.cli.main import main  # noqa: E402

sys.exit(main())
