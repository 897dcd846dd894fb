from itertools import combinations
from pathlib import Path

from e2e.cluster.layout import SLOTS, Layout

ALL = [Layout(Path("/x"), slot) for slot in range(SLOTS)]


def test_no_two_slots_share_a_port() -> None:
    ports = [port for layout in ALL for port in layout.ports.all()]
    assert len(ports) == len(set(ports))


def test_no_two_slots_share_an_address() -> None:
    for one, other in combinations(ALL, 2):
        assert not one.links.overlaps(other.links)
        assert not one.pods.overlaps(other.pods)
        assert not one.services.overlaps(other.services)


def test_nodes_have_their_pods_inside_the_clusters_and_apart() -> None:
    for layout in ALL:
        first, second = layout.nodes
        assert not first.pods.overlaps(second.pods)
        assert all(node.pods.subnet_of(layout.pods) for node in layout.nodes)


def test_link_names_fit_the_kernel() -> None:
    assert all(len(node.link) <= 15 and len(layout.bridge) <= 15 for layout in ALL for node in layout.nodes)


def test_no_slot_uses_a_port_that_linux_hands_out_by_itself() -> None:
    assert max(port for layout in ALL for port in layout.ports.all()) < 32768
