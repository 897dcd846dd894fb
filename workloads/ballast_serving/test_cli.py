from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from ballast_serving.cli import compiles, cpus

MACHINE = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "max 100000\n"}, MACHINE),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "99900000 100000\n"}, MACHINE),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, MACHINE),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({}, MACHINE),
    ],
)
def test_threads_follow_the_containers_share(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert cpus(tmp_path) == expected


@pytest.mark.parametrize(
    ("version", "compiler", "expected"),
    [("0.32.0+cpu", "none-such", False), ("0.32.0+cpu", "sh", True), ("0.26.0", "none-such", True)],
)
def test_nothing_is_compiled_for_cpus_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, version: str, compiler: str, expected: bool
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    monkeypatch.setenv("CXX", compiler)
    assert compiles() is expected
