import os
import tarfile
from pathlib import Path

import pytest

from e2e.gpu import pack


def test_what_is_packed_here_lies_over_there_as_it_did_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "LARGEST", 3000)
    files = []
    for number in range(5):
        file = tmp_path / f"program-{number}"
        file.write_bytes(os.urandom(1000))
        file.chmod(0o755)
        files.append(file)
    packed = [pack._packed(tmp_path, file.name, [file], "cache/ballast/bin") for file in files]
    parts = pack._parts(packed, tmp_path)
    assert len(parts) > 1
    for part in parts:
        with tarfile.open(part) as tar:
            assert sum(member.size for member in tar) <= 3000
        pack.unpack(part, tmp_path / "home")
    for file in files:
        there = tmp_path / "home/cache/ballast/bin" / file.name
        assert there.read_bytes() == file.read_bytes()
        assert os.access(there, os.X_OK)
