from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ballast_vamp import host
from ballast_vamp.reasons import Disabled, Reason


def machine(root: Path, available_kib: int, limit: str | None = None, used: int = 0, kept: int = 0) -> Path:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_kib} kB\n")
    if limit is not None:
        (root / "sys/fs/cgroup").mkdir(parents=True)
        (root / "sys/fs/cgroup/memory.max").write_text(limit + "\n")
        (root / "sys/fs/cgroup/memory.current").write_text(f"{used}\n")
        (root / "sys/fs/cgroup/memory.stat").write_text(f"anon {used - kept}\ninactive_file {kept}\n")
    return root


def test_the_containers_limit_counts_where_it_is_less(tmp_path: Path) -> None:
    assert host.available(machine(tmp_path, 1 << 20, limit=str(1 << 29), used=1 << 28)) == 1 << 28


def test_weights_that_were_read_do_not_count_as_taken(tmp_path: Path) -> None:
    assert host.available(machine(tmp_path, 1 << 20, limit=str(1 << 29), used=1 << 28, kept=1 << 27)) == 3 << 27


@pytest.mark.parametrize("limit", [None, "max"])
def test_without_a_limit_the_machine_counts(tmp_path: Path, limit: str | None) -> None:
    assert host.available(machine(tmp_path, 1 << 20, limit)) == 1 << 30


def test_too_little_is_said_with_both_numbers(tmp_path: Path) -> None:
    root = machine(tmp_path, 1 << 20)
    host.require(900 << 20, root)
    with pytest.raises(
        Disabled, match="asks for 1073741824 bytes of host memory on this rank and 1073741824 are"
    ) as told:
        host.require(1 << 30, root)
    assert told.value.reason is Reason.HOST_MEMORY_TOO_SMALL


def test_ranks_do_not_promise_themselves_the_same_memory(tmp_path: Path) -> None:
    machine(tmp_path, 1000)
    found: list[Reason | None] = []

    def other_rank() -> None:
        with host.turn(tmp_path):
            try:
                host.require(600 << 10, tmp_path)
                found.append(None)
            except Disabled as disabled:
                found.append(disabled.reason)

    with host.turn(tmp_path):
        host.require(600 << 10, tmp_path)
        thread = threading.Thread(target=other_rank)
        thread.start()
        thread.join(0.2)
        machine(tmp_path, 400)
    thread.join()
    assert found == [Reason.HOST_MEMORY_TOO_SMALL]
