"""The cluster that tests run against: KUBECONFIG's, kind's, or the local one, brought up when the first test asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import api
from e2e.cluster import images as built
from e2e.support.cxl_fixtures import fabric, space  # noqa: F401
from e2e.support.fixtures import (  # noqa: F401
    admin,
    audit,
    cfr_image,
    installed,
    kube,
    local,
    namespaces,
    operator_here,
)

SERVING = ("router", "serving")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[api.Cluster]:
    """A cluster with every add-on. One that was not up before is taken down afterwards: tests leave nothing behind."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    there = api.exists()
    try:
        with capture.global_and_fixture_disabled():  # it may take minutes the first time: let people see why
            found = api.ensure(api.ALL_ADDONS)
        yield found
    finally:
        if not there:
            with capture.global_and_fixture_disabled():
                api.remove()


@pytest.fixture(scope="session")
def cluster_kubeconfig(cluster: api.Cluster) -> Path:
    return cluster.kubeconfig


@pytest.fixture(scope="session")
def images(cluster: api.Cluster, request: pytest.FixtureRequest) -> dict[str, str]:
    """Names of the project's images by target, present on every node; those of serving when `serving_images` asks."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        return built.names(targets=SERVING) | cluster.ensure_images()


@pytest.fixture(scope="session")
def serving_images(cluster: api.Cluster, request: pytest.FixtureRequest) -> dict[str, str]:
    """The same, with the images that serve models: 4 GB, so that only tests that need them pay for them."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        return {target: cluster.ensure_image(target) for target in SERVING}


@pytest.fixture(scope="session")
def local_cluster(cluster: api.Cluster) -> api.Cluster:
    """The cluster, if it is one whose parts can be made to fail."""
    if cluster.local is None:
        pytest.skip("only the local cluster can be made to fail")
    return cluster
