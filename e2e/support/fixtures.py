"""Fixtures of all scenarios: the chart installed once, a namespace a test, and operators run from here."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from e2e.cluster.local import LocalCluster
from e2e.support.audit import Audit
from e2e.support.chart import deploy
from e2e.support.kube import Kube, eventually
from e2e.support.operator import SYSTEM, OperatorProcess, account_kubeconfig

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
DEPLOYMENT = "ballast-operator"


class OperatorHere(Protocol):
    """Makes an operator for some namespaces, as the chart's service account; start it with `with` or `start`."""

    def __call__(self, *namespaces: str, kubeconfig: Path | None = None, **environment: str) -> OperatorProcess: ...


class Namespaces:
    """Namespaces of tests, restricted as a careful cluster has them; deleted at the end of the session."""

    def __init__(self, admin: Kube) -> None:
        self._admin = admin
        self._session = secrets.token_hex(3)
        self._made: list[str] = []

    def new(self) -> Kube:
        name = f"t-{self._session}-{len(self._made) + 1:02d}"
        meta = {"name": name, "labels": RESTRICTED}
        self._admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        self._made.append(name)
        kube = self._admin.inside(name)
        eventually(lambda: kube.get("serviceaccount", "default"), 20, lambda: "no default service account")
        return kube

    def drop(self, kube: Kube) -> None:
        """Delete one that is done with: a solve that goes on would slow down every later test."""
        self._admin.run("delete", "namespace", kube.namespace, "--ignore-not-found", "--wait=false")

    def close(self) -> None:
        for name in self._made:
            self.drop(self._admin.inside(name))


@pytest.fixture(scope="session")
def admin(cluster_kubeconfig: Path) -> Kube:
    """The cluster with all rights."""
    return Kube(cluster_kubeconfig)


@pytest.fixture(scope="session")
def namespaces(admin: Kube) -> Iterator[Namespaces]:
    made = Namespaces(admin)
    yield made
    made.close()


@pytest.fixture(scope="session")
def installed(admin: Kube, images: dict[str, str]) -> None:
    """The chart, with the operator running."""
    deploy(admin, images)


@pytest.fixture
def kube(installed: None, namespaces: Namespaces) -> Iterator[Kube]:
    """A namespace of the test's own, in which the operator of the cluster works."""
    made = namespaces.new()
    yield made
    namespaces.drop(made)


@pytest.fixture
def operator_here(installed: None, admin: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorHere]:
    """Operators on this machine; the one in the cluster stands aside meanwhile."""
    folder = tmp_path_factory.mktemp("operator")
    system = admin.inside(SYSTEM)
    scale(system, 0)
    own = account_kubeconfig(admin, folder / "kubeconfig")
    started: list[OperatorProcess] = []

    def make(*namespaces: str, kubeconfig: Path | None = None, **environment: str) -> OperatorProcess:
        settings = {"BALLAST_NAMESPACES": ",".join(namespaces), **_images(system), **environment}
        operator = OperatorProcess(kubeconfig or own, folder / f"operator-{len(started)}.log", settings)
        started.append(operator)
        return operator

    yield make
    for operator in started:
        operator.stop()
    scale(system, 1)


def scale(system: Kube, replicas: int) -> None:
    """Bring the operator's Deployment to so many pods, and wait until that is so."""
    system.run("scale", "deployment", DEPLOYMENT, f"--replicas={replicas}")
    if replicas:
        system.run("rollout", "status", f"deployment/{DEPLOYMENT}", "--timeout=60s", seconds=70)
    else:
        selector = "app.kubernetes.io/name=ballast-operator"
        eventually(lambda: not system.list("pods", selector), 120, lambda: "the operator's pod is still there")


def _images(system: Kube) -> dict[str, str]:
    """What the chart tells the operator of images, for one that runs outside of it."""
    deployment = system.get("deployment", DEPLOYMENT)
    assert deployment
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry["value"] for entry in env if entry["name"].endswith("_IMAGE") and "value" in entry}


@pytest.fixture(scope="session")
def cfr_image(images: dict[str, str]) -> str:
    return images["cfr"]


@pytest.fixture(scope="session")
def local(cluster_kubeconfig: Path) -> LocalCluster:
    """The cluster of this checkout, for tests that make a node or the API server fail; skipped on any other cluster."""
    found = LocalCluster.find()
    if found is None or found.layout.kubeconfig.resolve() != cluster_kubeconfig.resolve():
        pytest.skip("needs the local cluster: it makes a node or the API server fail")
    return found


@pytest.fixture(scope="session")
def audit(local: LocalCluster) -> Audit:
    return Audit(local.layout.logs / "audit.log")
