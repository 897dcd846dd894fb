"""A cluster's life on the machine: beside another, killed, failing in parts, and gone without a trace.

All of it happens to a second cluster, of a checkout that is an empty folder, so that the one of this checkout and the
tests that use it are left alone.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import api, host, machine
from e2e.cluster.down import down
from e2e.cluster.host import Host
from e2e.cluster.local import LocalCluster
from e2e.cluster.processes import Process, wait_gone
from e2e.cluster.static_images import TOOLBOX_IMAGE
from e2e.cluster.steps import Steps
from e2e.cluster.test_cluster import until
from e2e.cluster.up import up

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
UP_BUDGET = 30.0  # seconds; the median of three is printed, three times it fails
SLEEPER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper", "namespace": "default"},
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "node1"},
        "containers": [{"name": "main", "image": TOOLBOX_IMAGE, "command": ["sleep", "3600"]}],
        "terminationGracePeriodSeconds": 0,
    },
}


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """Another checkout; whatever a test leaves of its cluster is ended."""
    if api.given() or api.uses_kind():
        pytest.skip("this is about the local cluster")
    yield tmp_path
    down(Steps(), tmp_path)


def sleeper(cluster: LocalCluster) -> str:
    """Run a pod on node1 and return the identity of its container."""
    kubectl = cluster.kubectl
    until(lambda: kubectl.attempt("get", "serviceaccount", "default").returncode == 0)
    kubectl.apply(SLEEPER)
    kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    return container(cluster)


def container(cluster: LocalCluster) -> str:
    return cluster.kubectl("get", "pod", "sleeper", "-o", "jsonpath={.status.containerStatuses[0].containerID}")


def test_down_leaves_nothing_of_a_cluster_with_pods(checkout: Path) -> None:
    alone = len(list(Host().records.glob("slot-*.json"))) == 0
    before = machine.snapshot()
    made = up(("local-path", "network-policy"), checkout=checkout)
    name, state = made.layout.name, str(made.layout.state)
    sleeper(made)
    assert machine.snapshot(name)["links"], "the snapshot sees what a cluster makes"
    assert machine.snapshot(state)["processes"]
    down(Steps(), checkout)
    assert not made.layout.state.exists()
    assert not any(facts for facts in machine.snapshot(name).values()), machine.snapshot(name)
    assert not any(facts for facts in machine.snapshot(state).values()), machine.snapshot(state)
    if alone:  # with other clusters about, their own changes stay and their pods come and go
        assert machine.changed(before, machine.snapshot()) == {}


def test_down_puts_kernel_settings_back(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "RECORDS", tmp_path / "records")  # a machine that knows of no other cluster
    settings = {Path("/proc/sys/kernel/panic"): "7", Path("/proc/sys/kernel/keys/root_maxbytes"): "20001"}
    found = {path: path.read_text() for path in settings}
    try:
        for path, value in settings.items():
            path.write_text(value)
        up(("none",), checkout=checkout)
        assert all(path.read_text().strip() != value for path, value in settings.items()), "kubelet sets them"
        down(Steps(), checkout)
        assert {path: path.read_text().strip() for path in settings} == settings
        assert not (tmp_path / "records").exists()
    finally:
        for path, value in found.items():
            path.write_text(value)


def test_up_is_ready_within_its_budget_three_times(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    took = []
    for _ in range(3):
        steps = Steps()
        up(("local-path", "network-policy"), steps, checkout)
        took.append(steps.seconds())
        down(Steps(), checkout)
    median = statistics.median(took)
    with capsys.disabled():
        print(f"\nup: median {median:.1f} s of {', '.join(f'{t:.1f}' for t in took)} (budget {UP_BUDGET:.0f} s)")
    assert median < 3 * UP_BUDGET


def test_two_checkouts_have_a_cluster_each(cluster: api.Cluster, checkout: Path) -> None:
    assert cluster.local is not None
    other = up(("none",), checkout=checkout)
    assert other.layout.slot != cluster.local.layout.slot
    assert other.unready() == []
    assert cluster.local.unready() == []
    down(Steps(), checkout)
    assert cluster.local.running, "ending one must not touch the other"
    assert cluster.local.unready() == []
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text().strip() == "1"


def test_up_works_after_everything_was_killed_from_outside(checkout: Path) -> None:
    made = up(("local-path", "network-policy"), checkout=checkout)
    first = sleeper(made)
    killed = made.daemons.all()
    for process in killed:
        process.send(signal.SIGKILL)
    wait_gone(killed)
    assert not made.running
    up(("local-path", "network-policy"), checkout=checkout)
    assert made.running
    assert made.unready() == []
    until(lambda: made.kubectl.attempt("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=5s").returncode == 0)
    until(lambda: container(made) != first)


def test_up_again_changes_nothing_and_is_quick(checkout: Path) -> None:
    made = up(("local-path",), checkout=checkout)
    before = {name: made.daemons.get(name) for name in made.expected()}
    began = time.monotonic()
    up(("local-path",), checkout=checkout)
    assert time.monotonic() - began < UP_BUDGET / 2
    assert {name: made.daemons.get(name) for name in made.expected()} == before


def test_a_pod_runs_on_while_kubelet_restarts(checkout: Path) -> None:
    made = up(("none",), checkout=checkout)
    first = sleeper(made)
    node = made.node("node1")
    old = made.daemons.get("node1-kubelet")
    node.restart_kubelet()
    assert made.daemons.get("node1-kubelet") != old
    until(lambda: made.unready() == [])
    assert container(made) == first


def test_a_node_that_reboots_comes_back_with_its_disk_and_runs_its_pods_again(checkout: Path) -> None:
    made = up(("none",), checkout=checkout)
    first = sleeper(made)
    node = made.node("node1")
    images = node.images()
    node.reboot()
    assert node.images() == images
    until(lambda: made.unready() == [])
    until(lambda: container(made) != first)
    made.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")


def test_a_node_that_is_off_is_noticed_and_leaves_no_process(checkout: Path) -> None:
    made = up(("none",), checkout=checkout)
    sleeper(made)
    node = made.node("node1")
    inside = node.process
    assert inside is not None
    node.stop()
    assert not machine.snapshot(node.layout.cgroup)["cgroups"]
    assert Process.of(inside.pid) is None
    until(lambda: made.unready() == ["node1"], 90)
    assert "init and containerd and kubelet and kube-proxy ended; the log of its init ends: " in made.symptoms()
    node.start()
    until(lambda: made.unready() == [])
    assert made.symptoms() == ""


def test_the_api_server_can_go_and_come_back(checkout: Path) -> None:
    made = up(("none",), checkout=checkout)
    made.stop_apiserver()
    assert made.kubectl.attempt("get", "nodes").returncode != 0
    made.start_apiserver()
    assert len(made.kubectl.get("nodes")["items"]) == 2
    until(lambda: made.unready() == [])
