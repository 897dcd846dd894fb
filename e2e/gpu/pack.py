"""What a machine with a GPU and no network needs to become a Kubernetes node, in parts that travel one by one.

Programs keep the names that the cache gives them, so over there they are found as if they had been built there. Python
packages come as wheels of that machine's Python.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster import build, shell, tools
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps
from e2e.cluster.versions import CONTAINERD, COREDNS, CTR, ETCD, GPU_NODE, K8S, PAUSE, SHIM

LARGEST = 44 << 20  # bytes of a part; the checkout travels with each
PROGRAMS = (PAUSE, K8S, ETCD, CONTAINERD, SHIM, CTR, COREDNS, *GPU_NODE)
C_PACKAGES = {"gcc": "gcc", "/usr/include/seccomp.h": "libseccomp-dev"}
WHEELS = ("pytest>=8", "pytest-asyncio>=0.25", "pytest-timeout>=2.3", "cryptography>=44", "hypothesis>=6.120")


def pack(out: Path, python: str, steps: Steps) -> list[Path]:
    """Build and download everything, and write parts of at most 60 MiB into `out`; python: such as 3.12."""
    tools.ensure_packages(C_PACKAGES, steps)
    build.ensure(PROGRAMS, steps)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("part-*"):
        old.unlink()
    site = out / "site"
    with steps.step(f"Python packages for {python}"):
        _site(site, out / "wheels", python)
    with steps.step("packing") as step:
        packed = [_packed(out, f"bin-{c.name}", [build.path(c)], "cache/ballast/bin") for c in PROGRAMS]
        packed.append(_packed(out, "kubectl", [Path(tools.kubectl())], "bin"))
        packed.append(_packed(out, "site", [site], "."))
        parts = _parts(packed, out)
        step.result = ", ".join(f"{part.stat().st_size / 1e6:.0f} MB" for part in parts)
    return parts


def _site(site: Path, wheels: Path, python: str) -> None:
    """Unpack wheels for that Python: what the operator and routers need, and what runs the scenarios."""
    import tomllib

    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["operator"], *extras["router"], *WHEELS]
    wheels.mkdir(exist_ok=True)
    tools.pip("download", "--only-binary=:all:", "--python-version", python, "-d", str(wheels), *wanted)
    site.mkdir(exist_ok=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def _packed(out: Path, name: str, files: Iterable[Path], folder: str) -> Path:
    target = out / f"{name}.tar.xz"
    if not target.exists():
        made = target.with_suffix(".new")
        with made.open("wb") as file:
            pack = subprocess.Popen(["nice", "xz", "-T2", "-3"], stdin=subprocess.PIPE, stdout=file)
            assert pack.stdin is not None
            with pack.stdin as pipe, tarfile.open(fileobj=pipe, mode="w|") as tar:
                for path in files:
                    tar.add(path, os.path.normpath(f"{folder}/{path.name}"))
        if pack.wait():
            raise shell.failed(["xz"], pack.returncode, "")
        made.rename(target)
    return target


def _parts(packed: Iterable[Path], out: Path) -> list[Path]:
    """First fit, largest first: each part is a plain tar of packed files."""
    bins: list[list[Path]] = []
    for path in sorted(packed, key=lambda p: -p.stat().st_size):
        size = path.stat().st_size
        room = next((b for b in bins if sum(p.stat().st_size for p in b) + size <= LARGEST), None)
        if room is None:
            bins.append([path])
        else:
            room.append(path)
    parts = []
    for number, members in enumerate(bins, start=1):
        part = out / f"part-{number}.tar"
        with tarfile.open(part, "w") as tar:
            for member in members:
                tar.add(member, member.name)
        parts.append(part)
    return parts


def unpack(part: Path, home: Path) -> None:
    """On the other machine: unpack one part under `home`."""
    home.mkdir(parents=True, exist_ok=True)
    with tarfile.open(part) as outer:
        for member in outer:
            inner = outer.extractfile(member)
            assert inner is not None
            with tarfile.open(fileobj=inner, mode="r|xz") as tar:
                _extract(tar, home)


def _extract(tar: tarfile.TarFile, home: Path) -> None:
    """Our own archives, links and modes included. Older Pythons have no filters, newer ones ask for one."""
    if hasattr(tarfile, "fully_trusted_filter"):
        tar.extraction_filter = tarfile.fully_trusted_filter
    tar.extractall(home)
