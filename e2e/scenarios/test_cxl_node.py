"""The node plugin on the real kubelets, with the region controller and an emulated fabric: what pods keep and lose."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast_cxl.cdi import rules
from ballast_cxl.names import DRIVERS_NAMESPACE
from ballast_cxl.node.faults import STEPS
from e2e.cluster.local import LocalCluster
from e2e.support.audit import Audit, forbidden
from e2e.support.chart import deploy
from e2e.support.cxl import NOBODY, Emulator, blade, controller, emulator, prepare_namespace, region
from e2e.support.cxl_node import ACCOUNT, NodePlugin, alive, attachments, plugins
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, Refused, eventually, is_true
from e2e.support.operator import account_kubeconfig

pytestmark = pytest.mark.e2e

CLASS = "node-tests"
MIB = 1 << 20
SELECTOR = (
    'device.attributes["cxl.ballast.dev"].namespace == "{namespace}" && '
    'device.attributes["cxl.ballast.dev"].name == "{name}"'
)
TOOLBOX = "docker.io/ballast/toolbox:1"
STAY = "trap 'exit 1' TERM; sleep 3600 & wait"  # a process 1 without a handler would not hear the signal


@dataclass
class Fabric:
    """The emulated appliance, the region controller and the node plugins, all as processes of this machine."""

    emulator: Emulator
    plugins: dict[str, NodePlugin]
    local: LocalCluster
    audit_from: int

    def connections(self) -> int:
        return sum(len(blade["connections"]) for blade in self.emulator.state().values())


@pytest.fixture(scope="module")
def fabric(
    admin: Kube, images: dict[str, str], local: LocalCluster, audit: Audit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fabric]:
    folder = tmp_path_factory.mktemp("cxl")
    prepare_namespace(admin)
    deploy(admin, images, *NOBODY)
    admin.inside(DRIVERS_NAMESPACE).run("delete", "leases", "--all")  # so that the right to make them is used
    position = audit.now()
    rights = account_kubeconfig(admin, folder / "controller.kubeconfig", account="ballast-cxl")
    with emulator(local, "nodes", "n0=1x8x16,ports=4") as emulated:
        admin.apply(blade(emulated, emulated.blades[0], [n.name for n in local.nodes], **{"class": CLASS}))
        with (
            controller(rights, folder / "controller.log"),
            plugins(admin, local, emulated.root, folder) as found,
        ):
            yield Fabric(emulated, found, local, position)
            admin.run("delete", "cxlblade", "n0", "--wait=false")
            eventually(lambda: not admin.get("cxlblade", "n0"), 60, lambda: "the blade is still there")
    # The chart stays as it is: an API server that saw the admission policy go does not find its parameters when it
    # comes back, and would refuse every claim of the next module (seen with 1.36.3).


@pytest.fixture
def kube(fabric: Fabric, namespaces: Namespaces) -> Iterator[Kube]:
    """A namespace with a region `kv` of 16 MiB, Ready; nothing of it is left at the fabric afterwards."""
    made = namespaces.new()
    made.apply(region("kv", "16Mi", **{"class": CLASS}))
    made.until("cxlr", "kv", is_true("Ready"), 60)
    yield made
    made.run("delete", "pods,deployments", "--all", "--grace-period=1")
    made.delete("cxlr", "kv")
    namespaces.drop(made)
    eventually(lambda: not attachments(made), 60, lambda: f"attachments left: {attachments(made)}")


def container(script: str, name: str = "main", uses: bool = True) -> Object:
    found: Object = {
        "name": name,
        "image": TOOLBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return found | ({"resources": {"claims": [{"name": "kv"}]}} if uses else {})


def spec(*containers: Object, node: str | None = None, claim: str = "kv", **extra: Any) -> Object:
    """A restricted pod with a claim, on one node if it is named."""
    security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    where = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    base: Object = {"terminationGracePeriodSeconds": 1, "securityContext": security, "containers": list(containers)}
    return base | {"resourceClaims": [{"name": "kv", "resourceClaimName": claim}]} | where | extra


def pod(name: str, *containers: Object, node: str | None = None, **extra: Any) -> Object:
    wanted = containers or (container(STAY),)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec(*wanted, node=node, **extra)}


def running(kube: Kube, name: str, seconds: float = 60) -> Object:
    def holds(found: Object) -> bool:
        states = found.get("status", {}).get("containerStatuses", [])
        return bool(states) and all("running" in state["state"] for state in states)

    return kube.until("pod", name, holds, seconds, "running")


def inside(kube: Kube, name: str, script: str, which: str = "main") -> str:
    return kube.run("exec", name, "-c", which, "--", "sh", "-c", script).strip()


def put(kube: Kube, name: str, text: str, offset: int = 0) -> None:
    inside(
        kube, name, f"printf %s '{text}' | dd of=$BALLAST_REGION_KV_PATH bs=1 seek={offset} conv=notrunc 2>/dev/null"
    )


def got(kube: Kube, name: str, size: int, offset: int = 0) -> str:
    return inside(kube, name, f"dd if=/dev/ballast/kv bs=1 skip={offset} count={size} 2>/dev/null")


def test_pods_on_two_nodes_share_a_region_and_a_rolling_restart_keeps_its_bytes(kube: Kube, fabric: Fabric) -> None:
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    labels = {"app": "kv"}
    beside = container(STAY, "beside", uses=False)
    template = spec(container(STAY), beside)
    template["topologySpreadConstraints"] = [spread | {"labelSelector": {"matchLabels": labels}}]
    kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kv"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template},
            },
        }
    )
    began = time.monotonic()
    kube.run("rollout", "status", "deployment/kv", "--timeout=60s", seconds=70)
    print(f"two pods on two nodes with one region {time.monotonic() - began:.1f} s after apply")
    first, second = sorted(kube.list("pods", "app=kv"), key=lambda p: p["spec"]["nodeName"])
    assert first["spec"]["nodeName"] != second["spec"]["nodeName"]
    names = [p["metadata"]["name"] for p in (first, second)]
    put(kube, names[0], "from-the-first")
    assert got(kube, names[1], 14) == "from-the-first"
    put(kube, names[1], "and-back", 4096)
    assert got(kube, names[0], 8, 4096) == "and-back"
    assert inside(kube, names[0], "ls -d /dev/ballast 2>&1 || true", "beside").endswith("No such file or directory")
    assert inside(kube, names[0], "env | grep -c BALLAST_ || true", "beside") == "0"
    kube.run("rollout", "restart", "deployment/kv")
    kube.run("rollout", "status", "deployment/kv", "--timeout=90s", seconds=100)
    fresh = [p["metadata"]["name"] for p in kube.list("pods", "app=kv") if "deletionTimestamp" not in p["metadata"]]
    assert not set(fresh) & set(names)
    assert [got(kube, name, 14) for name in fresh] == ["from-the-first"] * 2


def test_a_claim_without_a_selector_never_gets_a_region(kube: Kube) -> None:
    request = {"name": "any", "exactly": {"deviceClassName": "cxl.ballast.dev"}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "any"}}
    kube.apply(claim | {"spec": {"devices": {"requests": [request]}}})
    kube.apply(pod("greedy", claim="any"))
    time.sleep(5)
    found = kube.get("resourceclaim", "any") or {}
    results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    assert not [r for r in results if r["device"].startswith("region-")]
    kube.delete("pod", "greedy")


def test_a_read_only_claim_is_read_only(kube: Kube) -> None:
    parameters = {"apiVersion": "ballast.dev/v1alpha1", "kind": "AttachConfig", "readOnly": True}
    exactly = {
        "deviceClassName": "region.cxl.ballast.dev",
        "selectors": [{"cel": {"expression": SELECTOR.format(namespace=kube.namespace, name="kv")}}],
    }
    devices = {
        "requests": [{"name": "region", "exactly": exactly}],
        "config": [{"opaque": {"driver": "cxl.ballast.dev", "parameters": parameters}}],
    }
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "look"}}
    kube.apply(claim | {"spec": {"devices": devices}})
    kube.apply(pod("writer", node="node1"), pod("reader", node="node1", claim="look"))
    running(kube, "writer")
    running(kube, "reader")
    put(kube, "writer", "seen")
    assert inside(kube, "reader", "head -c 4 /dev/ballast/look") == "seen"
    refused = inside(kube, "reader", "(printf x | dd of=/dev/ballast/look conv=notrunc) 2>&1 || true")
    assert "Read-only file system" in refused
    assert got(kube, "writer", 4) == "seen"


def test_a_plugin_killed_under_running_pods_comes_back_and_takes_nothing_from_them(kube: Kube, fabric: Fabric) -> None:
    plugin = fabric.plugins["node1"]
    kube.apply(pod("stays", node="node1"))
    running(kube, "stays")
    put(kube, "stays", "kept")
    uid = next(iter(plugin.checkpoint))
    before, lines = plugin.files.read(uid), fabric.emulator.lines()
    plugin.kill()
    plugin.files.remove(uid)  # as a wiped folder
    kube.apply(pod("waits", node="node1"))  # kubelet needs no call for a claim that it has prepared
    plugin.start()
    eventually(plugin.serving, 60, lambda: "the plugin does not serve")
    eventually(lambda: plugin.files.read(uid) == before, 30, lambda: "the device file did not come back")
    with contextlib.suppress(Refused):  # the shell may end with the container that it ends
        inside(kube, "stays", "kill 1")  # a container that starts anew gets its device by the file
    eventually(
        lambda: (kube.get("pod", "stays") or {})["status"]["containerStatuses"][0]["restartCount"] == 1,
        30,
        lambda: "the container did not start anew",
    )
    for name in ("stays", "waits"):
        running(kube, name, 90)
        assert got(kube, name, 4) == "kept"
    assert [e["op"] for e in fabric.emulator.events(lines)] == []


def test_a_kubelet_that_starts_anew_changes_nothing_for_pods_that_run(kube: Kube, fabric: Fabric) -> None:
    kube.apply(pod("stays", node="node2"))
    running(kube, "stays")
    put(kube, "stays", "kept")
    lines = fabric.emulator.lines()
    fabric.local.node("node2").restart_kubelet()
    kube.apply(pod("later", node="node2"))
    running(kube, "later", 90)
    assert [got(kube, name, 4) for name in ("stays", "later")] == ["kept", "kept"]
    assert (kube.get("pod", "stays") or {})["status"]["containerStatuses"][0]["restartCount"] == 0
    assert fabric.emulator.events(lines) == []


def test_a_node_that_was_rebooted_gives_its_pods_their_device_back(kube: Kube, fabric: Fabric) -> None:
    plugin = fabric.plugins["node2"]
    kube.apply(pod("stays", node="node2"))
    running(kube, "stays")
    put(kube, "stays", "kept")
    (uid,) = plugin.checkpoint
    lines = fabric.emulator.lines()
    began = time.monotonic()
    fabric.local.node("node2").reboot()
    assert plugin.files.read(uid) is None and plugin.checkpoint.keys() == {uid}, (
        "the folder is empty, the state is kept"
    )
    plugin.start()
    eventually(
        lambda: (kube.get("pod", "stays") or {})["status"]["containerStatuses"][0]["restartCount"] > 0,
        120,
        lambda: "the container did not start anew",
    )
    running(kube, "stays", 120)
    print(f"a rebooted node's pod has its region again after {time.monotonic() - began:.1f} s")
    assert got(kube, "stays", 4) == "kept"
    assert [e["op"] for e in fabric.emulator.events(lines) if e["op"] in ("unassign", "free")] == []


def test_two_plugins_of_a_rolling_update_serve_side_by_side(kube: Kube, fabric: Fabric) -> None:
    old = fabric.plugins["node1"]
    new = NodePlugin(fabric.local, "node1", old._kubeconfig, fabric.emulator.root, "pod-2")
    kube.apply(pod("before", node="node1"))
    running(kube, "before")
    new.start()
    eventually(new.serving, 60, lambda: f"the second does not serve: {new.said()[-400:]}")
    kube.apply(pod("during", node="node1"))
    running(kube, "during")
    old.stop()
    try:
        kube.delete("pod", "before")
        kube.delete("pod", "during")
        eventually(lambda: not attachments(kube, "node1"), 60, lambda: "the second did not take over")
        kube.apply(pod("after", node="node1"))
        running(kube, "after")
    finally:
        old.start()
        eventually(old.serving, 60, lambda: "the first is not back")
        new.stop()
    kube.delete("pod", "after")
    eventually(lambda: not attachments(kube, "node1"), 60, lambda: "the first did not take over")


def test_a_pod_deleted_by_force_keeps_its_region_while_its_container_runs(kube: Kube, fabric: Fabric) -> None:
    """The claim is free in the API at once; the process is what counts."""
    hold = "exec 3<>/dev/ballast/kv; trap '' TERM; while :; do sleep 1; done"
    kube.apply(pod("stubborn", container(hold), node="node1", terminationGracePeriodSeconds=20))
    running(kube, "stubborn")
    kube.run("delete", "pod", "stubborn", "--force", "--grace-period=0")
    assert kube.get("pod", "stubborn") is None
    while (
        fabric.local.node("node1").command("sh", "-c", "ls -l /proc/*/fd 2>/dev/null | grep -c ports/ || true").strip()
        != "0"
    ):
        assert fabric.connections() == 1, "detached under a running container"
        time.sleep(0.5)
    eventually(lambda: fabric.connections() == 0, 60, lambda: "never detached")


@dataclass(frozen=True)
class Mutation:
    """A change of the text of a good file, and whether containerd refuses what comes of it."""

    name: str
    old: str
    new: str
    refused: bool = True


MUTATIONS = (
    Mutation("version-unknown", '"cdiVersion": "0.5.0"', '"cdiVersion": "9.0.0"'),
    Mutation("version-too-old", '"cdiVersion": "0.5.0"', '"cdiVersion": "0.3.0"'),
    Mutation("member-unknown", '"env"', '"enviroment"'),
    Mutation("kind-without-class", '"kind": "ballast.dev/cxl"', '"kind": "ballast.dev"'),
    Mutation("variable-without-name", '"BALLAST_REGION_KV_UID=', '"='),
    Mutation("mount-without-source", '"hostPath": "/dev/shm', '"hostPath": "", "type": "'),
    Mutation("cut-short", '"options"', ""),
)


def test_containerd_injects_our_files_and_refuses_broken_ones_as_our_rules_do(kube: Kube, fabric: Fabric) -> None:
    plugin = fabric.plugins["node1"]
    kube.apply(pod("good", node="node1"))
    running(kube, "good")
    (uid,) = plugin.checkpoint
    path = plugin.files.path(uid)
    text = path.read_text()
    # Which version a file needs depends on the claim's random name: one that begins with a digit needs 0.5.0.
    text = text.replace('"cdiVersion": "0.3.0"', '"cdiVersion": "0.5.0"')
    text = text.replace('"options"', '"type": "bind", "options"', 1)  # 0.4.0 or newer, whatever the name
    plugin.kill()  # it would put its file back; kubelet has prepared the claim and does not call
    try:
        for mutation in MUTATIONS:
            broken = (
                text[: text.index(mutation.old)] if not mutation.new else text.replace(mutation.old, mutation.new, 1)
            )
            assert broken != text
            path.write_text(broken)
            try:
                ours = bool(rules.check(json.loads(broken)))
            except ValueError:
                ours = True
            kube.apply(pod(mutation.name, node="node1"))
            said = verdict(kube, mutation.name)
            kube.delete("pod", mutation.name, "--grace-period=0", "--force")
            print(f"{mutation.name}: {said[:110]}")
            assert ours and (said != "running") == mutation.refused, mutation.name
        path.write_text(text)
        kube.apply(pod("good-again", node="node1"))
        assert verdict(kube, "good-again") == "running"
    finally:
        path.write_text(text)
        plugin.start()
        eventually(plugin.serving, 60, lambda: "the plugin is not back")


def verdict(kube: Kube, name: str) -> str:
    """`running`, or what the runtime said instead."""
    found = ""

    def decided() -> bool:
        nonlocal found
        states = (kube.get("pod", name) or {}).get("status", {}).get("containerStatuses", [])
        state = states[0]["state"] if states else {}
        found = "running" if "running" in state else state.get("waiting", {}).get("message", "")
        return bool(found)

    eventually(decided, 60, lambda: f"pod {name} neither runs nor says why not")
    return found


@pytest.mark.parametrize("step", [step for step in STEPS if not step.startswith("scrub.")])
def test_a_plugin_that_dies_after_any_step_leaves_nothing_undone(kube: Kube, fabric: Fabric, step: str) -> None:
    plugin = fabric.plugins["node1"]
    plugin.stop()
    lines = fabric.emulator.lines()
    plugin.start(BALLAST_CXL_CRASH_AT=step)
    eventually(plugin.serving, 60, lambda: "the plugin does not serve")
    kube.apply(pod("user", node="node1"))
    if step.startswith("prepare."):
        eventually(lambda: not plugin.alive(), 60, lambda: f"it did not die at {step}: {plugin.said()[-300:]}")
        plugin.start()
    running(kube, "user", 150)  # kubelet may have been without a driver when it tried
    put(kube, "user", step)
    assert got(kube, "user", len(step)) == step
    kube.run("delete", "pod", "user", "--wait=false")  # it stays until somebody unprepares its claim
    if not step.startswith("prepare."):
        eventually(lambda: not plugin.alive(), 60, lambda: f"it did not die at {step}: {plugin.said()[-300:]}")
        plugin.start()
    kube.gone("pod", "user", 150)  # kubelet tries again after a minute
    eventually(lambda: not attachments(kube, "node1"), 60, lambda: f"left: {attachments(kube, 'node1')}")
    assert plugin.checkpoint == {} and plugin.files.claims() == set()
    events = [e["op"] for e in fabric.emulator.events(lines)]
    assert fabric.connections() == 0 and events.count("compose") == 0
    assert (kube.get("cxlr", "kv") or {})["status"]["phase"] == "Ready"


@pytest.mark.parametrize("step", ["scrub.done", "scrub.told"])
def test_the_next_tenant_reads_zeros_though_the_plugin_died_in_the_scrub(
    fabric: Fabric, namespaces: Namespaces, step: str
) -> None:
    """Both nodes' plugins die at this step once, so that whichever was asked to scrub has died."""
    kube = namespaces.new()
    kube.apply(region("secret", "128Mi", **{"class": CLASS}))  # the whole blade, so the next one gets the same bytes
    kube.until("cxlr", "secret", is_true("Ready"), 60)
    kube.apply(pod("first", claim="secret", node="node1"))
    running(kube, "first")
    inside(kube, "first", "tr '\\0' x < /dev/zero | dd of=/dev/ballast/secret bs=1M count=128 conv=notrunc 2>/dev/null")
    kube.delete("pod", "first")
    eventually(lambda: not attachments(kube), 60, lambda: "still attached")
    for plugin in fabric.plugins.values():
        plugin.stop()
        plugin.start(BALLAST_CXL_CRASH_AT=step)
    kube.run("delete", "cxlr", "secret", "--wait=false")
    eventually(lambda: not all(p.alive() for p in fabric.plugins.values()), 90, lambda: "nobody scrubbed")
    for plugin in fabric.plugins.values():
        plugin.kill()
        plugin.start()
    kube.gone("cxlr", "secret", 120)
    kube.apply(region("next", "128Mi", **{"class": CLASS}))
    kube.until("cxlr", "next", is_true("Ready"), 60)
    kube.apply(pod("second", claim="next", node="node2"))
    running(kube, "second")
    assert inside(kube, "second", "tr -d '\\0' < /dev/ballast/next | wc -c") == "0"
    kube.delete("pod", "second")
    kube.delete("cxlr", "next")
    namespaces.drop(kube)


