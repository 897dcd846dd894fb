import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.processes import Daemons, Process, wait_gone


@pytest.fixture
def daemons(tmp_path: Path) -> Daemons:
    return Daemons(Layout(tmp_path, 0))


def test_a_daemon_is_found_again_and_ended(daemons: Daemons) -> None:
    process = daemons.start("sleeper", ["sleep", "60"])
    assert daemons.get("sleeper") == process
    daemons.stop(["sleeper"])
    assert not process.alive
    assert daemons.get("sleeper") is None


def test_a_pid_that_another_program_got_is_not_ours(daemons: Daemons) -> None:
    process = daemons.start("sleeper", ["sleep", "60"])
    impostor = Process(process.pid, process.started - 1)
    impostor.send(signal.SIGKILL)
    assert not impostor.alive
    assert process.alive
    (daemons.layout.pids / "sleeper").write_text(f"{impostor.pid} {impostor.started}\n")
    assert daemons.get("sleeper") is None
    process.send(signal.SIGKILL)


def test_the_child_counts_where_the_program_forks(daemons: Daemons) -> None:
    process = daemons.start("forking", ["sh", "-c", "sleep 60 & wait"], forks=True)
    assert _becomes(process, "sleep")
    daemons.stop(["forking"])


def _becomes(process: Process, name: str) -> bool:
    """Whether the process runs that program within 5 s: between fork and exec it still bears its parent's name."""
    comm = Path(f"/proc/{process.pid}/comm")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if comm.read_text() == f"{name}\n":
            return True
        time.sleep(0.01)
    return False


def test_a_daemon_that_lost_its_pid_file_is_found_by_its_mark(daemons: Daemons) -> None:
    process = daemons.start("sleeper", ["sleep", "60"])
    (daemons.layout.pids / "sleeper").unlink()
    time.sleep(0.1)
    assert daemons.all() == [process]
    process.send(signal.SIGKILL)
    wait_gone([process])


def test_a_daemon_that_ends_at_once_is_an_error_with_its_last_words(daemons: Daemons) -> None:
    with pytest.raises(ClusterError, match=r"broken ended at once: .*no disk"):
        daemons.start("broken", ["sh", "-c", "echo no disk; exit 3"], forks=True)


def test_a_corpse_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Process.of(child.pid) is None
    child.wait()


def test_a_corpse_whose_other_threads_run_is_alive() -> None:
    """They hold its port until they end: an API server that was started at once then could not have it."""
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start();"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 10
    while _state(child.pid) != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (_state(child.pid), Process.of(child.pid) is None) == ("Z", False)
    child.kill()
    child.wait()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
