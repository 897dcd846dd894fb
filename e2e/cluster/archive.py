"""An OCI image archive made without any builder: one layer, written as a stream.

Enough for an image that is a static program and a few files, and for the base image of our own. The same input gives
the same bytes, so a digest names its content. Source: the OCI image layout specification 1.0.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

FORMAT = "1"  # changes when the same input gives other bytes: caches are keyed by it
_MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    """What to run: `name` is whole (docker.io/ballast/x:1); `user` as in a Dockerfile."""

    name: str
    entrypoint: Sequence[str] = ()
    user: str = ""
    env: Sequence[str] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    files: dict[str, Path] = field(default_factory=dict)  # place in the image -> file here, made executable
    links: dict[str, str] = field(default_factory=dict)  # place in the image -> what it points to


def write(image: Image, out: Path, root: Path | None = None) -> None:
    """Write the image to `out`: its files and links, or a whole folder as it is (owners and modes included)."""
    layer = out.with_suffix(".layer")
    made = out.with_suffix(".new")
    fill = (lambda tar: _add_tree(tar, root)) if root else (lambda tar: _add_files(tar, image))
    digest, size = _write_layer(layer, fill)
    config = _json(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(image.entrypoint), "User": image.user, "Env": list(image.env)},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
            "history": [{"created_by": "e2e.cluster.archive"}],  # buildah builds on no image without
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [{"mediaType": f"{_MEDIA}.layer.v1.tar", "digest": digest, "size": size}],
        }
    )
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**_descriptor("manifest.v1+json", manifest), "annotations": names}]}
    with tarfile.open(made, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", _json(index))
        for blob in (config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        with layer.open("rb") as stream:
            _add(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}", stream, size)
    layer.unlink()
    made.rename(out)


class _Hashing(io.RawIOBase):
    """Passes bytes on and hashes them, so that a layer of any size is read once and never held in memory."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out, self.hash, self.size = out, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self.out.write(data)


def _write_layer(path: Path, fill: Callable[[tarfile.TarFile], None]) -> tuple[str, int]:
    with path.open("wb") as file:
        hashing = _Hashing(file)
        with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            fill(tar)
    return f"sha256:{hashing.hash.hexdigest()}", hashing.size


def _add_tree(tar: tarfile.TarFile, root: Path) -> None:
    tar.add(root, arcname=".", filter=_timeless)


def _timeless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    return member


def _add_files(tar: tarfile.TarFile, image: Image) -> None:
    folders = {parent for place in (*image.files, *image.links) for parent in Path(place.lstrip("/")).parents}
    for folder in sorted((f for f in folders if f != Path()), key=str):
        _add_folder(tar, str(folder), 0o755)
    _add_folder(tar, "tmp", 0o1777)
    for place, source in sorted(image.files.items()):
        with source.open("rb") as stream:
            _add(tar, place.lstrip("/"), stream, source.stat().st_size, 0o755)
    for place, target in sorted(image.links.items()):
        link = tarfile.TarInfo(place.lstrip("/"))
        link.type, link.linkname = tarfile.SYMTYPE, target
        tar.addfile(link)


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def _add(tar: tarfile.TarFile, name: str, data: bytes | IO[bytes], size: int | None = None, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    info.size = len(data) if isinstance(data, bytes) else size or 0
    tar.addfile(info, stream)


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
