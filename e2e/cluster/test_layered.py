import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from e2e.cluster import layered
from e2e.cluster.errors import ClusterError


def blob(layout: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    path = layout / "blobs" / "sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def add(layout: Path, name: str, *layers: bytes) -> None:
    manifest = {"config": blob(layout, f"config of {name}".encode()), "layers": [blob(layout, one) for one in layers]}
    entry = {**blob(layout, json.dumps(manifest).encode()), "annotations": {layered.REF: name}}
    index = layout / "index.json"
    known = json.loads(index.read_text())["manifests"] if index.exists() else []
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": [*known, entry]}))


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    made = tmp_path / "layout"
    add(made, "docker.io/ballast/serving-base:1", b"gigabytes")
    add(made, "docker.io/ballast/serving:a", b"gigabytes", b"ours")
    return made


def sent(archive: Path) -> tuple[set[bytes], list[str]]:
    """Contents of the blobs in an archive, and names of its images."""
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        contents = {name: file.read() for name, file in files.items() if file}
    index = json.loads(contents["index.json"])
    assert json.loads(contents["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    blobs = {content for name, content in contents.items() if name.startswith("blobs/sha256/")}
    return blobs, [entry["annotations"][layered.NAME] for entry in index["manifests"]]


def test_a_node_that_has_the_base_gets_the_small_layers_alone(layout: Path, tmp_path: Path) -> None:
    out = tmp_path / "sent.tar"
    to_file = ["sh", "-c", f"cat > {out}"]
    layered.send(layout, ["docker.io/ballast/serving:a"], ["docker.io/ballast/serving-base:1"], to_file)
    blobs, names = sent(out)
    assert names == ["docker.io/ballast/serving:a"]
    assert b"ours" in blobs
    assert b"gigabytes" not in blobs


def test_a_new_node_gets_both_images_and_each_blob_once(layout: Path, tmp_path: Path) -> None:
    out = tmp_path / "sent.tar"
    both = ["docker.io/ballast/serving-base:1", "docker.io/ballast/serving:a"]
    layered.send(layout, both, [], ["sh", "-c", f"cat > {out}"])
    blobs, names = sent(out)
    assert names == both
    assert {b"gigabytes", b"ours"} <= blobs


def test_an_importer_that_fails_is_an_error_with_its_words(layout: Path) -> None:
    failing = ["sh", "-c", "echo no space left >&2; exit 1"]
    with pytest.raises(ClusterError, match="no space left"):
        layered.send(layout, ["docker.io/ballast/serving:a"], [], failing)


def test_pruning_forgets_images_and_keeps_what_others_share(layout: Path) -> None:
    add(layout, "docker.io/ballast/serving:b", b"gigabytes", b"newer")
    layered.prune(layout, ["docker.io/ballast/serving-base:1", "docker.io/ballast/serving:b"])
    assert layered.names(layout) == ["docker.io/ballast/serving-base:1", "docker.io/ballast/serving:b"]
    left = {path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    assert {b"gigabytes", b"newer"} <= left
    assert b"ours" not in left
