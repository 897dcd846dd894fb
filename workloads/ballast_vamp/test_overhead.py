"""The comparison of engines at rest: who takes turns, and what is divided by what. Engines are stand-ins."""

import argparse
import json

import pytest

from ballast_vamp import overhead
from ballast_vamp.cli import main


def test_engines_take_turns_and_medians_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def engine(arm: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
        asked.append(arm)
        slow = len(asked) * (1.01 if arm == "vamp" else 1.0)
        return {batch: {"wall_ms": slow, "thread_ms": 2 * slow} for batch in options.batches.split(",")}

    monkeypatch.setattr(overhead, "_engine", engine)
    assert main(["overhead", "--rounds", "3", "--batches", "1,16"]) == 0
    assert asked == ["plain", "vamp"] * 3
    found = json.loads(capsys.readouterr().out)["vamp_over_plain"]
    assert found["16"] == {"wall_ms": round(4 * 1.01 / 3, 4), "thread_ms": round(4 * 1.01 / 3, 4)}
    assert set(found) == {"1", "16"}
