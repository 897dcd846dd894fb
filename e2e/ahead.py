"""The beginning of `make demo`: Kubernetes is compiled while the packages of Python are still on their way.

Runs before any package is there, so it imports none, and nothing that does.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.cluster import build, preflight
from e2e.cluster.errors import ClusterError
from e2e.cluster.steps import Steps
from e2e.cluster.versions import CORE

PLAN = """\
This builds and starts a real Kubernetes here (two nodes, no Docker), installs the operator, and solves Leduc poker.
The first run compiles Kubernetes and the images: about a quarter of an hour on two cores. The next ones take seconds.
"""


def main(arguments: list[str]) -> int:
    """`build` builds the programs; otherwise the arguments are commands, one after the other, to run beside that."""
    if arguments == ["build"]:
        build.ensure(CORE, Steps())
        return 0
    began = time.monotonic()
    print(PLAN, flush=True)
    elsewhere = bool(os.environ.get("KUBECONFIG") or os.environ.get("CLUSTER"))
    try:
        if not elsewhere:
            preflight.check()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, lambda *_: None)  # the command hears it too, and says what becomes of it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with _building(wanted=not elsewhere and not all(map(build.built, CORE))):
        for command in arguments:
            if code := subprocess.run(command, shell=True).returncode:
                return code
    print(f"{time.monotonic() - began:.0f} s in all")
    return 0


@contextmanager
def _building(wanted: bool) -> Iterator[None]:
    """Build the programs beside what the block does, no longer than it takes. A build that fails says why itself, and
    fails again when the cluster asks for it."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-m", "e2e.ahead", "build"], start_new_session=True)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
