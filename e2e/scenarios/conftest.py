"""Fixtures of the scenarios that need the CRD and no operator."""

from pathlib import Path
from typing import Any

import kubernetes
import pytest

from e2e.support.api_server import CRD
from e2e.support.chart import CHART, RELEASE, run_helm
from e2e.support.kube import Kube, is_true
from e2e.support.operator import SYSTEM


@pytest.fixture(scope="session")
def bare(cluster_kubeconfig: Path) -> Kube:
    """A server with the CRD of this checkout. It comes by the chart, without an operator if there is none yet."""
    kube = Kube(cluster_kubeconfig)
    there = run_helm(kube, "list", "-n", SYSTEM, "--filter", f"^{RELEASE}$", "-q").strip()
    kept = ["--reset-then-reuse-values"] if there else ["--set", "operator.replicas=0"]
    ours = ["--take-ownership", "--force-conflicts"]  # a CRD that somebody applied by hand
    run_helm(kube, "upgrade", "--install", RELEASE, str(CHART), "-n", SYSTEM, "--create-namespace", *kept, *ours)
    kube.until("crd", CRD, is_true("Established"), 30)
    return kube


@pytest.fixture(scope="session")
def api(bare: Kube) -> Any:
    """Custom objects through the Python client, which needs no process for each question."""
    client: Any = kubernetes.config.new_client_from_config  # without types in the package
    return kubernetes.client.CustomObjectsApi(client(str(bare.kubeconfig)))
