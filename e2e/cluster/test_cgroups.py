from pathlib import Path

import pytest

from e2e.cluster.cgroups import NEEDED, Cgroups
from e2e.cluster.errors import ClusterError


def tree(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "cgroup.procs").write_text("1\n")
    return path


@pytest.fixture
def hybrid(tmp_path: Path) -> Path:
    """Version 1 as many distributions mount it: cpu and cpuacct together, with a link for each, and a unified tree."""
    tree(tmp_path / "cpu,cpuacct")
    for name in ("cpu", "cpuacct"):
        (tmp_path / name).symlink_to("cpu,cpuacct")
    for name in ("memory", "pids", "cpuset", "systemd", "unified"):
        tree(tmp_path / name)
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0\n")
    return tmp_path


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    tree(tmp_path / "two")
    (tmp_path / "two/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "two/cgroup.subtree_control").write_text("cpu memory\n")
    return tmp_path / "two"


def test_version_one_has_a_group_in_every_tree(hybrid: Path) -> None:
    found = Cgroups.detect(hybrid)
    found.make("n")
    assert found.version == 1
    assert {group.parent.name for group in found.groups("n")} == {
        "cpu,cpuacct",
        "memory",
        "pids",
        "cpuset",
        "systemd",
        "unified",
    }


def test_a_new_cpuset_gets_its_parents_cpus(hybrid: Path) -> None:
    group = hybrid / "cpuset/n"
    group.mkdir()
    (group / "cpuset.cpus").write_text("\n")  # the kernel makes these two files, empty
    (group / "cpuset.mems").write_text("\n")
    Cgroups.detect(hybrid).make("n")
    assert (group / "cpuset.cpus").read_text() == "0-1\n"
    assert (group / "cpuset.mems").read_text() == "0\n"


def test_version_two_has_one_group_and_hands_controllers_down(unified: Path) -> None:
    found = Cgroups.detect(unified)
    found.make("n")
    assert found.version == 2
    assert found.groups("n") == [unified / "n"]
    assert (unified / "cgroup.subtree_control").read_text() == "+cpuset +pids"


def test_only_our_own_groups_are_removed(hybrid: Path) -> None:
    found = Cgroups.detect(hybrid)
    tree(hybrid / "memory/machine")
    found.make("n")
    (hybrid / "memory/n/kubepods/pod1").mkdir(parents=True)
    found.remove("n")
    assert found.groups("n") == []
    assert (hybrid / "memory/machine").is_dir()


def test_processes_of_a_nodes_pods_are_found_at_any_depth(hybrid: Path) -> None:
    found = Cgroups.detect(hybrid)
    found.make("n")
    pod = tree(hybrid / "pids/n/kubepods/pod1")
    (pod / "cgroup.procs").write_text("41\n42\n")
    assert found.processes("n") == {41, 42}


@pytest.mark.parametrize("absent", NEEDED)
def test_a_missing_controller_is_named_with_the_ways_out(unified: Path, absent: str) -> None:
    (unified / "cgroup.controllers").write_text(" ".join(c for c in NEEDED if c != absent))
    with pytest.raises(ClusterError, match=rf"no cgroup controllers {absent}; .*CLUSTER=kind or KUBECONFIG"):
        Cgroups.detect(unified)


def test_a_machine_without_cgroups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no cgroup controllers"):
        Cgroups.detect(tmp_path)
