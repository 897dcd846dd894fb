"""The project's own images, from the Dockerfile: built by buildah here, tagged by what is in them.

The tag is a hash of everything that goes in, so an image that exists is never built twice, a node that has the name has
the content, and a Deployment whose image changed rolls out by itself.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import archive, cache, layered, shell, stages, tools
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.local import LocalCluster, each
from e2e.cluster.steps import Step, Steps

LARGEST = 150_000_000  # bytes of an archive, of what every installation pulls
LARGEST_OF = {"cfr-gpu": 400_000_000}
SUITE = "trixie"
MIRROR = "http://deb.debian.org/debian"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

COMPRESSION = ("--compression-format=zstd", "--compression-level=12")

# What goes into each target, apart from the Dockerfile and pyproject.toml.
SOURCES = {
    "operator": ("crds/ballast_api", "operator/ballast_operator"),
    "cfr": ("workloads/ballast_cfr",),
    "cfr-gpu": ("workloads/ballast_cfr",),
    "router": ("workloads/ballast_serving",),
    "serving": ("workloads/ballast_serving", "workloads/ballast_vamp"),
    "cxl": ("crds/ballast_api", "operator/ballast_operator", "drivers/ballast_cxl"),
}

KEPT = 4  # images of one name, whose layers the next build takes up, or another checkout

# Built and loaded where nothing else is asked for: no GPU, no vLLM of almost 5 GB unpacked.
DEFAULT = ("operator", "cfr", "cxl")
LAYERED = {"serving": "serving-base"}
BASE_FILES = {"serving": ("workloads/ballast_serving/vllm_cpu.py",)}  # of this checkout, that go into the base

# Documentation and translations: a third of a minimal Debian. Licences stay.
NEEDLESS = ("usr/share/locale", "usr/share/man", "usr/share/info", "var/cache/apt", "var/lib/apt/lists", "var/log/apt")


@dataclass(frozen=True)
class BuiltImage:
    """An image and the archive that holds it. `repository` and `tag` are what a chart's values want."""

    target: str
    repository: str
    tag: str
    archive: Path

    @property
    def name(self) -> str:
        return f"{self.repository}:{self.tag}"


def planned(target: str, checkout: Path = CHECKOUT) -> BuiltImage:
    """The image of this checkout's content, built or not."""
    if target not in SOURCES:
        raise ClusterError(f"there is no image {target}; images are {', '.join(SOURCES)}")
    folders = [checkout / folder for folder in SOURCES[target]]
    sources = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file() and _goes_in(path))
    files = [checkout / "Dockerfile", checkout / "pyproject.toml", *sources]
    words = [str(path.relative_to(checkout)) for path in files]
    tag = f"dev-{cache.content_key(words, files)}"
    return BuiltImage(target, f"docker.io/ballast/{target}", tag, cache.folder("images") / f"{target}-{tag[4:]}.tar")


def _goes_in(path: Path) -> bool:
    """The same choice as .dockerignore's."""
    return "__pycache__" not in path.parts and not path.name.startswith("test_") and path.name != "conftest.py"


def build(steps: Steps, targets: Iterable[str] = DEFAULT, checkout: Path = CHECKOUT) -> list[BuiltImage]:
    """Build what is not built yet and return all of them. Needs no cluster."""
    images = [planned(target, checkout) for target in targets]
    for image in images:
        if not image.archive.exists():  # one that is there does not wait for another that takes minutes
            with cache.lock("buildah"):
                if not image.archive.exists():
                    tools.ensure_packages(tools.IMAGE_PACKAGES, steps)
                    _build(image, _base(steps), checkout, steps)
        cache.used(image.archive)
    return images


def build_layered(target: str, steps: Steps, checkout: Path = CHECKOUT) -> layered.Layered:
    """Build an image that stands on a large base of its own, if it is not built yet."""
    name, stem = planned(target, checkout).name, f"docker.io/ballast/{LAYERED[target]}:"
    layout = layered.folder(target)
    with cache.lock("buildah"):
        if name in (there := layered.names(layout)):
            return layered.Layered(name, next(n for n in there if n.startswith(stem)), layout)
        tools.ensure_packages(tools.IMAGE_PACKAGES, steps)
        debian = _base(steps)
        base = _large_base(target, layout, debian, checkout, steps)
        with steps.step(f"image {name}") as step:
            _bud(target, name, debian, checkout, step, f"{LAYERED[target].upper().replace('-', '_')}={base}")
            _push(name, layout)
            ours = [other for other in layered.names(layout) if not other.startswith(stem)]
            layered.prune(layout, [base, *ours[-KEPT:]])  # other checkouts use other ones of ours, on the same base
            made = layered.Layered(name, base, layout)
            step.result = f"{made.size / 1e9:.1f} GB"
        _tidy()
    return made


def _large_base(target: str, layout: Path, debian: str, checkout: Path, steps: Steps) -> str:
    """Name of the base of a large image, made if there is none of what it is made from. The builder's own cache would
    not do: it forgets the stage with the wheels as soon as it tidies up."""
    dockerfile, files = (checkout / "Dockerfile").read_text(), [checkout / file for file in BASE_FILES[target]]
    key = cache.content_key([debian, *stages.under(dockerfile, LAYERED[target])], files)
    base, record = f"docker.io/ballast/{LAYERED[target]}:", layout / "base"
    made_from, _, known = record.read_text().partition(" ") if record.exists() else ("", "", "")
    if made_from == key and known in layered.names(layout) and _stored(known):
        return known
    with steps.step(f"image {base[:-1]}, the first time 10 minutes and 15 GB of disk") as step:
        _bud(LAYERED[target], f"{base}latest", debian, checkout, step)
        number = shell.run(*_buildah(), "images", "-q", "--no-trunc", f"{base}latest").strip().removeprefix("sha256:")
        base += number[:16]
        if base not in layered.names(layout):
            shell.run(*_buildah(), "tag", f"{base.partition(':')[0]}:latest", base)
            _push(base, layout)
        record.write_text(f"{key} {base}")
    return base


