"""How the process ends, and begins anew."""

import os
import sys

import pytest

from ballast_operator import __main__, process


@pytest.mark.parametrize("anew", [False, True])
def test_it_starts_anew_in_the_same_process(monkeypatch: pytest.MonkeyPatch, anew: bool) -> None:
    """With the words that it was started with."""
    started: list[tuple[str, list[str]]] = []

    async def run(*_: object) -> bool:
        return anew

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(os, "execv", lambda path, words: started.append((path, words)))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "ballast_operator", "run"])
    assert __main__.main(["run"]) == 0
    assert started == [(sys.executable, [sys.executable, "-m", "ballast_operator", "run"])] * anew
