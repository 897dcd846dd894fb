"""Files are replaced as a whole, whoever else writes them."""

import os
from pathlib import Path

import pytest

from ballast_cfr.errors import FileError
from ballast_cfr.writing import demand_place, replacing


def test_a_file_is_the_old_one_until_it_is_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "below" / "file"
    for text in ("old", "new"):
        with replacing("output", file) as beside:
            beside.write_text(text)
            assert not file.exists() or file.read_text() == "old"
        assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


def test_two_processes_that_write_one_file_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    with replacing("output", file) as first:
        first.write_text("first")
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with replacing("output", file) as second:
            second.write_text("second")
        assert file.read_text() == "second"
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_is_no_place_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^checkpoint .* cannot be written: it is a folder; give the name of a file$"):
        demand_place("checkpoint", tmp_path)
    with pytest.raises(FileError, match="it is a folder"):
        demand_place("checkpoint", Path())
