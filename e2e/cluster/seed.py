"""Images at the start of a node: imported once on the machine, then given to every node by hard links.

A containerd without anything but its store imports the archives into a folder of the cache, named by their content.
A node's store is that folder again in hard links, which takes a moment and no disk; its databases, which containerd
writes in place, are copied. Layers and blobs are only ever added and removed, never changed, so sharing them is safe.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster import build, cache, layered, shell
from e2e.cluster.versions import CONTAINERD, CTR

KEPT = 2


def ensure(archives: Sequence[Path]) -> Path:
    """The seed that holds these archives and the bases of large images, made if the cache has none."""
    bases = layered.bases()
    names = sorted(path.name for path in archives) + sorted(bases)  # the content's key is in the name
    target = cache.folder("seeds") / f"seed-{cache.content_key([build.path(CONTAINERD).name, *names])}"
    with cache.lock("seed"):
        if not target.exists():
            made = target.with_suffix(".new")
            shutil.rmtree(made, ignore_errors=True)
            _import(archives, bases, made)
            made.rename(target)
        os.utime(target)
        # Not by age like other things: each takes gigabytes, and nodes keep what they were given.
        for old in sorted(target.parent.glob("seed-*"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old)
    return target


def plant(seed: Path, store: Path) -> None:
    """Make a node's store from a seed; whole or not at all."""
    made = store.with_suffix(".new")
    shutil.rmtree(made, ignore_errors=True)
    if seed.stat().st_dev == store.parent.stat().st_dev:
        shell.run("cp", "-al", seed, made)
        for database in seed.glob("*/*.db"):
            shell.run("cp", "--remove-destination", database, made / database.relative_to(seed))
    else:  # hard links end at a file system's border
        shell.run("cp", "-a", seed, made)
    made.rename(store)


def _import(archives: Sequence[Path], bases: Mapping[str, Path], root: Path) -> None:
    root.mkdir(parents=True)
    # Short, since the path of a socket ends at 107 letters.
    with tempfile.TemporaryDirectory(prefix="seed") as scratch:
        state = Path(scratch)
        config = state / "containerd.toml"
        config.write_text(_config(root, state))
        with (state / "log").open("wb") as log:
            argv = [str(build.path(CONTAINERD)), "--config", str(config)]
            daemon = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        try:
            shell.wait_for("containerd of the seed", (state / "c.sock").is_socket, 30, f"see {state / 'log'}", 0.02)
            for archive in archives:
                shell.run(
                    build.path(CTR), "--address", state / "c.sock", "--namespace", "k8s.io", "images", "import", archive
                )  # fmt: skip
            for name, layout in bases.items():
                layered.send(layout, [name], [], layered.importer(state / "c.sock"))
        finally:
            daemon.terminate()
            daemon.wait()


def _config(root: Path, state: Path) -> str:
    return f"""version = 3
root = "{root}"
state = "{state}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"]
[grpc]
address = "{state}/c.sock"
[ttrpc]
address = "{state}/c.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{root}/opt"
[plugins."io.containerd.nri.v1.nri"]
disable = true
"""
