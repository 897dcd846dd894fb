from pathlib import Path

import pytest

from e2e.cluster import api, preflight, tools
from e2e.cluster.addons import table
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps


def test_kubeconfig_chooses_any_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    found = api.ensure()
    assert found.kubeconfig == tmp_path / "config"
    assert found.audit_log is None
    with pytest.raises(api.NotLocalError, match="unset KUBECONFIG"):
        found.stop_apiserver()


def test_the_local_clusters_own_kubeconfig_still_means_the_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(CHECKOUT / ".cluster" / "kubeconfig"))
    assert api.given() is None


def test_an_unknown_kind_of_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("CLUSTER", "minikube")
    with pytest.raises(ClusterError, match="CLUSTER=minikube is not known; it is kind or local"):
        api.ensure()


def test_kind_without_docker_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("CLUSTER", "kind")
    monkeypatch.setattr(tools, "find", lambda program: None)
    with pytest.raises(ClusterError, match="CLUSTER=kind needs the program docker, which is missing"):
        api.ensure()


def test_without_root_the_ways_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match=r"needs root .*sudo -E, or use CLUSTER=kind .*KUBECONFIG"):
        preflight.check()


def test_too_little_disk_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "BUILD_BYTES", 10**18)
    monkeypatch.setattr(preflight, "RUN_BYTES", 10**18)
    with pytest.raises(ClusterError, match=r"GB of disk left and 1000000000 GB are needed; .*XDG_CACHE_HOME"):
        preflight._disk()


def test_missing_packages_without_apt_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find", lambda program: None)
    with pytest.raises(ClusterError, match=r"these programs are missing: .*runc.*; install them"):
        tools.ensure_packages(tools.NODE_PACKAGES, Steps())


def test_addons_are_chosen_by_name() -> None:
    assert [a.name for a in table.chosen(["coredns", "local-path", "coredns"])] == ["local-path", "coredns"]
    assert table.chosen(["none"]) == []
    assert len(table.chosen(["all"])) == len(table.ALL)
    assert [a.name for a in table.chosen(["leader-worker-set", "all"])][-1] == "leader-worker-set"
    assert len(table.chosen(["leader-worker-set", "all"])) == len(table.ALL) + 1
    with pytest.raises(ClusterError, match="there is no add-on istio; add-ons are local-path, "):
        table.chosen(["istio"])
