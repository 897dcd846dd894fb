"""`python -m ballast_cxl.scrubber PATH SIZE [MAJOR MINOR]`: wipe one device, print how it went as one JSON object.

A process of its own, because a device that is pulled out kills whoever touches it (SIGBUS), and because a process can
be stopped at any byte. It ends with the plugin that started it, so that nothing is ever wiped on nobody's behalf.
"""

import ctypes
import json
import signal
import sys
from dataclasses import asdict

from ballast_cxl.host import Device
from ballast_cxl.scrubber.memory import memory_of
from ballast_cxl.scrubber.scrub import scrub

_SET_PARENT_DEATH_SIGNAL = 1


def main(arguments: list[str]) -> int:
    path, size, *numbers = arguments
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    device = Device(path, int(size), (int(numbers[0]), int(numbers[1])) if numbers else None)
    print(json.dumps(asdict(scrub(memory_of(device)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