def _stored(name: str) -> bool:
    """Whether the builder has an image of this name."""
    return shell.attempt(*_buildah(), "inspect", "--type=image", name).returncode == 0


def loaded_layered(cluster: LocalCluster, image: layered.Layered, steps: Steps) -> str:
    """Load a large image into the nodes that have not got it, one after the other, and return its name."""
    for node in cluster.nodes:
        if image.name not in node.images():
            with steps.step(f"{image.name} into {node.name}") as step:
                step.result = f"{image.load(node) / 1e6:.0f} MB"
    return image.name


def _push(name: str, layout: Path) -> None:
    """Into a layout: layers that are there are not written again, which buildah sees of uncompressed ones only."""
    shell.run(*_buildah(), "push", "-q", "--disable-compression", name, f"oci:{layout}:{name}")


def names(checkout: Path = CHECKOUT, targets: Iterable[str] = DEFAULT) -> dict[str, str]:
    """Names of the images of this checkout's content by target, built or not."""
    return {target: planned(target, checkout).name for target in targets}


def loaded(cluster: LocalCluster, built: Iterable[BuiltImage], steps: Steps) -> dict[str, str]:
    """Load images into the nodes that have not got them, and return their names by target.

    A name stands for its content, so a look at a node's names is enough.
    """
    by_target = {}
    for image in built:
        lacking = [node for node in cluster.nodes if image.name not in node.images()]
        if lacking:
            with steps.step(f"{image.name} into {', '.join(node.name for node in lacking)}"):
                each(lambda node, archive=image.archive: node.load(archive), lacking)  # type: ignore[misc]
        by_target[image.target] = image.name
    return by_target


def _build(image: BuiltImage, base: str, checkout: Path, steps: Steps) -> None:
    made = image.archive.with_suffix(".new")
    made.unlink(missing_ok=True)
    with steps.step(f"image {image.repository}") as step:
        _bud(image.target, image.name, base, checkout, step)
        shell.run(*_buildah(), "push", "-q", *COMPRESSION, image.name, f"oci-archive:{made}:{image.name}")
        size = made.stat().st_size
        if size > (limit := LARGEST_OF.get(image.target, LARGEST)):
            made.unlink()
            raise ClusterError(f"image {image.name} has {size / 1e6:.0f} MB, more than {limit / 1e6:.0f} MB")
        made.rename(image.archive)
        step.result = f"{size / 1e6:.0f} MB"
    _tidy()


def _tidy() -> None:
    """Give disk back: what killed builds left, and all but the newest images of each name with the layers they alone
    have. Only with the lock: nobody else builds then."""
    shell.attempt("nice", *_buildah(), "rm", "--all")
    found = json.loads(shell.run(*_buildah(), "images", "--json"))
    dated = sorted(((image["createdatraw"], name) for image in found for name in image["names"] or ()), reverse=True)
    repositories: dict[str, list[str]] = {}
    for _, name in dated:
        repositories.setdefault(name.rpartition(":")[0], []).append(name)
    old = [name for names in repositories.values() for name in names[KEPT:]]
    if old:
        shell.attempt("nice", *_buildah(), "rmi", *old)
        shell.attempt("nice", *_buildah(), "rmi", "--prune")


def _bud(target: str, name: str, base: str, checkout: Path, step: Step, *arguments: str) -> None:
    options = ["--isolation=chroot", "--network=host", "--layers", "--target", target]
    options += [f"--build-arg={argument}" for argument in (f"BASE={base}", *arguments)]
    if CERTIFICATES.exists():
        # The machine's own certificates: pip in the build trusts the package index that the machine trusts.
        options += ["--volume", f"{CERTIFICATES}:/run/certificates.crt:ro"]
        options += ["--build-arg", "PIP_CERT=/run/certificates.crt"]
    _watch([*_buildah(), "bud", *options, "-t", name, str(checkout)], step)


def _watch(argv: list[str], step: Step) -> None:
    """Run a build and tell which of its steps it is at."""
    said: list[str] = []
    with subprocess.Popen(
        ["nice", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if "STEP " in line:
                step.note(line.strip()[:90])
    if process.returncode:
        raise shell.failed(argv, process.returncode, "".join(said))


def _buildah() -> list[str]:
    """buildah with its storage in the user's cache, so that the machine's own images are left alone."""
    home = cache.folder("buildah")
    return ["buildah", "--root", str(home / "root"), "--runroot", str(home / "run")]


def _base(steps: Steps) -> str:
    """A minimal Debian as the base image, made without a registry: debootstrap, cleaned, packed, pulled."""
    name = f"docker.io/ballast/base:{SUITE}-{cache.content_key([SUITE, archive.FORMAT, *NEEDLESS])}"
    if _stored(name):
        return name
    with steps.step(f"base image: Debian {SUITE}") as step, tempfile.TemporaryDirectory(prefix="base") as scratch:
        root, packed = Path(scratch) / "root", Path(scratch) / "base.tar"
        step.note("debootstrap")
        shell.run("debootstrap", "--variant=minbase", SUITE, root, MIRROR)
        for folder in NEEDLESS:
            shutil.rmtree(root / folder, ignore_errors=True)
        _keep_licences(root / "usr/share/doc")
        step.note("packing")
        archive.write(archive.Image(name), packed, root)
        shell.run(*_buildah(), "pull", "-q", f"oci-archive:{packed}")
    return name


def _keep_licences(docs: Path) -> None:
    for path in docs.rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
