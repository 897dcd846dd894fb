"""A real API server with a feature gate off: the region controller refuses to start, and says which gate it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_cxl.controller.main import EXIT_GATE
from e2e.cluster.local import LocalCluster
from e2e.support import cxl
from e2e.support.chart import deploy
from e2e.support.kube import Kube, eventually
from e2e.support.operator import OperatorProcess, account_kubeconfig

GATES = ("DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAPartitionableDevices")


@pytest.fixture(scope="module")
def rights(
    admin: Kube, images: dict[str, str], local: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The controller's account; the API server is as it was afterwards."""
    cxl.prepare_namespace(admin)
    deploy(admin, images, *cxl.NOBODY)
    try:
        yield account_kubeconfig(admin, tmp_path_factory.mktemp("gates") / "kubeconfig", account="ballast-cxl")
    finally:
        restart(local)
        deploy(admin, images)


def restart(local: LocalCluster, *off: str) -> None:
    """The API server anew, with these gates off."""
    local.stop_apiserver()
    local.start_apiserver(**({"feature-gates": ",".join(f"{gate}=false" for gate in off)} if off else {}))


def ended(controller: OperatorProcess) -> str:
    """What a controller said that ended by itself for want of a gate."""
    with controller:
        eventually(lambda: controller.exit_code() is not None, 30, lambda: "it runs")
        assert controller.exit_code() == EXIT_GATE
    return next(line for line in controller.log.read_text().splitlines() if line.startswith("error: "))


@pytest.mark.e2e
@pytest.mark.parametrize("off", [*((gate,) for gate in GATES), GATES], ids=[*GATES, "all"])
def test_a_gate_that_is_off_is_named_and_nothing_starts(
    off: tuple[str, ...], rights: Path, local: LocalCluster, tmp_path: Path
) -> None:
    restart(local, *off)
    said = ended(cxl.controller(rights, tmp_path / "controller.log"))
    print(said)
    assert said.startswith(f"error: feature gate {', '.join(off)} of the API server is off; switch it on for ")
    assert "cxl.enabled=false" in said
