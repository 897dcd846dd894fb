"""The documentation's examples run, and say something."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "solver"


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [example, str(tmp_path)])
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_plot_example_runs(tmp_path: Path) -> None:
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = (EXAMPLES / "plot.sh").read_text().replace("--iterations 1000", "--iterations 30")
    subprocess.run(["bash", "-ec", script], check=True, cwd=tmp_path, env={**os.environ, "PATH": search})
    assert (tmp_path / "leduc.svg").stat().st_size > 1000
