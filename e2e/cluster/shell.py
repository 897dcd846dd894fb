"""Running other programs, and waiting for them to get somewhere."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from e2e.cluster.errors import ClusterError

Arg = str | Path


def run(*argv: Arg, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str | None = None) -> str:
    """Run to the end and return standard output; a failure is a ClusterError with the program's last words."""
    done = attempt(*argv, env=env, cwd=cwd, stdin=stdin)
    if done.returncode:
        raise failed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout


def attempt(
    *argv: Arg, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end and return what happened, failed or not."""
    try:
        return subprocess.run(
            [str(a) for a in argv],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise ClusterError(f"program {argv[0]} is missing; install it and run the command again") from error


def failed(argv: Sequence[Arg], code: int, output: str) -> ClusterError:
    """The error for a program that ended with `code`: its name and its last lines."""
    words = " ".join(str(a) for a in argv[:4]) + (" ..." if len(argv) > 4 else "")
    tail = " | ".join(line.strip() for line in output.strip().splitlines()[-5:])
    return ClusterError(f"`{words}` ended with code {code}: {tail or 'it said nothing'}")


def wait_for(
    what: str, ready: Callable[[], bool], seconds: float, hint: str | Callable[[], str] = "", every: float = 0.1
) -> None:
    """Ask `ready` until it says yes; a ClusterError after `seconds`, with the hint, which may be made only then."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            words = hint if isinstance(hint, str) else hint()
            raise ClusterError(f"{what} was not there after {seconds:.0f} s{'; ' + words if words else ''}")
        time.sleep(every)
