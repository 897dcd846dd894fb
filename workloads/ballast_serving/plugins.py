"""Make vLLM find the plugins that an image carries: run while the image is built.

The image has our packages as folders, which no package manager installed. vLLM looks for plugins among the entry points
of installed distributions, so the ones in pyproject.toml are written down as if ours were one.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

GROUP = "vllm.general_plugins"


def write(pyproject: Path, site: Path) -> Path:
    """A distribution's metadata in `site`, with the plugins of `pyproject`; its folder. KeyError without any."""
    project = tomllib.loads(pyproject.read_text())["project"]
    plugins: dict[str, str] = project["entry-points"][GROUP]
    folder = site / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {target}\n" for name, target in sorted(plugins.items())]
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(lines)}")
    return folder


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
