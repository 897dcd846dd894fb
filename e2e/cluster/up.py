"""`up`: from nothing, or from whatever is left, to a cluster whose nodes are Ready."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from e2e.cluster import build, host, network, pki, preflight, seed, shell, static_images, tools
from e2e.cluster.addons import Addon, table
from e2e.cluster.host import MOUNT_POINTS, Host
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.local import LocalCluster, each
from e2e.cluster.steps import Steps
from e2e.cluster.versions import CONTAINERD, CORE, CTR, K8S, SHIM

READY_SECONDS = 240  # a few on an idle machine, minutes where the disk is still busy with what was built just now


def up(addons: Sequence[str] = table.DEFAULT, steps: Steps | None = None, checkout: Path = CHECKOUT) -> LocalCluster:
    """Bring this checkout's cluster up with the add-ons of these names. What runs already is left alone."""
    wanted, steps = table.chosen(addons), steps or Steps()
    with host.one_at_a_time(checkout):
        preflight.check()
        tools.ensure_packages(tools.NODE_PACKAGES, steps)
        _build(steps)
        layout = Host().claim(checkout, [Path(point) for point in MOUNT_POINTS.values()])
        cluster = LocalCluster(layout)
        _start_control_plane(cluster, steps)
        _give_disks(cluster, steps)
        _start_nodes(cluster, steps)
        _start_addons(cluster, wanted, steps)
        return cluster


def _build(steps: Steps) -> None:
    if not build.built(K8S):
        steps.say("  The first time, Kubernetes, etcd and containerd are built: about 12 minutes on two cores.")
    build.ensure(CORE, steps)


def _give_disks(cluster: LocalCluster, steps: Steps) -> None:
    """New nodes get a disk with the images on it that are there by now; the rest is loaded when it is built.

    Images of add-ons that are not asked for as well: a seed takes gigabytes, so there is not one for each choice.
    """
    blank = [node for node in cluster.nodes if not node.planted]
    if blank:
        with steps.step("images, as hard links of a seed in the cache"):
            seeded = seed.ensure(_archives([a for a in table.ALL.values() if a.built], steps))
            each(lambda node: node.plant(seeded), blank)


def _archives(addons: Sequence[Addon], steps: Steps) -> list[Path]:
    static = [static_images.addon(a.component) for a in addons if a.in_pods]
    return [static_images.pause(), static_images.toolbox(steps), *static]


def _start_control_plane(cluster: LocalCluster, steps: Steps) -> None:
    layout = cluster.layout
    layout.state.mkdir(exist_ok=True)
    build.link((CONTAINERD, SHIM, CTR), layout.bin)
    with steps.step("certificates, bridge, routes"):
        pki.ensure(layout)
        host.enable_forwarding()
        host.allow_watches()
        network.ensure_bridge(layout)
    with steps.step("etcd and API server"):
        cluster.control_plane.start_etcd()
        cluster.control_plane.start_api()
    with steps.step("controller manager and scheduler"):
        cluster.control_plane.start_controllers()


def _start_nodes(cluster: LocalCluster, steps: Steps) -> None:
    since = None if cluster.running else datetime.now(UTC)
    with steps.step(f"{len(cluster.nodes)} nodes: containerd, kubelet, kube-proxy"):
        each(lambda node: node.start(), cluster.nodes)
    with steps.step("nodes Ready"):
        names = ", ".join(n.name for n in cluster.nodes)
        shell.wait_for(f"Ready of {names}", lambda: not cluster.unready(since), READY_SECONDS, cluster.symptoms, 0.2)


def _start_addons(cluster: LocalCluster, addons: Sequence[Addon], steps: Steps) -> None:
    """Build, load and apply each add-on, then wait for all: their pods start beside each other."""
    for addon in addons:
        tools.ensure_packages(addon.packages, steps)
        build.ensure([addon.component], steps)
    if not addons:
        return
    with steps.step(f"add-ons: {', '.join(a.name for a in addons)}"):
        for addon in addons:
            _load(cluster, addon)
            cluster.kubectl.apply(*addon.objects(cluster.layout))
            if addon.on_node:
                each(addon.on_node, cluster.nodes)
        for addon in addons:
            ready = partial(addon.ready, cluster.kubectl)
            at_fault = partial(cluster.pods_at_fault, addon.namespace)
            shell.wait_for(f"add-on {addon.name}", ready, READY_SECONDS, at_fault, 0.3)
    cluster.note_addons({*cluster.addons, *(a.name for a in addons)})


def _load(cluster: LocalCluster, addon: Addon) -> None:
    if addon.in_pods:
        name = static_images.name(addon.component)
        if not all(name in node.images() for node in cluster.nodes):
            cluster.load(static_images.addon(addon.component))
