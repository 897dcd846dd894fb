"""Fixtures of scenarios on a node with a GPU: the CRDs, an operator on this machine, namespaces, volumes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster.layout import CHECKOUT
from e2e.gpu.node import HOST_FOLDERS, GpuNode
from e2e.support.kube import Kube, Object
from e2e.support.operator import OperatorProcess

SOLVER = "docker.io/local/solver:1"
PYTHON = "/opt/torch/.venv/bin/python3"
PROJECT = "/opt/ballast"

Volume = Callable[[str], Path]


@pytest.fixture(scope="session")
def node() -> GpuNode:
    """The node that `python -m e2e.gpu run` brought up."""
    home = os.environ.get("BALLAST_GPU_HOME")
    if home is None:
        pytest.skip("runs on a machine with a GPU, by `python -m e2e.gpu run`")
    return GpuNode(Path(home) / "node")


@pytest.fixture(scope="session")
def gpu_admin(node: GpuNode) -> Kube:
    admin = Kube(node.layout.kubeconfig)
    admin.run("apply", "--server-side", "-k", str(CHECKOUT / "crds"))
    admin.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return admin


@pytest.fixture(scope="module")  # those of other modules have other images
def operator(node: GpuNode, gpu_admin: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """The operator, with images whose programs are this machine's."""
    environment = {"PYTHONPATH": PROJECT, "HOME": "/tmp", "USER": "ballast", "NUMBA_CACHE_DIR": "/tmp/numba"}
    node.load_host_image(SOLVER, [PYTHON, "-m", "ballast_cfr"], environment)
    images = {"BALLAST_CFR_IMAGE": SOLVER, "BALLAST_CFR_GPU_IMAGE": SOLVER}
    log = tmp_path_factory.mktemp("operator") / "log"
    with OperatorProcess(gpu_admin.kubeconfig, log, images) as process:
        yield process
    print(log.read_text()[-4000:])


@pytest.fixture
def kube(gpu_admin: Kube, operator: OperatorProcess) -> Iterator[Kube]:
    """A namespace of the test's own. Not restricted: a pod's programs come from folders of the machine."""
    name = f"g-{secrets.token_hex(3)}"
    gpu_admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield gpu_admin.inside(name)
    gpu_admin.run("delete", "namespace", name, "--wait=false")


@pytest.fixture
def volume(kube: Kube, tmp_path: Path) -> Volume:
    """Makes a claim bound to a folder of this machine, and returns the folder."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o777)
        for parent in folder.parents:
            if parent.owner() == "root" and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        shared: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        full = f"{kube.namespace}-{name}"
        spec = {**shared, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}}
        kube.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": full}, "spec": spec})
        claim = {**shared, "volumeName": full, "resources": {"requests": {"storage": "1Gi"}}}
        kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim})
        return folder

    return make


def host_template(node: GpuNode, **more: Object) -> Object:
    """A pod template whose programs are this machine's. Services are not routed here: pods call the API by address."""
    folders = [path for path in HOST_FOLDERS if Path(path).is_dir()]
    mounts = [{"name": f"host-{n}", "mountPath": path, "readOnly": True} for n, path in enumerate(folders)]
    volumes: list[Object] = [{"name": f"host-{n}", "hostPath": {"path": path}} for n, path in enumerate(folders)]
    return {
        "volumes": [*volumes, {"name": "project", "hostPath": {"path": str(CHECKOUT / "workloads")}}],
        "volumeMounts": [*mounts, {"name": "project", "mountPath": PROJECT, "readOnly": True}],
        "env": [
            {"name": "KUBERNETES_SERVICE_HOST", "value": node.layout.gateway},
            {"name": "KUBERNETES_SERVICE_PORT", "value": str(node.layout.ports.api)},
        ],
        **more,
    }
