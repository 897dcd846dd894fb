"""What the machines boot: Debian's QEMU, kernel, CXL programs and Python, kept in the user's cache, and our code.

The large part (a file system in memory with Python, and the kernel's modules) is made once from Debian packages and
cached by their names; our own code is a second, small archive behind it, made for each run.
"""

from __future__ import annotations

import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import cache, shell, tools
from e2e.cluster.images import MIRROR, SUITE
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps

HOST_PACKAGES = {"debootstrap": "debootstrap", "cpio": "cpio", "cc": "gcc"}
PACKAGES = ("qemu-system-x86", "seabios", "ipxe-qemu", "busybox-static", "cxl", "daxctl", "python3")
KERNEL = "linux-image-cloud-amd64"
# In the order that they must be loaded. Not kmem: it would make shared memory the kernel's own.
MODULES = (
    "nvdimm/libnvdimm",
    "cxl/cxl_acpi",
    "cxl/cxl_pci",
    "cxl/cxl_mem",
    "cxl/cxl_pmem",
    "dax/device_dax",
    "dax/dax_cxl",
)
HEAVY = (
    "_ssl",
    "_hashlib",
    "_sqlite3",
    "_curses*",
    "_codecs_*",
    "_decimal",
    "_bz2",
    "_lzma",
    "_zoneinfo",
    "_dbm",
    "_gdbm",
)
NEEDLESS = (
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "pydoc_data",
    "venv",
    "unittest",
    "sitecustomize.py",
)
OURS = ("__init__.py", "cdi", "host", "scrubber", "node/__init__.py", "node/checkpoint.py")
FORMAT = "2"  # part of the cache's key: another layout of the archive is another image
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Image:
    """Everything that `machine` needs. system: an unpacked Debian with QEMU in it."""

    system: Path
    kernel: Path
    initramfs: Path

    def qemu(self) -> list[str]:
        """QEMU of that Debian, with its own libraries and firmware, started from here."""
        return [
            str(self.system / "lib64/ld-linux-x86-64.so.2"),
            "--library-path",
            str(self.system / LIBRARIES),
            str(self.system / "usr/bin/qemu-system-x86_64"),
            *(part for folder in ("qemu", "seabios") for part in ("-L", str(self.system / "usr/share" / folder))),
        ]


def ensure(steps: Steps, scratch: Path) -> Image:
    """The image of this checkout's code. scratch: where its small part goes."""
    tools.ensure_packages(HOST_PACKAGES, steps)
    words = [SUITE, KERNEL, *PACKAGES]
    system = _cached("system", words, f"Debian {SUITE} with QEMU", _system, steps)
    words += [FORMAT, *MODULES, *NEEDLESS, *HEAVY]
    guest = _cached("guest", words, "kernel and initramfs of the guests", lambda made: _guest(system, made), steps)
    initramfs = scratch / "initramfs"
    with initramfs.open("wb") as file:
        file.write((guest / "base.cpio").read_bytes())
        file.write(_ours(scratch / "ours"))
    return Image(system, guest / "vmlinuz", initramfs)


def _cached(name: str, words: list[str], title: str, make: Callable[[Path], None], steps: Steps) -> Path:
    """A folder of the cache, made whole or not at all."""
    folder = cache.folder("qemu") / f"{name}-{cache.content_key(words)}"
    with cache.lock(f"qemu-{name}"):
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
            try:
                with steps.step(title):
                    make(made)
                made.rename(folder)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
    return cache.used(folder)


def _system(made: Path) -> None:
    shell.run("nice", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, made, MIRROR)
    for needless in ("var/cache/apt/archives", "usr/share/doc", "usr/share/locale", "usr/share/man"):
        shutil.rmtree(made / needless, ignore_errors=True)


def _guest(system: Path, made: Path) -> None:
    _kernel(system, made)
    _base(system, made)


