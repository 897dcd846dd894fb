import json
import shutil
from pathlib import Path

import pytest

from e2e.cluster import cache, images
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what images are made from."""
    for name in ("Dockerfile", "pyproject.toml", ".dockerignore"):
        shutil.copy(CHECKOUT / name, tmp_path)
    for folders in images.SOURCES.values():
        for folder in folders:
            shutil.copytree(CHECKOUT / folder, tmp_path / folder, dirs_exist_ok=True)
    return tmp_path


def test_the_tag_follows_the_content_and_nothing_else(checkout: Path) -> None:
    assert images.planned("cfr", checkout).tag == images.planned("cfr").tag
    before = images.names(checkout)
    (checkout / "workloads/ballast_cfr/new.py").write_text("x = 1\n")
    after = images.names(checkout)
    assert after["cfr"] != before["cfr"]
    assert after["operator"] == before["operator"]


def test_tests_and_caches_do_not_change_an_image(checkout: Path) -> None:
    before = images.names(checkout)
    (checkout / "workloads/ballast_cfr/test_new.py").write_text("x = 1\n")
    (checkout / "workloads/ballast_cfr/__pycache__").mkdir(exist_ok=True)
    (checkout / "workloads/ballast_cfr/__pycache__/new.pyc").write_text("x")
    assert images.names(checkout) == before


def test_the_dockerfile_copies_what_the_tag_counts() -> None:
    copied = {
        line.split()[1] for line in (CHECKOUT / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")
    }
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    for folder in (folder for folders in images.SOURCES.values() for folder in folders):
        assert folder in copied
        assert f"!{folder}" in ignored


def test_every_target_is_in_the_dockerfile_and_runs_as_nobody() -> None:
    stages = (CHECKOUT / "Dockerfile").read_text().split("\nFROM ")
    for target in images.SOURCES:
        stage = next(s for s in stages if s.splitlines()[0].endswith(f" AS {target}"))
        assert "USER 65532:65532" in stage


def test_an_unknown_image_is_refused_with_those_there_are() -> None:
    with pytest.raises(ClusterError, match="there is no image gpu; images are operator, cfr"):
        images.planned("gpu")


def test_the_builder_keeps_the_newest_images_of_each_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[dict[str, object]] = [
        {"names": [f"docker.io/ballast/cfr:dev-{n}"], "createdatraw": f"2026-01-0{n}"} for n in (3, 1, 6, 2, 5, 4)
    ]
    found.append({"names": ["docker.io/ballast/base:trixie"], "createdatraw": "2020-01-01"})
    found.append({"names": None, "createdatraw": "2026-01-09"})
    program = tmp_path / "buildah"
    program.write_text(
        f'#!/bin/sh\nshift 4\necho "$*" >> {tmp_path}/calls\n[ $1 = images ] && cat {tmp_path}/images\nexit 0\n'
    )
    program.chmod(0o755)
    (tmp_path / "images").write_text(json.dumps(found))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images._tidy()
    calls = (tmp_path / "calls").read_text().splitlines()
    gone = "rmi docker.io/ballast/cfr:dev-2 docker.io/ballast/cfr:dev-1"
    assert calls == ["rm --all", "images --json", gone, "rmi --prune"]


@pytest.mark.timeout(30)
def test_an_image_that_is_there_does_not_wait_for_a_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    images.planned("cfr").archive.touch()
    with cache.lock("buildah"):
        (found,) = images.build(Steps(), ["cfr"])
    assert found == images.planned("cfr")
