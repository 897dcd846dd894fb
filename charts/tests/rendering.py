"""The chart as the real helm 4 renders it."""

import subprocess
from pathlib import Path
from typing import Any

from ballast_api.yamltext import dump, load_all
from e2e.cluster import tools

CHART = Path(__file__).resolve().parents[1] / "ballast"
Object = dict[str, Any]


def helm(*arguments: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, with values on its standard input if there are any."""
    extra = ["--values", "-"] if values is not None else []
    command = [str(tools.helm()), *arguments, *extra]
    return subprocess.run(command, input=dump(values) if values is not None else None, text=True, capture_output=True)


def render(
    values: Object | None = None, release: str = "ballast", namespace: str = "ballast-system", chart: Path = CHART
) -> list[Object]:
    """Every object of the chart. Fails the test, in helm's words, if helm refuses."""
    done = helm("template", release, str(chart), "--namespace", namespace, values=values or {})
    assert done.returncode == 0, done.stderr
    return load_all(done.stdout)


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """The one object of a kind (and name)."""
    (found,) = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    return found


def kinds(objects: list[Object]) -> set[str]:
    return {str(o["kind"]) for o in objects}