def _kernel(system: Path, made: Path) -> None:
    """The kernel's package, unpacked and never configured: it would want a boot loader."""
    depends = shell.run("chroot", system, "apt-cache", "depends", KERNEL)
    package = next(line.split()[1] for line in depends.splitlines() if "Depends: linux-image-" in line)
    shell.run("chroot", system, "sh", "-c", f"cd /tmp && apt-get -o APT::Sandbox::User=root download {package}")
    (archive,) = (system / "tmp").glob("linux-image-*.deb")
    shell.run("dpkg-deb", "-x", archive, made / "kernel")
    archive.unlink()
    (image,) = (made / "kernel/boot").glob("vmlinuz-*")
    image.rename(made / "vmlinuz")


def _base(system: Path, made: Path) -> None:
    """busybox, cxl, daxctl, Python with compiled modules, and the kernel's modules."""
    root = made / "root"
    programs = ["usr/bin/busybox", "usr/bin/cxl", "usr/bin/daxctl", "usr/bin/python3.13"]
    for name in programs:
        _copy(system, root, name)
    library = root / "usr/lib/python3.13"
    shutil.copytree(system / "usr/lib/python3.13", library, ignore=shutil.ignore_patterns("__pycache__", *NEEDLESS))
    for heavy in (path for name in HEAVY for path in (library / "lib-dynload").glob(f"{name}.*.so")):
        heavy.unlink()  # with the libraries that they would bring
    extensions = [str(path.relative_to(root)) for path in (library / "lib-dynload").glob("*.so")]
    for name in _libraries(system, [*programs[1:], *extensions]):
        _copy(system, root, name)
    _compile(system, library)
    (drivers,) = (made / "kernel/usr/lib/modules").glob("*/kernel/drivers")
    (root / "modules").mkdir()
    for index, name in enumerate(MODULES):
        module = lzma.decompress((drivers / f"{name}.ko.xz").read_bytes())
        (root / f"modules/{index}-{Path(name).name}.ko").write_bytes(module)
    (made / "base.cpio").write_bytes(_cpio(root))
    for folder in (root, made / "kernel"):
        shutil.rmtree(folder)


def _compile(system: Path, folder: Path) -> None:
    """Compile Python's own modules with the Python that will read them: emulated, each takes a while to compile."""
    inside = system / "tmp/python"
    shutil.copytree(folder, inside, dirs_exist_ok=True)
    compiler = ["chroot", str(system), "python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    shell.run(*compiler, "-b", "/tmp/python")  # beside the sources, which are then not needed
    for source in inside.rglob("*.py"):
        source.unlink()
    shutil.rmtree(folder)
    shutil.copytree(inside, folder)
    shutil.rmtree(inside)


def _ours(root: Path) -> bytes:
    """The code under test, the agent, and the settings of a machine that may share memory."""
    package = root / "opt/ballast_cxl"
    source = CHECKOUT / "drivers/ballast_cxl"
    for name in OURS:
        ignore = shutil.ignore_patterns("test_*", "__pycache__", "libflush.so")
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, package / name, ignore=ignore)
        else:
            shutil.copy(source / name, package / name)
    flush = source / "scrubber/flush.c"
    shell.run("cc", "-O2", "-shared", "-fPIC", "-o", package / "scrubber/libflush.so", flush)
    here = Path(__file__).parent
    shutil.copy(here / "agent.py", root / "opt/agent.py")
    shutil.copy(here / "init", root / "init")
    (root / "init").chmod(0o755)
    (root / "etc/modprobe.d").mkdir(parents=True)
    (root / "etc/modprobe.d/ballast.conf").write_text("blacklist kmem\n")
    return _cpio(root)


def _cpio(root: Path) -> bytes:
    """A folder as the kernel unpacks it; not compressed, since the guest is slow and loading is not."""
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    argv = ["cpio", "-o", "-H", "newc", "--quiet", "--owner=0:0"]
    return subprocess.run(argv, cwd=root, input=names.encode(), capture_output=True, check=True).stdout


def _libraries(system: Path, programs: Iterable[str]) -> set[str]:
    found = set()
    for name in programs:
        for line in shell.run("chroot", system, "ldd", f"/{name}").splitlines():
            words = line.split()
            path = words[2] if "=>" in words else words[0]
            if path.startswith("/"):
                found.add(path.lstrip("/"))
    return found


def _copy(system: Path, root: Path, name: str) -> None:
    target = root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy((system / name).resolve(), target)
