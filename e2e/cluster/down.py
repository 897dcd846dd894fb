"""`down`: end what `up` started and put the machine back as it was. Works on whatever is left of a cluster."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

from e2e.cluster import host, network
from e2e.cluster.addons import Addon
from e2e.cluster.host import Host
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.local import LocalCluster, each
from e2e.cluster.processes import wait_gone
from e2e.cluster.steps import Steps


def down(steps: Steps, checkout: Path = CHECKOUT) -> bool:
    """End this checkout's cluster. False if there was none."""
    with host.one_at_a_time(checkout):
        cluster = LocalCluster.find(checkout)
        if cluster is None:
            return False
        with steps.step("nodes and their pods"):
            each(lambda node: node.stop(), cluster.nodes)
        with steps.step("control plane"):
            cluster.control_plane.stop()
            _stray(cluster)
        with steps.step("bridge, folders, kernel settings"):
            network.remove_bridge(cluster.layout)
            shutil.rmtree(cluster.layout.state, ignore_errors=True)
            Host().release(cluster.layout)
        return True


def drop(cluster: LocalCluster, addon: Addon, steps: Steps) -> None:
    """Take an add-on that runs in pods out of a cluster that goes on. Its CustomResourceDefinitions take their objects
    with them; what comes last in its list goes first, so that no webhook is left without its server."""
    with steps.step(f"add-on {addon.name}"):
        bundle = {"apiVersion": "v1", "kind": "List", "items": addon.objects(cluster.layout)[::-1]}
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(bundle))
        cluster.note_addons(set(cluster.addons) - {addon.name})


def _stray(cluster: LocalCluster) -> None:
    """End processes that carry our mark but no pid file speaks of, as when a run was interrupted half way."""
    strays = cluster.daemons.all()
    for process in strays:
        process.send(signal.SIGKILL)
    wait_gone(strays)
