from pathlib import Path

import pytest

from e2e.cluster import host
from e2e.cluster.errors import ClusterError
from e2e.cluster.host import SYSCTLS, Host
from e2e.cluster.layout import SLOTS


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A machine with made-up kernel settings, no routes and no ports in use."""
    for name in SYSCTLS:
        setting = tmp_path / "proc" / name.replace(".", "/")
        setting.parent.mkdir(parents=True, exist_ok=True)
        setting.write_text("0\n")
    monkeypatch.setattr(host, "_routed", list)
    monkeypatch.setattr(host, "_port_is_free", lambda port: True)
    return Host(tmp_path / "records", tmp_path / "proc")


def test_a_checkout_keeps_its_slot(machine: Host) -> None:
    first = machine.claim(Path("/a"), [])
    assert machine.claim(Path("/a"), []) == first
    assert machine.find(Path("/a")) == first
    assert machine.find(Path("/b")) is None


def test_every_checkout_has_a_slot_of_its_own(machine: Host) -> None:
    slots = {machine.claim(Path(f"/checkout-{n}"), []).slot for n in range(SLOTS)}
    assert slots == set(range(SLOTS))
    with pytest.raises(ClusterError, match=f"all {SLOTS} slots are taken"):
        machine.claim(Path("/one-too-many"), [])


def test_a_slot_whose_port_is_in_use_is_passed_over(machine: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.claim(Path("/a"), [])
    machine.release(first)
    monkeypatch.setattr(host, "_port_is_free", lambda port: port not in first.ports.all())
    assert machine.claim(Path("/a"), []).slot != first.slot


def test_a_slot_whose_network_is_routed_elsewhere_is_passed_over(
    machine: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine.claim(Path("/a"), [])
    machine.release(first)
    monkeypatch.setattr(host, "_routed", lambda: [first.services])
    assert machine.claim(Path("/a"), []).slot != first.slot


def test_the_last_cluster_puts_kernel_settings_back(machine: Host) -> None:
    panic = machine.proc / "kernel/panic"
    one, other = machine.claim(Path("/a"), []), machine.claim(Path("/b"), [])
    panic.write_text("10\n")
    machine.release(one)
    assert panic.read_text() == "10\n", "the other cluster still runs"
    machine.release(other)
    assert panic.read_text().strip() == "0"
    assert not machine.records.exists()


def test_folders_made_for_nodes_go_and_those_of_others_stay(machine: Host, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    points = [tmp_path / "etc/cni/net.d", tmp_path / "lib/kubelet", tmp_path / "lib/containerd"]
    layout = machine.claim(Path("/a"), points)
    assert all(point.is_dir() for point in points)
    (tmp_path / "lib/containerd/theirs").touch()
    machine.release(layout)
    assert (tmp_path / "etc").is_dir()
    assert not (tmp_path / "etc/cni").exists()
    assert not (tmp_path / "lib/kubelet").exists()
    assert (tmp_path / "lib/containerd/theirs").exists()


def test_a_claim_repeated_after_a_crash_remembers_the_first_settings(machine: Host) -> None:
    setting = machine.proc / "vm/overcommit_memory"
    layout = machine.claim(Path("/a"), [])
    setting.write_text("1\n")
    machine.claim(Path("/a"), [])
    machine.release(layout)
    assert setting.read_text().strip() == "0"


def test_few_inotify_instances_become_enough_and_many_stay(machine: Host) -> None:
    folder = machine.proc / "fs/inotify"
    (folder / "max_user_instances").write_text("128\n")
    (folder / "max_user_watches").write_text("9000000\n")
    host.allow_watches(machine.proc)
    assert (folder / "max_user_instances").read_text() == "1024"
    assert (folder / "max_user_watches").read_text() == "9000000\n"
    (folder / "max_user_watches").unlink()
    host.allow_watches(machine.proc)  # a machine without them is left alone
    assert not (folder / "max_user_watches").exists()
