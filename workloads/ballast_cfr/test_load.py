import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ballast_cfr import compile as compile_game
from ballast_cfr import load, memory, validate
from ballast_cfr.errors import BadInputError, OutOfMemoryError
from ballast_cfr.formats import efg_write
from ballast_cfr.reading import whole

ROOT = str(Path(__file__).parents[1])


def test_names_and_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "kuhn").write_text("".join(efg_write.write(load("kuhn"))))
    assert load(tmp_path / "kuhn").digest == load(str(tmp_path / "kuhn")).digest == load("kuhn").digest
    assert load("liars_dice", faces=2).digest == load("liars-dice", faces="2").digest
    assert not validate(load("kuhn")).problems
    assert compile_game(load("kuhn")).form == "sequence"


def test_the_door_opens_without_the_compiler() -> None:
    command = "import sys; sys.modules['numba'] = None; from ballast_cfr import Batch, Solver, compile, load, validate"
    subprocess.run([sys.executable, "-c", command], check=True, env={**os.environ, "PYTHONPATH": ROOT})


@pytest.mark.parametrize("first", ["compile/test_validate.py", "test_load.py"])
def test_the_order_of_tests_does_not_matter(first: str) -> None:
    here = Path(__file__).parent
    files = sorted([here / "compile/test_validate.py", here / "test_load.py"], key=lambda file: file != here / first)
    chosen = ["-k", "a_good_game_has_no_problems or names_and_files_are_told_apart"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, files), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert "2 passed" in done.stdout, done.stdout


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


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.efg")
    (tmp_path / "folder.efg").mkdir()
    for path, kind in (
        (Path("/dev/zero"), "device"),
        (tmp_path / "pipe.efg", "pipe"),
        (tmp_path / "folder.efg", "folder"),
    ):
        with pytest.raises(BadInputError, match=f"game {path}: cannot be read: it is a {kind}, not a regular file"):
            load(path)


def test_a_file_that_grows_is_read_no_further(tmp_path: Path) -> None:
    path = tmp_path / "g.efg"
    path.write_bytes(b"12")
    with pytest.raises(OSError, match="it grew while it was read"):
        whole(path, lambda size: [path.write_bytes(b"1234")].clear())


@pytest.mark.parametrize("name", ["g.efg", "g.cfrg"])
def test_a_huge_file_is_refused_unread(name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(OutOfMemoryError, match=r"game g\..* has 8,796,093,022,208 bytes and needs about"):
        load(tmp_path / name)


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
