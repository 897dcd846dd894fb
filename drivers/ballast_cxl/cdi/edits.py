"""What a container that lists a claim is given, as a CDI document. Pure: host device in, JSON object out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ballast_cxl.cdi import KIND, rules
from ballast_cxl.host import Device

Document = dict[str, Any]

ROOT = "/dev/ballast"
MODE = 0o660
"""Of the device file in a container; the runtime gives it the user and group that the container runs as."""


@dataclass(frozen=True)
class Share:
    """One region in a container. name: of the CDI device; path: in the container; variable: `KV` of
    `BALLAST_REGION_KV_PATH`; uid, size: of the region (size in bytes)."""

    name: str
    path: str
    variable: str
    uid: str
    size: int
    read_only: bool

    @property
    def qualified(self) -> str:
        """As kubelet hands it to the runtime."""
        return f"{KIND}={self.name}"


def container_path(claim: str, request: str | None = None) -> str:
    """Where a container finds the region: the same on every node. request: of a claim that has several."""
    return f"{ROOT}/{claim}/{request}" if request else f"{ROOT}/{claim}"


def variable(*words: str) -> str:
    """Words as part of the name of an environment variable: `kv.tier-a` is `KV_TIER_A`."""
    return re.sub(r"[^A-Z0-9]", "_", "_".join(words).upper())


def document(shares: Sequence[tuple[Share, Device]]) -> Document:
    """The claim's file, in the oldest version that can say it, since a runtime refuses versions it does not know."""
    made = {
        "cdiVersion": rules.KNOWN_VERSIONS[-1],
        "kind": KIND,
        "devices": [{"name": share.name, "containerEdits": _edits(share, device)} for share, device in shares],
    }
    return made | {"cdiVersion": rules.minimum_version(made)}


def _edits(share: Share, device: Device) -> dict[str, Any]:
    prefix = f"BALLAST_REGION_{share.variable}"
    env = [f"{prefix}_PATH={share.path}", f"{prefix}_SIZE={share.size}", f"{prefix}_UID={share.uid}"]
    if device.numbers is None:
        options = ["bind", "ro" if share.read_only else "rw", "nosuid", "nodev", "noexec"]
        return {"env": env, "mounts": [{"hostPath": device.path, "containerPath": share.path, "options": options}]}
    major, minor = device.numbers
    node = {
        "path": share.path,
        "hostPath": device.path,
        "type": "c",
        "major": major,
        "minor": minor,
        "fileMode": MODE,
        "permissions": "r" if share.read_only else "rw",
    }
    return {"env": env, "deviceNodes": [node]}
