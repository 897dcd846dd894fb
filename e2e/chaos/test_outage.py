"""An API server that goes away and comes back, and one that shows a broken view."""

import time
from pathlib import Path

import pytest

from e2e.chaos.test_crash import ask, settle
from e2e.cluster.local import LocalCluster
from e2e.support.fixtures import Namespaces, OperatorHere
from e2e.support.kube import Kube, eventually, is_true, solve
from e2e.support.operator import SYSTEM, account_kubeconfig
from e2e.support.proxy import Faults, Proxy

AWAY_SECONDS = 20
BUDGET_SECONDS = 5.0

BROKEN_VIEWS = {
    "late": Faults(delay_seconds=4, seed=1),
    "dropped": Faults(drop=0.4, seed=2),
    "replayed": Faults(replay=0.5, seed=3),
    "cut": Faults(cut=0.2, seed=4),
    "expired": Faults(gone=0.5, cut=0.1, seed=5),
    "refusing": Faults(refuse=0.15, seed=6),
    "all": Faults(delay_seconds=2, drop=0.2, replay=0.2, cut=0.1, gone=0.2, refuse=0.1, seed=7),
}


@pytest.mark.e2e
def test_a_new_object_is_seen_within_five_seconds_of_the_api_servers_return(kube: Kube, local: LocalCluster) -> None:
    kube.apply(solve("before"))
    kube.until("cfr", "before", is_true("Complete"), 90)
    local.stop_apiserver()
    time.sleep(AWAY_SECONDS)
    local.start_apiserver()
    kube.apply(solve("after", suspend=True))
    took = eventually(
        lambda: is_true("Suspended")(kube.get("cfr", "after") or {}), 3 * BUDGET_SECONDS, lambda: "not reconciled"
    )
    print(f"new object reconciled {took:.1f} s after the API server's return (budget {BUDGET_SECONDS} s)")
    seen = kube.inside(SYSTEM).list("pods", "app.kubernetes.io/name=ballast-operator")
    print("operator restarts:", [s["restartCount"] for pod in seen for s in pod["status"]["containerStatuses"]])
    controllers_are_back(kube)


def controllers_are_back(kube: Kube) -> None:
    """The cluster's own controllers find the API server later than ours; the next test's namespace needs them."""
    kube.delete("serviceaccount", "default")
    eventually(
        lambda: kube.get("serviceaccount", "default"), 120, lambda: "the default service account is not put back"
    )


_calm: list[dict[str, object]] = []


@pytest.fixture
def calm_state(namespaces: Namespaces, operator_here: OperatorHere) -> list[dict[str, object]]:
    """The end state with nothing in the way; found once."""
    if not _calm:
        kube = namespaces.new()
        ask(kube)
        with operator_here(kube.namespace):
            _calm.extend(settle(kube))
        namespaces.drop(kube)
    return _calm


@pytest.mark.e2e
@pytest.mark.parametrize("view", BROKEN_VIEWS)
def test_a_broken_view_ends_in_the_same_state(
    view: str,
    calm_state: list[dict[str, object]],
    namespaces: Namespaces,
    operator_here: OperatorHere,
    tmp_path: Path,
) -> None:
    kube = namespaces.new()
    with Proxy(kube.kubeconfig, BROKEN_VIEWS[view]) as proxy:
        config = account_kubeconfig(kube, tmp_path / "kubeconfig", server=proxy.url)
        operator = operator_here(kube.namespace, kubeconfig=config, BALLAST_RESYNC_SECONDS="5")
        with operator.kept_running():
            ask(kube)
            kube.until("job", "runs-solve", lambda _: True, 60)
            kube.patch("job", "runs-solve", {"spec": {"backoffLimit": 1}})
            kube.delete("configmap", "runs-strategy")
            eventually(lambda: _whole(kube), 60, lambda: "a child is not put back")
            state = settle(kube)
    namespaces.drop(kube)
    print(f"{view}: {proxy.counts or 'every event late'}; {operator.restarts} restarts of the operator")
    assert state == calm_state
    assert proxy.counts or view == "late"


def _whole(kube: Kube) -> bool:
    job = kube.get("job", "runs-solve")
    return bool(job and job["spec"]["backoffLimit"] == 6 and kube.get("configmap", "runs-strategy"))
