import hashlib
from pathlib import Path

import pytest

from ballast_cfr import compile as compile_game
from ballast_cfr import load, memory, validate
from ballast_cfr.errors import BadInputError, OutOfMemoryError
from ballast_cfr.formats import efg_write


def test_names_and_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "kuhn").write_text("".join(efg_write.write(load("kuhn"))))
    assert load(tmp_path / "kuhn").digest == load(str(tmp_path / "kuhn")).digest == load("kuhn").digest
    assert load("liars_dice", faces=2).digest == load("liars-dice", faces="2").digest
    assert not validate(load("kuhn")).problems
    assert compile_game(load("kuhn")).form == "sequence"


def test_a_digest_that_was_asked_for_must_match(tmp_path: Path) -> None:
    file = tmp_path / "g.efg"
    file.write_text("".join(efg_write.write(load("kuhn"))))
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    assert load(file, sha256=right.upper()).nodes == 58
    with pytest.raises(BadInputError, match=f"game g.efg has sha256 {right}, but 00 was asked for"):
        load(file, sha256="00")


def test_a_file_takes_no_parameters(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a file and takes no parameters; remove ranks"):
        load(tmp_path / "g.efg", ranks=3)


def test_a_parameter_may_be_called_anything() -> None:
    with pytest.raises(BadInputError, match="game kuhn has no parameter source; it takes cards"):
        load("kuhn", source="3")


def test_a_file_too_large_for_the_container_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.efg").write_text("x" * (1 << 20))
    monkeypatch.setattr(memory, "limit", lambda: 160 << 20)
    with pytest.raises(
        OutOfMemoryError, match=r"game g.efg has 1,048,576 bytes and needs about 0.2 GiB, but the limit"
    ):
        load(tmp_path / "g.efg")


def test_the_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1234\n")
    (tmp_path / "unlimited").write_text("max\n")
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (str(tmp_path / "memory.max"), str(tmp_path / "unlimited")))
    assert memory.limit() == 1234
