"""Daemons: started in a session of their own, found again by pid files, ended for sure.

A pid alone proves nothing after a crash or a reboot, when another program may have it. So a pid file also holds the
process's start time, and every daemon carries a mark in its environment by which it is found when its file is lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.tools import SYSTEM_PATH

MARK = "BALLAST_CLUSTER"
END_SECONDS = 20.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process for good: `started` is in clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this pid now; None when there is none, or only its corpse."""
        fields = _stat(pid)
        return None if fields is None or (fields[0] in "ZX" and _alone(pid)) else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signal this process, and never another that got its pid."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass  # it ended by itself just now
        finally:
            os.close(handle)


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on; the second may hold blanks and brackets."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _alone(pid: int) -> bool:
    """Whether the main thread is the last one: a corpse's other threads hold its ports and files until they end too."""
    try:
        return sum(1 for _ in (_PROC / str(pid) / "task").iterdir()) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


class Daemons:
    """The daemons of one cluster, by name: `etcd`, `node1-kubelet`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def log(self, name: str) -> Path:
        return self.layout.logs / f"{name}.log"

    def get(self, name: str) -> Process | None:
        """The running daemon of this name."""
        try:
            pid, started = (self.layout.pids / name).read_text().split()
        except FileNotFoundError:
            return None
        process = Process(int(pid), int(started))
        return process if process.alive else None

    def start(self, name: str, argv: Sequence[str | Path], forks: bool = False) -> Process:
        """Start and record. `forks`: argv runs the daemon as its child (nsenter into a process namespace does)."""
        for folder in (self.layout.pids, self.layout.logs):
            folder.mkdir(parents=True, exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and k != "KUBECONFIG"}
        env |= {MARK: str(self.layout.state), "PATH": f"{self.layout.bin}:{SYSTEM_PATH}"}
        with self.log(name).open("ab") as log:
            began = subprocess.Popen(
                [str(a) for a in argv],
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        began.returncode = 0  # it outlives us: nobody waits for it, and Popen must not complain
        process = _only_child(began.pid) if forks else Process.of(began.pid)
        if process is None:
            raise ClusterError(f"{name} ended at once: {self.last_words(name)}")
        (self.layout.pids / name).write_text(f"{process.pid} {process.started}\n")
        return process

    def stop(self, names: Iterable[str], number: signal.Signals = signal.SIGKILL) -> None:
        """End daemons of these names and wait until they are gone.

        SIGKILL, since a polite kube-apiserver takes more than a minute and keeps its port meanwhile.
        """
        names = list(names)
        processes = [p for name in names if (p := self.get(name))]
        for process in processes:
            process.send(number)
        wait_gone(processes)
        for name in names:
            (self.layout.pids / name).unlink(missing_ok=True)

    def last_words(self, name: str, lines: int = 3) -> str:
        """The end of a daemon's log, for an error message."""
        try:
            return " | ".join(self.log(name).read_text(errors="replace").strip().splitlines()[-lines:])
        except FileNotFoundError:
            return "it left no log"

    def all(self) -> list[Process]:
        """Every process with our mark, whatever became of the pid files. Not what runs inside pods."""
        mark = f"{MARK}={self.layout.state}".encode()
        found = []
        for folder in _PROC.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                marked = mark in (folder / "environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if marked and (process := Process.of(int(folder.name))):
                found.append(process)
        return found


def wait_gone(processes: Sequence[Process], seconds: float = END_SECONDS) -> None:
    """Wait for the end of processes that were told to end."""
    deadline = time.monotonic() + seconds
    while left := [p for p in processes if p.alive]:
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {[p.pid for p in left]} did not end within {seconds:.0f} s of being killed")
        time.sleep(0.02)


def _only_child(pid: int, seconds: float = 10.0) -> Process | None:
    """The child of a program that forks once and waits; None if it ended without."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and Process.of(pid):
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
        if children and (process := Process.of(int(children[0]))):
            return process
        time.sleep(0.005)
    return None
