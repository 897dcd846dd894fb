"""`status`: what runs, what does not, and where to look."""

from __future__ import annotations

from e2e.cluster.local import LocalCluster


def show(cluster: LocalCluster | None) -> int:
    """Print the state of a cluster; 0 if all of it is well, 1 if not."""
    if cluster is None:
        print("no cluster of this checkout; start one with `python -m e2e.cluster up`")
        return 1
    dead = []
    for name in cluster.expected():
        process = cluster.daemons.get(name)
        if process is None:
            dead.append(name)
        print(f"{name:<28} {f'pid {process.pid}' if process else 'NOT RUNNING':<12} {cluster.daemons.log(name)}")
    layout = cluster.layout
    unready = [] if "kube-apiserver" in dead else cluster.unready()
    for node in layout.nodes:
        state = "unknown" if "kube-apiserver" in dead else "NotReady" if node.name in unready else "Ready"
        print(f"{node.name:<28} {state:<12} {node.ip}, pods in {node.pods}")
    print(f"{'add-ons':<28} {', '.join(cluster.addons) or 'none'}")
    print(f"{'API server':<28} {layout.server}")
    print(f"{'audit log':<28} {layout.audit_log}")
    print(f"{'kubeconfig':<28} export KUBECONFIG={layout.kubeconfig}")
    return 1 if dead or unready else 0
