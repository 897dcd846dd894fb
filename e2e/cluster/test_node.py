from pathlib import Path

import pytest

from e2e.cluster import node as nodes
from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import Layout
from e2e.cluster.node import Node
from e2e.cluster.processes import Daemons


class Ending(Node):
    """A node whose kubelet ends at once so many times, as where containerd is not ready to serve yet."""

    def __init__(self, checkout: Path, ends: int) -> None:
        layout = Layout(checkout, 0)
        super().__init__(layout.nodes[0], Daemons(layout))
        self.starts, self.ends = 0, ends

    def _in_node(self, part: str, *argv: object) -> None:
        assert part == "kubelet"
        self.starts += 1

    def _running(self, part: str) -> bool:
        return self.starts > self.ends

    def _kubelet_is_settled(self) -> bool:
        return True


def test_a_kubelet_that_ends_before_containerd_serves_is_started_again(tmp_path: Path) -> None:
    node = Ending(tmp_path, 2)
    node.restart_kubelet()
    assert node.starts == 3


def test_a_kubelet_that_never_stays_is_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "KUBELET_SECONDS", 1)
    node = Ending(tmp_path, 1000)
    log = node.daemons.log("node1-kubelet")
    log.parent.mkdir(parents=True)
    log.write_text("command failed: no such runtime\n")
    with pytest.raises(ClusterError, match="kubelet of node1 ended: command failed: no such runtime"):
        node.restart_kubelet()
    assert node.starts > 1
