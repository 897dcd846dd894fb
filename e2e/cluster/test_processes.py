import os
import signal
import subprocess
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