FOREIGN = {
    "another node's attachment": ("node2", "Use", "a node plugin may write attachments of its own node only"),
    "an attachment for scrubbing": ("node1", "Scrub", "only the region controller makes attachments for scrubbing"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_plugin_may_not_make(fabric: Fabric, case: str) -> None:
    node, purpose, sentence = FOREIGN[case]
    plugin = Kube(_reachable(fabric, "node1"))
    body = {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CXLAttachment",
        "metadata": {"name": "forged"},
        "spec": {"region": {"namespace": "x", "name": "x", "uid": "x"}, "node": node, "purpose": purpose},
    }
    with pytest.raises(Refused, match=sentence):
        plugin.run("create", "--validate=false", "-f", "-", text=json.dumps(body))


def test_a_plugin_may_not_answer_itself_nor_renew_anothers_lease(kube: Kube, fabric: Fabric) -> None:
    kube.apply(pod("user", node="node2"))
    running(kube, "user")
    (theirs,) = attachments(kube, "node2")
    foreign, own = Kube(_reachable(fabric, "node1")), Kube(_reachable(fabric, "node2"))
    with pytest.raises(Refused, match="may write attachments of its own node only"):
        say(foreign, theirs, node={"state": "Down"})
    with pytest.raises(Refused, match=r"a node plugin writes status.node; the rest of the status"):
        say(own, theirs, generation=99)
    freed = theirs | {"metadata": theirs["metadata"] | {"finalizers": []}}
    with pytest.raises(Refused, match=r"takes off its own finalizer, ballast.dev/node, and no other"):
        own.run("replace", "--validate=false", "-f", "-", text=json.dumps(freed))
    lease = json.loads(own.inside("ballast-drivers").run("get", "lease", "ballast-cxl-node2", "-o", "json"))
    with pytest.raises(Refused, match="may write the lease of its own node only"):
        foreign.inside("ballast-drivers").run("replace", "-f", "-", text=json.dumps(lease))
    with pytest.raises(Refused, match="forbidden"):
        own.run("get", "secrets", "-A")


def say(plugin: Kube, attachment: Object, **status: Any) -> None:
    """Apply a status, as a plugin writes its part of it."""
    kept = {key: attachment[key] for key in ("apiVersion", "kind")}
    body = kept | {"metadata": {"name": attachment["metadata"]["name"]}, "status": status}
    flags = ["--server-side", "--subresource=status", "--force-conflicts", "--field-manager=forger", "--validate=false"]
    plugin.run("apply", *flags, "-f", "-", text=json.dumps(body))


def _reachable(fabric: Fabric, node: str) -> Path:
    """The plugin's kubeconfig works from this machine too: the server is at the nodes' gateway."""
    return fabric.plugins[node]._kubeconfig


def test_a_node_says_that_it_is_alive(fabric: Fabric, admin: Kube) -> None:
    before = alive(admin, "node1")
    eventually(lambda: alive(admin, "node1") > before, 15, lambda: "the lease was not renewed")


def test_every_right_of_the_plugin_was_used_and_no_call_was_forbidden(
    fabric: Fabric, admin: Kube, audit: Audit, kube: Kube
) -> None:
    """Of all that the plugins did in this module; what this test's own forgeries were refused does not count."""
    user = f"system:serviceaccount:ballast-drivers:{ACCOUNT}"
    entries = [e for e in audit.by(user, fabric.audit_from) if not e["userAgent"].startswith("kubectl")]
    asked = set()
    for entry in entries:
        ref = entry.get("objectRef", {})
        asked.add(
            (entry["verb"], ref.get("resource", "") + (f"/{ref['subresource']}" if ref.get("subresource") else ""))
        )
    granted = set()
    for kind, where in (("clusterrole", admin), ("role", admin.inside("ballast-drivers"))):
        for rule in (where.get(kind, ACCOUNT) or {})["rules"]:
            granted |= {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}
    print(f"{len(granted)} rights granted, {len(granted & asked)} used, {len(entries)} requests")
    assert forbidden(entries) == []
    assert granted - asked <= {("list", "cxlregions")}, "granted, and never used; the list is for claims made first"
