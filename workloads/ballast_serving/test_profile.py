"""Which profile of experts a pod begins with."""

from pathlib import Path

import pytest

from ballast_serving import profile


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "given.json").write_text("given")
    return {"VAMP_PROFILE": str(tmp_path / "vamp/team-a/qwen.json"), "BALLAST_VAMP_SEED": str(tmp_path / "given.json")}


def test_an_empty_cache_begins_with_what_is_given(environment: dict[str, str]) -> None:
    profile.begin(environment)
    kept = Path(environment["VAMP_PROFILE"])
    assert kept.read_text() == "given"
    assert list(kept.parent.iterdir()) == [kept]


def test_what_was_learned_is_newer_than_what_is_given(environment: dict[str, str]) -> None:
    kept = Path(environment["VAMP_PROFILE"])
    kept.parent.mkdir(parents=True)
    kept.write_text("learned")
    profile.begin(environment)
    assert kept.read_text() == "learned"


def test_without_one_to_begin_with_there_is_a_folder_to_write_to(environment: dict[str, str]) -> None:
    del environment["BALLAST_VAMP_SEED"]
    profile.begin(environment)
    assert list(Path(environment["VAMP_PROFILE"]).parent.iterdir()) == []


def test_a_pod_without_vamp_is_left_alone() -> None:
    profile.begin({"BALLAST_VAMP_SEED": "/nowhere"})
