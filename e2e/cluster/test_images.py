import shutil
from pathlib import Path

import pytest

from e2e.cluster import images
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import CHECKOUT


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
