"""CLUSTER=kind: the same commands on Docker and kind, for machines that have them and no root."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from e2e.cluster import images, shell, tools
from e2e.cluster.errors import ClusterError
from e2e.cluster.images import BuiltImage
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps

NAME = "ballast"
CONFIG = CHECKOUT / "e2e" / "kind" / "cluster.yaml"
KUBECONFIG = CHECKOUT / ".cluster" / "kind.kubeconfig"


def exists() -> bool:
    return NAME in shell.run(_program("kind"), "get", "clusters").split()


def up(steps: Steps) -> Path:
    """Make the cluster if there is none, and return its kubeconfig."""
    _program("docker")
    KUBECONFIG.parent.mkdir(exist_ok=True)
    if exists():
        shell.run("kind", "export", "kubeconfig", "--name", NAME, "--kubeconfig", KUBECONFIG)
        return KUBECONFIG
    with steps.step("kind cluster of two nodes"):
        shell.run("kind", "create", "cluster", "--config", CONFIG, "--kubeconfig", KUBECONFIG, "--wait", "120s")
    return KUBECONFIG


def down(steps: Steps) -> bool:
    """Remove the cluster. False if there was none."""
    if not exists():
        return False
    with steps.step("kind cluster"):
        shell.run("kind", "delete", "cluster", "--name", NAME, "--kubeconfig", KUBECONFIG)
    KUBECONFIG.unlink(missing_ok=True)
    return True


def build(targets: Iterable[str], steps: Steps) -> list[BuiltImage]:
    """Build the project's images with Docker, on the base that the Dockerfile names."""
    planned = [images.planned(target) for target in targets]
    for image in planned:
        with steps.step(f"image {image.name}"):
            shell.run(_program("docker"), "build", "-q", "--target", image.target, "-t", image.name, CHECKOUT)
    return planned


def loaded(built: Iterable[BuiltImage], steps: Steps) -> dict[str, str]:
    """Load images that Docker built into the nodes, and return their names by target."""
    built = list(built)
    for image in built:
        with steps.step(f"{image.name} into the nodes"):
            shell.run(_program("kind"), "load", "docker-image", "--name", NAME, image.name)
    return {image.target: image.name for image in built}


def _program(name: str) -> str:
    found = tools.find(name)
    if found is None:
        raise ClusterError(f"CLUSTER=kind needs the program {name}, which is missing; install it or unset CLUSTER")
    return found
