import io
import re

import pytest

from e2e.cluster.steps import Steps


def test_a_step_prints_its_time_and_its_result() -> None:
    out = io.StringIO()
    with Steps(out).step("build etcd 3.6.16") as step:
        step.result = "27 MB"
    assert re.fullmatch(r"✓ build etcd 3\.6\.16 +0\.\d s  27 MB\n", out.getvalue())


def test_a_failed_step_says_so_and_lets_the_error_through() -> None:
    out = io.StringIO()
    with pytest.raises(ZeroDivisionError), Steps(out).step("nodes Ready"):
        raise ZeroDivisionError
    assert out.getvalue().startswith("✗ nodes Ready")
    assert "FAILED" in out.getvalue()


def test_notes_do_not_flood_a_log_file() -> None:
    out = io.StringIO()
    with Steps(out).step("build") as step:
        for package in range(1000):
            step.note(f"{package} of 1000 packages")
    assert out.getvalue().count("\n") == 1


def test_a_long_step_tells_a_log_file_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.cluster.steps.QUIET_SECONDS", 0.0)
    out = io.StringIO()
    with Steps(out).step("build") as step:
        step.note("7 of 9 packages")
    assert "  build ... 7 of 9 packages\n" in out.getvalue()
