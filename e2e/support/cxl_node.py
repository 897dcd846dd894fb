"""Node plugins as processes inside the local cluster's nodes, each with exactly the rights that the chart gives it."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from ballast_cxl.cdi.store import Store
from ballast_cxl.names import DRIVERS_NAMESPACE, lease_name
from ballast_cxl.node.checkpoint import Checkpoint, Entries
from e2e.cluster.local import LocalCluster
from e2e.support.kube import Kube, Object, eventually

ACCOUNT = "ballast-cxl-node"
PLUGIN_FOLDER = Path("kubelet/plugins/cxl.ballast.dev")
QUICK = {"BALLAST_CXL_RENEW_SECONDS": "1", "BALLAST_CXL_HEALTH_PORT": "0"}


def node_kubeconfig(admin: Kube, local: LocalCluster, node: str, path: Path) -> Path:
    """The plugin's account as its pod on this node would have it: the node's name is in the token."""
    uid = json.loads(admin.run("get", "node", node, "-o", "json"))["metadata"]["uid"]
    bound = ["--bound-object-kind=Node", f"--bound-object-name={node}", f"--bound-object-uid={uid}"]
    token = admin.inside(DRIVERS_NAMESPACE).run("create", "token", ACCOUNT, "--duration=4h", *bound).strip()
    config = yaml.safe_load((local.layout.pki / f"{node}.kubeconfig").read_text())
    cluster = config["clusters"][0]["cluster"]
    if authority := cluster.get("certificate-authority"):
        cluster["certificate-authority"] = str((local.layout.pki / authority).resolve())
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


class NodePlugin:
    """`python -m ballast_cxl node` in a node's namespaces, as its DaemonSet's pod would run there.

    instance: the pod's uid; two plugins of one node have two.
    """

    def __init__(self, local: LocalCluster, node: str, kubeconfig: Path, root: Path, instance: str = "pod-1") -> None:
        self.node, self.instance = node, instance
        self._local, self._kubeconfig, self._root = local, kubeconfig, root
        self.state = local.node(node).layout.state
        self._from = 0

    @property
    def daemon(self) -> str:
        return f"{self.node}-cxl-{self.instance}"

    def start(self, **environment: str) -> None:
        """Start it, unless it runs. environment: further variables for this run only."""
        settings = {
            "KUBECONFIG": str(self._kubeconfig),
            "BALLAST_CXL_NODE_NAME": self.node,
            "BALLAST_CXL_HOST": "emulated",
            "BALLAST_CXL_EMULATED_ROOT": str(self._root),
            "POD_UID": self.instance,
            "POD_NAMESPACE": DRIVERS_NAMESPACE,
            **QUICK,
            **environment,
        }
        log = self._local.daemons.log(self.daemon)
        self._from = log.stat().st_size if log.exists() else 0
        command = ["env", *(f"{name}={value}" for name, value in settings.items())]
        self._local.node(self.node).run(f"cxl-{self.instance}", *command, sys.executable, "-m", "ballast_cxl", "node")

    def serving(self) -> bool:
        """Whether kubelet calls it: a pod that comes before that waits for kubelet's next try, a minute later."""
        return self.alive() and "kubelet registered" in self.said()

    def alive(self) -> bool:
        return self._local.daemons.get(self.daemon) is not None

    def kill(self) -> None:
        """As a crash would."""
        self._local.daemons.stop([self.daemon], signal.SIGKILL)

    def stop(self) -> None:
        """As kubelet ends a pod."""
        self._local.daemons.stop([self.daemon], signal.SIGTERM)

    @property
    def checkpoint(self) -> Entries:
        return Checkpoint(self.state / PLUGIN_FOLDER).read()

    @property
    def files(self) -> Store:
        """CDI files as the node's runtime sees them."""
        return Store(self.state / "run-cdi")

    def said(self) -> str:
        """Its log since it was last started."""
        log = self._local.daemons.log(self.daemon)
        return log.read_bytes()[self._from :].decode(errors="replace") if log.exists() else ""


@contextmanager
def plugins(admin: Kube, local: LocalCluster, root: Path, folder: Path) -> Iterator[dict[str, NodePlugin]]:
    """One plugin on every node, registered; ended, and their state removed, afterwards."""
    made = {}
    for node in local.nodes:
        kubeconfig = node_kubeconfig(admin, local, node.name, folder / f"{node.name}.kubeconfig")
        made[node.name] = NodePlugin(local, node.name, kubeconfig, root)
    for plugin in made.values():
        plugin.start()
    try:
        for plugin in made.values():
            eventually(plugin.serving, 60, lambda: f"no plugin serves: {plugin.said()[-600:]}")  # noqa: B023
        yield made
    finally:
        for plugin in made.values():
            plugin.stop()
            for name in ("checkpoint.json", "lock", "host.lock"):
                (plugin.state / PLUGIN_FOLDER / name).unlink(missing_ok=True)


def alive(admin: Kube, node: str) -> str:
    """When the node's plugin last said that it is there."""
    lease = admin.inside(DRIVERS_NAMESPACE).get("lease", lease_name(node))
    return str(lease["spec"]["renewTime"]) if lease else ""


def attachments(admin: Kube, node: str | None = None) -> list[Object]:
    """CXLAttachments of all nodes, or of one."""
    return [a for a in admin.list("cxlattachments") if node in (None, a["spec"]["node"])]
