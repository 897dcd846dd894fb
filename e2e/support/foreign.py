"""Kinds of other projects, out of their own Go modules: real schemas without copies of them in this repository."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import shell, tools
from e2e.cluster.build import ENVIRONMENT
from e2e.cluster.steps import Steps
from e2e.cluster.versions import LWS
from e2e.support.kube import Kube, Object, is_true

MODULES = {
    f"{LWS.requires}@v{LWS.version}": "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "sigs.k8s.io/gateway-api@v1.4.0": "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    "github.com/kedacore/keda/v2@v2.18.0": "config/crd/bases/keda.sh_scaledobjects.yaml",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"
    ),
}


def crds() -> list[Object]:
    """Their CustomResourceDefinitions."""
    go = tools.go(Steps())
    found: list[Object] = []
    with tempfile.TemporaryDirectory() as empty:  # not in a module of ours, whose go.mod would be asked
        for module, file in MODULES.items():
            said: dict[str, Any] = json.loads(
                shell.run(go, "mod", "download", "-json", module, cwd=Path(empty), env=ENVIRONMENT)
            )
            found += list(yaml.load_all((Path(said["Dir"]) / file).read_text(), Loader=yaml.CSafeLoader))
    return found


def install(kube: Kube) -> None:
    for crd in crds():
        kube.apply(crd, server_side=True)
        # `kubectl wait` fails where there are no conditions yet.
        kube.until("crd", crd["metadata"]["name"], is_true("Established"), 60)


@contextmanager
def installed(kube: Kube) -> Iterator[None]:
    """All of them for as long as the block lasts, and none afterwards, however far it came."""
    try:
        install(kube)
        yield
    finally:
        remove(kube)


def remove(kube: Kube) -> None:
    for crd in crds():
        kube.delete("crd", crd["metadata"]["name"])
