import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from e2e.cluster import archive
from e2e.cluster.archive import Image


def read(path: Path) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any], tarfile.TarFile]:
    """Files of an archive, its configuration, its index, and its layer."""
    with tarfile.open(path) as tar:
        files = {m.name: f.read() for m in tar.getmembers() if (f := tar.extractfile(m))}
    index = json.loads(files["index.json"])
    manifest = json.loads(files[blob(index["manifests"][0]["digest"])])
    config = json.loads(files[blob(manifest["config"]["digest"])])
    out = path.with_suffix(".read")
    out.write_bytes(files[blob(manifest["layers"][0]["digest"])])
    return files, config, index, tarfile.open(out)


def blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def make(tmp_path: Path) -> Path:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF" + bytes(5000))
    out = tmp_path / "out.tar"
    archive.write(
        Image(
            "docker.io/ballast/pause:1", ["/pause"], "65532", files={"/bin/pause": program}, links={"/bin/p": "pause"}
        ),
        out,
    )
    return out


def test_every_blob_is_named_by_its_own_digest(tmp_path: Path) -> None:
    files, _, _, _ = read(make(tmp_path))
    blobs = {name: data for name, data in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    assert all(name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}" for name, data in blobs.items())


def test_the_configuration_says_what_to_run_and_has_a_history(tmp_path: Path) -> None:
    _, config, index, _ = read(make(tmp_path))
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["config"]["User"] == "65532"
    assert len(config["history"]) == len(config["rootfs"]["diff_ids"]) == 1
    assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == "docker.io/ballast/pause:1"


def test_the_layer_has_the_program_its_link_and_a_tmp(tmp_path: Path) -> None:
    _, _, _, layer = read(make(tmp_path))
    assert layer.getmember("bin/pause").mode == 0o755
    assert layer.getmember("bin/p").linkname == "pause"
    assert layer.getmember("tmp").mode == 0o1777


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first = make(tmp_path).read_bytes()
    os.utime(tmp_path / "pause", (1, 1))
    assert make(tmp_path).read_bytes() == first


def test_a_folder_is_packed_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/x").write_text("x")
    (root / "bin").symlink_to("usr/bin")
    (root / "tmp").mkdir(mode=0o1777)
    (root / "tmp").chmod(0o1777)
    archive.write(Image("docker.io/local/base:1"), tmp_path / "base.tar", root)
    _, _, _, layer = read(tmp_path / "base.tar")
    assert layer.getmember("./bin").linkname == "usr/bin"
    assert layer.getmember("./tmp").mode == 0o1777
    assert layer.getmember("./usr/bin/x").size == 1
