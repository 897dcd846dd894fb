"""Images too large to be packed anew for every change: a layout in the cache, sent to nodes but for what they have.

Such an image has a base (vLLM and torch, gigabytes) and a little of our own on top. Both are pushed into one layout,
where a blob is written once. A node that has the base gets the small layers alone; its content store has the others.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from e2e.cluster import build, cache, shell
from e2e.cluster.node import Node
from e2e.cluster.versions import CTR

REF = "org.opencontainers.image.ref.name"
NAME = "io.containerd.image.name"


@dataclass(frozen=True)
class Layered:
    """An image and its base by name, in the layout that holds the blobs of both."""

    name: str
    base: str
    layout: Path

    @property
    def size(self) -> int:
        """Bytes of all its blobs."""
        return sum(path.stat().st_size for path in self._blobs([self.name]))

    def load(self, node: Node) -> int:
        """Import into a node what it lacks of it; returns the bytes that were sent."""
        there = node.images()
        wanted = [name for name in (self.base, self.name) if name not in there]
        has = [name for name in names(self.layout) if name in there]
        return send(self.layout, wanted, has, node.importing()) if wanted else 0

    def _blobs(self, names: Sequence[str]) -> set[Path]:
        return {path for name in names for path in blobs(self.layout, name)}


def folder(target: str) -> Path:
    """The layout of a target's images and their bases."""
    return cache.folder("layouts") / target


def names(layout: Path) -> list[str]:
    """Names of the images in a layout."""
    return [entry["annotations"][REF] for entry in _index(layout)] if layout.exists() else []


def prune(layout: Path, keep: Sequence[str]) -> None:
    """Forget all images but these, and remove what only the others needed."""
    entries = [entry for entry in _index(layout) if entry["annotations"][REF] in keep]
    index = json.loads((layout / "index.json").read_text()) | {"manifests": entries}
    (layout / "index.json").write_text(json.dumps(index))
    needed = {path for name in keep for path in blobs(layout, name)}
    for path in (layout / "blobs" / "sha256").iterdir():
        if path not in needed:
            path.unlink()


def bases() -> dict[str, Path]:
    """Every base in the cache, by name, with its layout: what a new node should have from the start."""
    return {name: layout for layout in cache.folder("layouts").iterdir() for name in names(layout) if "-base:" in name}


def blobs(layout: Path, name: str) -> list[Path]:
    """Files of an image's manifest, configuration and layers."""
    manifest = _manifest(layout, name)
    return [_blob(layout, d["digest"]) for d in (_entry(layout, name), manifest["config"], *manifest["layers"])]


def send(layout: Path, wanted: Sequence[str], has: Sequence[str], importer: Sequence[object]) -> int:
    """Stream images as an OCI archive into `ctr images import -`, without blobs of those that are there already."""
    known = {path for name in has for path in blobs(layout, name)}
    files = sorted({path for name in wanted for path in blobs(layout, name)} - known)
    argv = [str(argument) for argument in importer]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as ctr:
        assert ctr.stdin is not None
        assert ctr.stderr is not None
        try:
            with ctr.stdin as pipe, tarfile.open(fileobj=pipe, mode="w|", bufsize=1 << 20) as tar:
                _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
                _add(tar, "index.json", _index_of(layout, wanted))
                for path in files:
                    tar.add(path, path.relative_to(layout).as_posix())
        except BrokenPipeError:
            pass  # it says why below
        said = ctr.stderr.read().decode(errors="replace")
    if ctr.returncode:
        raise shell.failed(argv, ctr.returncode, said)
    return sum(path.stat().st_size for path in files)


def importer(address: Path) -> list[object]:
    """The importer of a containerd that listens on `address`."""
    return [build.path(CTR), "--address", address, "--namespace", "k8s.io", "images", "import", "-"]


def _index(layout: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((layout / "index.json").read_text())["manifests"]
    return found


def _entry(layout: Path, name: str) -> dict[str, Any]:
    return next(entry for entry in _index(layout) if entry["annotations"][REF] == name)


def _manifest(layout: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_blob(layout, _entry(layout, name)["digest"]).read_text())
    return found


def _index_of(layout: Path, wanted: Sequence[str]) -> bytes:
    entries = [{**_entry(layout, name), "annotations": {NAME: name, REF: name.rpartition(":")[2]}} for name in wanted]
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    source: IO[bytes] = io.BytesIO(content)
    tar.addfile(info, source)
