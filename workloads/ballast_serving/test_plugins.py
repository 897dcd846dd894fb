"""What an image's Python finds as vLLM's plugins."""

from importlib import metadata
from pathlib import Path

import pytest

from ballast_serving import plugins

PROJECT = """
[project]
name = "ballast"
version = "1.2"
[project.entry-points."vllm.general_plugins"]
vamp = "ballast_vamp.plugin:register"
"""


def test_pythons_own_look_up_finds_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    plugins.write(tmp_path / "pyproject.toml", tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = {entry.name: entry.value for entry in metadata.entry_points(group=plugins.GROUP)}
    assert found["vamp"] == "ballast_vamp.plugin:register"
    assert metadata.distribution("ballast").entry_points


def test_a_project_without_plugins_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    with pytest.raises(KeyError):
        plugins.write(tmp_path / "pyproject.toml", tmp_path)
