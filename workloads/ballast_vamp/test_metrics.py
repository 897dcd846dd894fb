from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ballast_vamp import metrics


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics.STATE, str(tmp_path))


def page() -> str:
    registry = CollectorRegistry()
    registry.register(metrics.Collector())
    return generate_latest(registry).decode()


def filled() -> metrics.Metrics:
    made = metrics.Metrics()
    made.set("vamp:active", 1)
    made.add("vamp:repartition", direction="grow", result="ok")
    made.observe("vamp:repartition_seconds", 0.004, phase="stall")
    return made


def test_names_on_the_page_are_those_promised() -> None:
    metrics.write("0", filled())
    lines = page().splitlines()
    assert "vamp:active 1.0" in lines
    assert 'vamp:repartition_total{direction="grow",result="ok"} 1.0' in lines
    assert 'vamp:repartition_seconds_bucket{le="0.005",phase="stall"} 1.0' in lines
    assert 'vamp:repartition_seconds_bucket{le="0.002",phase="stall"} 0.0' in lines
    assert 'vamp:repartition_seconds_count{phase="stall"} 1.0' in lines


def test_a_reason_with_quotes_stays_one_label() -> None:
    made = metrics.Metrics()
    made.set("vamp:disabled_info", 1, reason="BadConfiguration", message='VAMP_MODE is "x"')
    metrics.write("0", made)
    assert 'message="VAMP_MODE is \\"x\\"",reason="BadConfiguration"' in page()
    assert list(made.snapshot()) == ['vamp:disabled_info{reason="BadConfiguration",message="VAMP_MODE is \\"x\\""}']


def test_several_engines_are_told_apart() -> None:
    metrics.write("0", filled())
    metrics.write("1", filled())
    assert 'vamp:active{engine="1"} 1.0' in page()


def test_a_half_written_file_hides_nobody_else(tmp_path: Path) -> None:
    metrics.write("0", filled())
    (tmp_path / "1.json").write_text("[[")
    assert "vamp:active 1.0" in page()


def test_a_full_disk_costs_a_sample_and_not_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics.write("0", filled())
    before = page()

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(Path, "write_text", full)
        metrics.write("0", metrics.Metrics())
    assert page() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "0.json"]
