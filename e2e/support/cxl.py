"""An emulated CXL appliance beside the cluster, the objects that describe it, and controllers run from here."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ballast_cxl.emulator.judge import Verdict, judge
from ballast_cxl.emulator.layout import BladeLayout
from ballast_cxl.emulator.state import Event, read
from ballast_cxl.names import DRIVERS_NAMESPACE
from e2e.cluster.local import LocalCluster
from e2e.support.kube import Kube, Object, eventually
from e2e.support.operator import OperatorProcess

PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
TOOLBOX = "docker.io/ballast/toolbox:1"
# Chart values with which only rights and policies are there: tests run the controller and the plugins themselves.
NOBODY = ("cxl.enabled=true", "cxl.controller.replicas=0", "cxl.node.nodeSelector.none=such")
EVERY_TRAP = "global-mutex,rounding,one-connection,substring-ids,first-connection-only,amnesia,trusting"


class Emulator:
    """`python -m ballast_cxl emulator` as a child process; it comes back with what its log says."""

    def __init__(
        self, root: Path, host: str, blades: Sequence[BladeLayout], quirks: str = "cma", credentials: str = ""
    ) -> None:
        self.root, self.host, self.blades, self.quirks = root, host, list(blades), quirks
        self.credentials = credentials  # NAME:PASSWORD that callers must bring
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Return when it answers."""
        command = [sys.executable, "-m", "ballast_cxl", "emulator", "--root", str(self.root), "--host", self.host]
        command += ["--port", str(self.port), "--quirks", self.quirks]
        for blade in self.blades:
            grid = f"{blade.channels}x{blade.rows}x{blade.mib}"
            command += ["--blade", f"{blade.name}={grid},ports={blade.ports}"]
        environment = os.environ | {"BALLAST_CXL_EMULATOR_CREDENTIALS": self.credentials}
        self._process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        said = self._process.stdout.readline().strip()
        assert said.startswith("http://"), f"the emulator did not start: {said!r}"
        self.port = int(said.rpartition(":")[2])

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def exit_code(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.poll() if self._process else None

    def faults(self) -> list[Object]:
        """What was asked for and has not happened yet."""
        with urllib.request.urlopen(f"{self.url}/emulator/faults", timeout=10) as answer:
            found: list[Object] = json.load(answer)
        return found

    def fault(self, op: str, mode: str, times: int = 1, seconds: float = 0.0) -> None:
        """Have something go wrong the next time."""
        body = {"op": op, "mode": mode, "times": times, "seconds": seconds}
        self._post("/emulator/faults", body)

    def calm(self) -> None:
        """Nothing that was asked for and has not happened yet goes wrong any more."""
        urllib.request.urlopen(
            urllib.request.Request(f"{self.url}/emulator/faults", method="DELETE"), timeout=10
        ).close()

    def power_cycle(self, blade: str) -> None:
        self._post(f"/emulator/blades/{blade}/power-cycle", {})

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/emulator/state", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def memories(self) -> dict[str, list[str]]:
        """Composed memories of all blades."""
        return {memory: blocks for blade in self.state().values() for memory, blocks in blade["memories"].items()}

    def events(self, since: int = 0) -> list[Event]:
        """Lines of the log from one on."""
        return [event for event in read(self.root / "log.jsonl") if event["n"] >= since]

    def lines(self) -> int:
        return sum(1 for _ in read(self.root / "log.jsonl"))

    def verdict(self, since: int = 0) -> Verdict:
        """What the log proves, from a line on at which nothing was composed."""
        return judge(self.events(since))

    def _post(self, path: str, body: Object) -> None:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=10).close()


@contextmanager
def emulator(
    local: LocalCluster, name: str, *blades: str, quirks: str = "cma", credentials: str = ""
) -> Iterator[Emulator]:
    """One whose memory the nodes of the local cluster see: they are mount namespaces of this machine."""
    root = shared_root(local) / name
    shutil.rmtree(root, ignore_errors=True)
    found = Emulator(root, local.layout.gateway, [BladeLayout.parse(text) for text in blades], quirks, credentials)
    found.start()
    try:
        yield found
    finally:
        found.kill()
        shutil.rmtree(root, ignore_errors=True)


def shared_root(local: LocalCluster) -> Path:
    """Folder of all emulators of a cluster, in memory."""
    return Path("/dev/shm") / f"ballast-cxl-{local.layout.name}"


def blade(emulated: Emulator, layout: BladeLayout, nodes: Sequence[str], **spec: Any) -> Object:
    """The CXLBlade of an emulated blade, with its ports shared out among the nodes."""
    ports = [{"name": port, "node": nodes[index % len(nodes)]} for index, port in enumerate(layout.port_names())]
    base: Object = {"appliance": {"name": "a0", "url": emulated.url}, "blade": layout.name, "ports": ports}
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CXLBlade",
        "metadata": {"name": layout.name},
        "spec": base | spec,
    }


def region(name: str, size: str, **spec: Any) -> Object:
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CXLRegion",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


def pod_spec(claims: Sequence[Object], script: str, *, uses: bool = True, **extra: Any) -> Object:
    """A restricted pod whose one container lists the claims, or does not. claims: entries of spec.resourceClaims."""
    container: Object = {
        "name": "main",
        "image": TOOLBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if uses:
        container["resources"] = {"claims": [{"name": claim["name"]} for claim in claims]}
    security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": list(claims),
        "securityContext": security,
        "containers": [container],
        **extra,
    }


def controller(kubeconfig: Path, log: Path, **environment: str) -> OperatorProcess:
    """A region controller on this machine, without election and with short ages."""
    short = {
        "BALLAST_CXL_LEASE_NAME": "",
        "BALLAST_CXL_METRICS_PORT": "0",
        "BALLAST_CXL_HEALTH_PORT": "0",
        **AGES,
        **environment,
    }
    return OperatorProcess(kubeconfig, log, short, module="ballast_cxl", arguments=("controller",))


CHART_AGES = {
    "callSeconds": 5,
    "operationSeconds": 12,
    "nodeLostSeconds": 20,
    "fenceSeconds": 20,
    "sweepSeconds": 5,
    "leakSeconds": 5,
}
AGES = {
    "BALLAST_CXL_CALL_SECONDS": "5",
    "BALLAST_CXL_OPERATION_SECONDS": "12",
    "BALLAST_CXL_REST_SECONDS": "1",
    "BALLAST_CXL_NODE_LOST_SECONDS": "12",
    "BALLAST_CXL_FENCE_SECONDS": "15",
    "BALLAST_CXL_SWEEP_SECONDS": "5",
    "BALLAST_CXL_LEAK_SECONDS": "5",
    "BALLAST_CXL_PUBLISH_SECONDS": "10",
}


def prepare_namespace(admin: Kube) -> None:
    """The namespace of the node plugins."""
    meta = {"name": DRIVERS_NAMESPACE, "labels": PRIVILEGED}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


def plugins_ready(admin: Kube) -> None:
    """Return when a node plugin reports from every node."""
    drivers, nodes = admin.inside(DRIVERS_NAMESPACE), [n["metadata"]["name"] for n in admin.list("nodes")]

    def all_there() -> bool:
        leases = {lease["metadata"]["name"] for lease in drivers.list("leases")}
        return {f"ballast-cxl-{node}" for node in nodes} <= leases

    eventually(all_there, 90, lambda: "not every node has a plugin")


def is_ready(obj: Object) -> bool:
    """A question for `until`: the condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in obj.get("status", {}).get("conditions", []))
