"""Images that are one static program: pause, a toolbox with a shell, and the add-ons. No builder, no registry."""

from __future__ import annotations

import tempfile
from pathlib import Path

from e2e.cluster import archive, build, cache, shell, tools
from e2e.cluster.errors import ClusterError
from e2e.cluster.steps import Steps
from e2e.cluster.versions import FETCH, PAUSE, Component

PAUSE_IMAGE = "docker.io/ballast/pause:1"
TOOLBOX_IMAGE = "docker.io/ballast/toolbox:1"  # busybox and fetch: the volume provisioner's helper pods, and tests
NOBODY = "65532:65532"


def name(component: Component) -> str:
    """The image of an add-on. What it was built from is in the tag: a node that has the name has the content."""
    key = build.path(component).name.rpartition("-")[2]
    return f"docker.io/ballast/{component.name}:{component.version}-{key}"


def pause() -> Path:
    return _archive(archive.Image(PAUSE_IMAGE, ["/pause"], NOBODY, files={"/pause": build.path(PAUSE)}))


def addon(component: Component) -> Path:
    """The archive of an add-on whose program is built."""
    program = f"/{component.name}"
    return _archive(archive.Image(name(component), [program], NOBODY, files={program: build.path(component)}))


def toolbox(steps: Steps) -> Path:
    """Debian's static busybox, unpacked from its package without installing it, with a link for each of its names."""
    program = cache.folder("bin") / "busybox"
    if not program.exists():
        _fetch_busybox(program, steps)
    applets = shell.run(program, "--list").split()
    links = {f"/bin/{applet}": "busybox" for applet in applets if applet not in {"busybox", "wget"}}  # see fetch.go
    return _archive(
        archive.Image(
            TOOLBOX_IMAGE, [], "", files={"/bin/busybox": program, "/bin/fetch": build.path(FETCH)}, links=links
        )
    )


def _fetch_busybox(program: Path, steps: Steps) -> None:
    if not tools.find("apt-get"):
        raise ClusterError(
            f"Debian's package busybox-static cannot be fetched, apt-get is missing; put a static busybox at {program}"
        )
    with steps.step("Debian package: busybox-static"), tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # apt drops its rights before it writes
        if shell.attempt("apt-get", "download", "busybox-static", cwd=folder).returncode:
            shell.run("apt-get", "update", "-q")
            shell.run("apt-get", "download", "busybox-static", cwd=folder)
        shell.run("dpkg", "-x", next(folder.glob("*.deb")), folder / "root")
        made = program.with_suffix(".new")
        found = next(p for p in (folder / "root").glob("**/bin/busybox") if p.is_file())
        made.write_bytes(found.read_bytes())
        made.chmod(0o755)
        made.rename(program)


def _archive(image: archive.Image) -> Path:
    words = [image.name, *image.entrypoint, image.user, *image.links, archive.FORMAT]
    key = cache.content_key(words, image.files.values())
    out = cache.folder("images") / f"{image.name.rpartition('/')[2].replace(':', '_')}-{key}.tar"
    with cache.lock("images"):
        if not out.exists():
            archive.write(image, out)
    return cache.used(out)
