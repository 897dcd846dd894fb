"""The CXL node plugin's part of the chart: one privileged pod a node, with rights on its own node's words only."""

from typing import Any

import kubernetes_validate
import pytest

from charts.tests.rendering import CHART, Object, helm, one, render

NAME = "ballast-cxl-node"
EMULATED: Object = {"cxl": {"enabled": True, "emulatedRoot": "/run/ballast-cxl"}}
REAL: Object = {"cxl": {"enabled": True, "node": {"kubeletDir": "/data/kubelet", "nodeSelector": {"cxl": "yes"}}}}


def pod(values: Object) -> Any:
    return one(render(values), "DaemonSet", NAME)["spec"]["template"]["spec"]


def environment(values: Object) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in pod(values)["containers"][0]["env"]}


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert not [o for o in render() if "cxl-node" in o["metadata"]["name"]]


@pytest.mark.parametrize("values", [EMULATED, REAL], ids=["emulated", "real"])
def test_every_object_is_valid_kubernetes(values: Object) -> None:
    ours = [o for o in render(values) if "cxl-node" in o["metadata"]["name"]]
    assert {o["kind"] for o in ours} >= {"DaemonSet", "ClusterRole", "Role", "ValidatingAdmissionPolicy"}
    for obj in ours:
        kubernetes_validate.validate(obj, "1.37", strict=True)
        assert obj["metadata"]["labels"]["app.kubernetes.io/instance"] == "ballast"


def test_a_namespaced_install_cannot_have_it_and_says_so() -> None:
    done = helm("template", "ballast", str(CHART), values=EMULATED | {"namespaced": True})
    assert done.returncode != 0
    assert "cxl.enabled needs rights on the cluster" in done.stderr


def test_every_setting_is_one_that_the_plugin_reads() -> None:
    settings = pytest.importorskip("ballast_cxl.node.settings")
    for values in (EMULATED, REAL):
        assert environment(values).keys() <= set(settings._VARIABLES.values())
    assert environment(EMULATED)["BALLAST_CXL_HOST"] == "emulated"
    assert environment(REAL)["BALLAST_CXL_HOST"] == "linux"


def test_folders_are_at_the_same_place_for_plugin_kubelet_and_runtime() -> None:
    """Kubelet is told paths of sockets, and the runtime paths of devices: both must hold outside of the container."""
    for values in (EMULATED, REAL):
        volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod(values)["volumes"]}
        for mount in pod(values)["containers"][0]["volumeMounts"]:
            assert mount["mountPath"] == volumes[mount["name"]]
    assert {"/data/kubelet/plugins/cxl.ballast.dev", "/dev", "/etc/modprobe.d", "/etc/cdi"} <= {
        volume["hostPath"]["path"] for volume in pod(REAL)["volumes"]
    }


def test_the_new_plugin_serves_before_the_old_one_goes() -> None:
    strategy = one(render(EMULATED), "DaemonSet", NAME)["spec"]["updateStrategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}
    (entry,) = [e for e in pod(EMULATED)["containers"][0]["env"] if e["name"] == "POD_UID"]
    assert entry["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"


def test_the_plugin_may_read_no_secret_and_write_no_pod() -> None:
    rules = one(render(EMULATED), "ClusterRole", NAME)["rules"] + one(render(EMULATED), "Role", NAME)["rules"]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {
        "resourceclaims",
        "cxlregions",
        "cxlblades",
        "cxlattachments",
        "cxlattachments/status",
        "leases",
    }
    writable = {r for rule in rules for r in rule["resources"] if set(rule["verbs"]) - {"get", "list", "watch"}}
    assert writable == {"cxlattachments", "cxlattachments/status", "leases"}


def test_the_policy_is_about_the_plugins_account_and_is_bound() -> None:
    objects = render(EMULATED, release="other")
    policy = one(objects, "ValidatingAdmissionPolicy", "other-cxl-node")["spec"]
    account = one(objects, "DaemonSet", "other-cxl-node")["spec"]["template"]["spec"]["serviceAccountName"]
    assert policy["matchConditions"][0]["expression"].endswith(f"'system:serviceaccount:ballast-drivers:{account}'")
    assert policy["failurePolicy"] == "Fail"
    binding = one(objects, "ValidatingAdmissionPolicyBinding", "other-cxl-node")["spec"]
    assert (binding["policyName"], binding["validationActions"]) == ("other-cxl-node", ["Deny"])
