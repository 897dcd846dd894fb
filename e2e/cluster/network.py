"""Links and routes: one bridge for the cluster, and a cable from it to each node.

Nodes reach each other's pods over the bridge; the machine has a route to every pod through its node, so a program
beside the cluster (an operator under a debugger, a test) talks to pods as pods do.
"""

from __future__ import annotations

from e2e.cluster import shell
from e2e.cluster.layout import Layout, NodeLayout


def ip(*arguments: str) -> str:
    return shell.run("ip", *arguments)


def exists(link: str) -> bool:
    return shell.attempt("ip", "link", "show", link).returncode == 0


def ensure_bridge(layout: Layout) -> None:
    """The cluster's bridge, with this machine on it as the gateway."""
    if not exists(layout.bridge):
        ip("link", "add", layout.bridge, "type", "bridge")
        ip("addr", "add", f"{layout.gateway}/{layout.links.prefixlen}", "dev", layout.bridge)
    ip("link", "set", layout.bridge, "up")


def plug_in(node: NodeLayout, pid: int) -> None:
    """Lay the cable from the bridge into the network namespace of process `pid`, and set the routes at both ends."""
    layout = node.cluster
    unplug(node)
    ip("link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", node.link, "master", layout.bridge, "up")
    inside = ("nsenter", "-t", str(pid), "-n")
    for arguments in (
        ("addr", "add", f"{node.ip}/{layout.links.prefixlen}", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
        ("route", "add", "default", "via", layout.gateway),
        *(("route", "add", str(n.pods), "via", n.ip) for n in layout.nodes if n != node),
    ):
        shell.run(*inside, "ip", *arguments)
    # Written by a shell inside: a namespace's settings show under /proc/sys to the processes in it only.
    shell.run(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    ip("route", "replace", str(node.pods), "via", node.ip)


def unplug(node: NodeLayout) -> None:
    """Take the node's cable and route away; nothing to do is fine."""
    shell.attempt("ip", "route", "del", str(node.pods))
    shell.attempt("ip", "link", "del", node.link)


def remove_bridge(layout: Layout) -> None:
    if exists(layout.bridge):
        ip("link", "del", layout.bridge)
