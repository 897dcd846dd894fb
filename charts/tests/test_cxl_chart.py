"""The region controller's part of the chart: its rights, its network, the device classes, the policy."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest

from charts.tests.rendering import CHART, Object, helm, one, render

ON: Object = {"cxl": {"enabled": True, "controller": {"credentialSecrets": ["fm"], "applianceCIDRs": ["10.9.0.0/16"]}}}


def ours(objects: list[Object]) -> list[Object]:
    labels = [o["metadata"].get("labels", {}).get("app.kubernetes.io/name") for o in objects]
    return [o for o, name in zip(objects, labels, strict=True) if name == "ballast-cxl"]


def environment(objects: list[Object]) -> dict[str, Any]:
    (container,) = one(objects, "Deployment", "ballast-cxl")["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert ours(render()) == []


def test_every_object_is_valid_kubernetes() -> None:
    found = ours(render(ON))
    assert {o["kind"] for o in found} >= {"Deployment", "DeviceClass", "ValidatingAdmissionPolicy", "NetworkPolicy"}
    for obj in found:
        kubernetes_validate.validate(obj, "1.37", strict=True)


def test_the_pod_is_restricted() -> None:
    pod = one(render(ON), "Deployment", "ballast-cxl")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert "volumes" not in pod
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_every_setting_of_the_chart_is_one_that_the_controller_reads() -> None:
    settings = pytest.importorskip("ballast_cxl.controller.settings")
    known = {f"BALLAST_CXL_{name.upper()}" for name in settings.Settings.__dataclass_fields__}
    assert environment(render(ON)).keys() <= known | {"POD_NAME", "POD_NAMESPACE"}


def test_the_settings_of_the_chart_are_the_controllers_own_defaults() -> None:
    settings = pytest.importorskip("ballast_cxl.controller.settings")
    given = {name: value for name, value in environment(render(ON)).items() if value is not None}
    assert settings.Settings.from_environment(given) == settings.Settings()


def test_only_the_controller_reads_the_credentials_and_only_those_that_are_named() -> None:
    readers = {
        (o["metadata"]["name"], tuple(rule.get("resourceNames", [])))
        for o in render(ON)
        if o["kind"] in ("Role", "ClusterRole")
        for rule in o["rules"]
        if "secrets" in rule["resources"]
    }
    assert readers == {("ballast-cxl", ("fm",))}


def test_the_lease_that_is_granted_is_the_one_that_is_taken() -> None:
    objects = render(ON, release="other")
    (role,) = [o for o in objects if o["kind"] == "Role" and o["metadata"]["name"] == "other-cxl" and "cre" in str(o)]
    granted = [r["resourceNames"] for r in role["rules"] if r["resources"] == ["leases"] and "resourceNames" in r]
    (container,) = one(objects, "Deployment", "other-cxl")["spec"]["template"]["spec"]["containers"]
    taken = next(entry["value"] for entry in container["env"] if entry["name"] == "BALLAST_CXL_LEASE_NAME")
    assert granted == [[taken]]


def test_the_network_is_open_to_appliances_only() -> None:
    policy = one(render(ON), "NetworkPolicy", "ballast-cxl")["spec"]
    assert policy["egress"][-1] == {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}
    anywhere = one(render({"cxl": {"enabled": True}}), "NetworkPolicy", "ballast-cxl")["spec"]
    assert anywhere["egress"] == [{}]


def test_one_class_excludes_what_the_other_has() -> None:
    classes = {
        o["metadata"]["name"]: o["spec"]["selectors"][0]["cel"]["expression"]
        for o in render(ON)
        if o["kind"] == "DeviceClass"
    }
    assert classes["region.cxl.ballast.dev"].endswith('&& "name" in device.attributes["cxl.ballast.dev"]')
    assert classes["cxl.ballast.dev"].endswith('&& !("name" in device.attributes["cxl.ballast.dev"])')


def test_the_policy_knows_the_selector_that_the_controller_writes() -> None:
    regions = pytest.importorskip("ballast_cxl.controller.regions")
    spec = one(render(ON), "ValidatingAdmissionPolicy", "ballast-cxl-regions")["spec"]
    (form,) = [v["expression"] for v in spec["variables"] if v["name"] == "form"]
    pattern = "".join(re.findall(r"r'([^']*)'", form))
    assert re.search(pattern, regions.selector("team-a", "kv"))
    for other in (
        'device.driver == "x"',
        regions.selector("team-a", "kv") + " || true",
        regions.selector('a" || "', "kv"),
    ):
        assert not re.search(pattern, other)
    assert regions.selector("team-a", "kv").split('"')[3] == "team-a"
    assert regions.selector("team-a", "kv").split('"')[7] == "kv"


def test_the_dashboard_asks_for_metrics_that_the_controller_has() -> None:
    metrics = pytest.importorskip("ballast_cxl.metrics")
    known = {
        name
        for metric in vars(metrics).values()
        if hasattr(metric, "describe") and not isinstance(metric, type)
        for family in metric.describe()
        for name in (family.name, *(f"{family.name}_{suffix}" for suffix in ("bucket", "count", "sum", "total")))
    }
    data = one(render(ON | {"dashboards": {"enabled": True}}), "ConfigMap", "ballast-cxl-dashboard")["data"]
    asked = [target["expr"] for panel in json.loads(data["ballast-cxl.json"])["panels"] for target in panel["targets"]]
    named = {name for text in asked for name in re.findall(r"ballast_\w+", text)}
    assert len(named) >= 12
    assert named <= known


@pytest.mark.parametrize(
    "values",
    [{"leaks": "Ignore"}, {"sweepSeconds": 0}, {"typo": 1}, {"applianceCIDRs": ["nowhere"]}],
    ids=lambda values: next(iter(values)),
)
def test_a_wrong_value_is_refused(values: Object) -> None:
    done = helm("template", "ballast", str(CHART), values={"cxl": {"enabled": True, "controller": values}})
    assert done.returncode != 0
    assert "/cxl/controller" in done.stderr
