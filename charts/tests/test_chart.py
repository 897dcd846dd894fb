"""What the chart makes of its values."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest

from ballast_api.schema import KINDS
from ballast_api.schema.crd import crd
from ballast_api.yamltext import load_all
from charts.tests.rendering import CHART, Object, helm, kinds, one, render

CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "PriorityClass"}
EVERYTHING: Object = {
    "images": {
        "registry": "mirror.example.com:5000/hub",
        "operator": "ballast/operator:1.2.3",
        "cfr": f"ballast/cfr@sha256:{'a' * 64}",
        "serving": "ballast/serving:cpu",
        "servingGpu": "gpu.example.com/serving:2",
        "router": "ballast/router",
        "pullPolicy": "Always",
        "pullSecrets": ["one", "two"],
    },
    "operator": {
        "replicas": 3,
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
        "podLabels": {"team": "a"},
        "podAnnotations": {"note": "b"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "system-cluster-critical",
    },
    "networkPolicy": {"apiServerCIDRs": ["10.0.0.0/8"], "apiServerPorts": [8443], "metricsNamespaces": ["monitoring"]},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True},
}
VALUES: dict[str, Object] = {
    "defaults": {},
    "everything": EVERYTHING,
    "namespaced": {"namespaced": True},
    "namespaced over two": {"namespaced": True, "watchNamespaces": ["games", "lab"]},
    "some namespaces": {"watchNamespaces": ["games"]},
    "bare": {"crds": {"install": False}, "networkPolicy": {"enabled": False}},
    "crds that go": {"crds": {"keep": False}},
}


@pytest.fixture(params=VALUES.values(), ids=list(VALUES), scope="module")
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return render(request.param)


def environment(objects: list[Object]) -> dict[str, Any]:
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_lint_has_nothing_to_say() -> None:
    done = helm("lint", str(CHART), "--strict")
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_every_object_is_valid_kubernetes(objects: list[Object]) -> None:
    checked = [o for o in objects if o["kind"] != "ServiceMonitor"]  # not one of Kubernetes' own kinds
    for obj in checked:
        kubernetes_validate.validate(obj, "1.37", strict=True)
    assert len(checked) >= 7


def test_every_pod_is_restricted(objects: list[Object]) -> None:
    pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("Deployment", "Job", "DaemonSet")]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & pod.keys()
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_every_namespaced_object_says_where_it_belongs(objects: list[Object]) -> None:
    for obj in objects:
        assert (obj["kind"] in CLUSTER_SCOPED) != ("namespace" in obj["metadata"]), obj["metadata"]["name"]


def test_every_object_can_be_found_by_the_release(objects: list[Object]) -> None:
    for obj in objects:
        assert obj["metadata"]["labels"]["app.kubernetes.io/instance"] == "ballast", obj["metadata"]["name"]


@pytest.mark.parametrize(
    "path",
    [
        "typo",
        "images.typo",
        "crds.typo",
        "operator.typo",
        "operator.resources.typo",
        "networkPolicy.typo",
        "podDisruptionBudget.typo",
        "serviceMonitor.typo",
        "dashboards.typo",
    ],
)
def test_an_unknown_value_is_refused_by_name(path: str) -> None:
    values: Any = "x"
    for key in reversed(path.split(".")):
        values = {key: values}
    done = helm("template", "ballast", str(CHART), values=values)
    assert done.returncode != 0
    assert "additional properties 'typo' not allowed" in done.stderr


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"operator": {"replicas": -1}}, "/operator/replicas"),
        ({"images": {"pullPolicy": "Sometimes"}}, "/images/pullPolicy"),
        ({"images": {"cfr": "ballast/cfr@latest"}}, "/images/cfr"),
        ({"watchNamespaces": ["Games"]}, "/watchNamespaces/0"),
        ({"operator": {"tolerations": [{"kee": "x"}]}}, "/operator/tolerations/0"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_place(values: Object, place: str) -> None:
    done = helm("template", "ballast", str(CHART), values=values)
    assert done.returncode != 0
    assert f"at '{place}'" in done.stderr


def test_every_value_is_in_the_schema_and_every_object_of_it_is_closed() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    (defaults,) = load_all((CHART / "values.yaml").read_text(encoding="utf-8"))

    def resolved(node: Object) -> Object:
        found: Object = schema["definitions"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node
        return found

    def check(value: Any, node: Object, path: str) -> None:
        node = resolved(node)
        if isinstance(value, dict):
            assert "additionalProperties" in node, path
            for key, inner in value.items():
                known = node.get("properties", {})
                assert key in known or node["additionalProperties"] is not False, f"{path}.{key}"
                if key in known:
                    check(inner, known[key], f"{path}.{key}")
            assert set(node.get("properties", {})) <= set(value) or path.endswith(("affinity", "resources")), path

    check(defaults, schema, "values")


def test_a_namespaced_install_has_no_cluster_scoped_object() -> None:
    objects = render({"namespaced": True})
    assert not kinds(objects) & CLUSTER_SCOPED
    assert {o["metadata"]["namespace"] for o in objects} == {"ballast-system"}
    assert environment(objects)["BALLAST_NAMESPACES"] == "ballast-system"


def test_watched_namespaces_get_a_role_each_and_the_operator_hears_of_them() -> None:
    objects = render({"watchNamespaces": ["games", "lab"]})
    places = {
        o["metadata"]["namespace"] for o in objects if o["kind"] == "Role" and "lease" not in o["metadata"]["name"]
    }
    assert places == {"games", "lab"}
    assert "ClusterRoleBinding" not in kinds(objects)
    assert environment(objects)["BALLAST_NAMESPACES"] == "games,lab"
    for obj in objects:
        if obj["kind"] == "RoleBinding":
            assert obj["subjects"] == [
                {"kind": "ServiceAccount", "name": "ballast-operator", "namespace": "ballast-system"}
            ]


def test_rights_are_the_same_in_the_cluster_and_in_a_namespace() -> None:
    wide = one(render(), "ClusterRole", "ballast-operator")["rules"]
    assert wide == one(render({"namespaced": True}), "Role", "ballast-operator")["rules"]
    assert all("*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"] for rule in wide)
    assert all("secrets" not in rule["resources"] for rule in wide)


def test_the_lease_that_is_granted_is_the_one_that_is_taken() -> None:
    objects = render(release="other")
    granted = one(objects, "Role", "other-operator-lease")["rules"][1]["resourceNames"]
    assert granted == [environment(objects)["BALLAST_LEASE_NAME"]]


def test_people_get_our_kinds_with_the_roles_that_they_have() -> None:
    objects = render()
    view, edit = one(objects, "ClusterRole", "ballast-view"), one(objects, "ClusterRole", "ballast-edit")
    label = "rbac.authorization.k8s.io/aggregate-to-"
    assert {key for key in view["metadata"]["labels"] if key.startswith(label)} == {
        f"{label}view",
        f"{label}edit",
        f"{label}admin",
    }
    assert f"{label}view" not in edit["metadata"]["labels"]
    seen = {resource for rule in view["rules"] for resource in rule["resources"]}
    scales = {f"{kind.plural}/scale" for kind in KINDS if kind.scaled}
    assert seen == {kind.plural for kind in KINDS} | {f"{kind.plural}/status" for kind in KINDS} | scales
    assert set(edit["rules"][0]["resources"]) == {kind.plural for kind in KINDS if kind.namespaced}
    assert set(edit["rules"][1]["resources"]) == scales


def test_one_registry_serves_every_image() -> None:
    objects = render(EVERYTHING)
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mirror.example.com:5000/hub/ballast/operator:1.2.3"
    env = environment(objects)
    assert env["BALLAST_CFR_IMAGE"] == f"mirror.example.com:5000/hub/ballast/cfr@sha256:{'a' * 64}"
    assert env["BALLAST_SERVING_IMAGE"] == "mirror.example.com:5000/hub/ballast/serving:cpu"
    assert env["BALLAST_SERVING_GPU_IMAGE"] == "gpu.example.com/serving:2"
    assert env["BALLAST_ROUTER_IMAGE"] == "mirror.example.com:5000/hub/ballast/router:0.1.0"
    assert env["BALLAST_METRICS_NAMESPACES"] == "monitoring"
    assert (env["BALLAST_IMAGE_PULL_POLICY"], env["BALLAST_IMAGE_PULL_SECRETS"]) == ("Always", "one,two")
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]


@pytest.mark.parametrize(
    ("named", "pulled"),
    [
        ("ballast/cfr", "docker.io/ballast/cfr:0.1.0"),
        ("ballast/cfr:dev", "docker.io/ballast/cfr:dev"),
        ("mine.example.com/cfr", "mine.example.com/cfr:0.1.0"),
        ("localhost/cfr", "localhost/cfr:0.1.0"),
        ("host:5000/a/cfr:x", "host:5000/a/cfr:x"),
    ],
)
def test_an_image_gets_the_host_and_the_tag_that_it_lacks(named: str, pulled: str) -> None:
    assert environment(render({"images": {"cfr": named}}))["BALLAST_CFR_IMAGE"] == pulled


def test_what_the_pod_needs_reaches_the_pod() -> None:
    template = one(render(EVERYTHING), "Deployment")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"] == {"note": "b"}
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert template["spec"][key] == EVERYTHING["operator"][key]
    assert template["spec"]["containers"][0]["resources"]["requests"]["cpu"] == 1


def test_every_setting_of_the_chart_is_one_that_the_operator_reads() -> None:
    settings = pytest.importorskip("ballast_operator.settings")
    known = {f"BALLAST_{name.upper()}" for name in settings.Settings.__dataclass_fields__} | {
        "POD_NAME",
        "POD_NAMESPACE",
    }
    assert environment(render()).keys() <= known


def test_crds_are_upgraded_with_the_release_and_outlive_it() -> None:
    for kind in KINDS:
        rendered = one(render(), "CustomResourceDefinition", f"{kind.plural}.ballast.dev")
        assert rendered["spec"] == crd(kind)["spec"]
        assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        gone = one(render({"crds": {"keep": False}}), "CustomResourceDefinition", f"{kind.plural}.ballast.dev")
        assert "annotations" not in gone["metadata"]
    assert "CustomResourceDefinition" not in kinds(render({"crds": {"install": False}}))


def test_the_network_policy_lets_in_probes_and_out_what_is_asked() -> None:
    policy = one(render(EVERYTHING | {"watchNamespaces": ["games"]}), "NetworkPolicy")["spec"]
    assert policy["ingress"][0] == {"ports": [{"protocol": "TCP", "port": "health"}]}
    scrapers = policy["ingress"][1]["from"][0]["namespaceSelector"]["matchExpressions"][0]
    assert scrapers["values"] == ["monitoring"]
    dns, server, solvers = policy["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert (server["ports"], server["to"]) == (
        [{"protocol": "TCP", "port": 8443}],
        [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    )
    (peer,) = solvers["to"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/managed-by": "ballast"}
    assert peer["namespaceSelector"]["matchExpressions"][0]["values"] == ["games"]


def test_selectors_match_the_pods() -> None:
    objects = render(EVERYTHING)
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    for selector in (
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        one(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels
    monitor = one(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitor.items() <= one(objects, "Service")["metadata"]["labels"].items()


def test_the_dashboard_asks_for_metrics_that_the_operator_has() -> None:
    metrics = pytest.importorskip("ballast_operator.metrics")
    known = {
        name
        for metric in vars(metrics).values()
        if hasattr(metric, "describe") and not isinstance(metric, type)
        for family in metric.describe()
        for name in (family.name, *(f"{family.name}_{suffix}" for suffix in ("bucket", "count", "sum", "total")))
    }
    data = one(render({"dashboards": {"enabled": True}}), "ConfigMap")["data"]["ballast-operator.json"]
    asked = [target["expr"] for panel in json.loads(data)["panels"] for target in panel["targets"]]
    named = {name for text in asked for name in re.findall(r"ballast_\w+", text)}
    assert named >= {"ballast_leader", "ballast_queue_depth", "ballast_apply_total", "ballast_condition"}
    assert named <= known


def test_the_serving_dashboard_asks_for_metrics_that_routers_have() -> None:
    counts = pytest.importorskip("ballast_serving.hold.metrics").Counts()
    known = {
        name
        for family in counts.registry.collect()
        for name in (family.name, *(f"{family.name}_{suffix}" for suffix in ("bucket", "count", "sum", "total")))
    }
    data = one(render({"dashboards": {"enabled": True}}), "ConfigMap")["data"]["ballast-serving.json"]
    asked = [target["expr"] for panel in json.loads(data)["panels"] for target in panel["targets"]]
    named = {name for text in asked for name in re.findall(r"ballast_serving_\w+", text)}
    assert named >= {"ballast_serving_held_requests", "ballast_serving_cut_streams_total"}
    assert named <= known
    assert {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} <= {
        name for text in asked for name in re.findall(r"vllm:\w+", text)
    }
    vamp = pytest.importorskip("ballast_vamp.metrics")
    ours = {name for text in asked for name in re.findall(r"vamp:\w+", text)}
    assert ours >= {"vamp:kv_bytes_physical", "vamp:expert_bytes_host", "vamp:disabled_info"}
    assert {vamp.family_of(name) for name in ours} <= vamp.HELP.keys()


def test_notes_say_what_is_watched_and_what_an_uninstall_would_take() -> None:
    said = helm(
        "install", "ballast", str(CHART), "--dry-run=client", "--namespace", "x", values={"crds": {"keep": False}}
    )
    assert said.returncode == 0, said.stderr
    assert "watches all namespaces" in said.stdout
    assert "will delete every CFRSolve and MoEServing of the cluster" in said.stdout


def test_the_namespaces_enforce_what_the_pods_there_need() -> None:
    spaces = load_all((CHART.parent / "namespaces.yaml").read_text(encoding="utf-8"))
    enforced = {s["metadata"]["name"]: s["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] for s in spaces}
    assert enforced == {"ballast-system": "restricted", "ballast-drivers": "privileged"}


def test_the_install_page_names_every_value() -> None:
    page = (CHART.parents[1] / "docs/install.md").read_text(encoding="utf-8")
    (defaults,) = load_all((CHART / "values.yaml").read_text(encoding="utf-8"))
    for section, members in defaults.items():
        for key in members if isinstance(members, dict) else [""]:
            assert re.search(rf"`{section}\b", page), section
            assert f".{key}" in page or not key, f"{section}.{key}"


def test_rights_cover_every_kind_that_the_operator_looks_after_and_no_other() -> None:
    kinds_of, settings = pytest.importorskip("ballast_operator.kinds"), pytest.importorskip("ballast_operator.settings")
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in one(render(), "ClusterRole", "ballast-operator")["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted[group, resource] = set(rule["verbs"])
    used = {("", "events"): {"list", "create", "patch"}}
    for kind in kinds_of.kinds(settings.Settings()).values():
        ends = (
            {"delete"}
            if "ttl_seconds_after_finished" in kind.model.model_fields["spec"].annotation.model_fields
            else set()
        )
        used[kind.resource.group, kind.resource.plural] = {"list", "watch"} | ends
        used[kind.resource.group, f"{kind.resource.plural}/status"] = {"patch"}
        if kind.model.scaled:
            used[kind.resource.group, f"{kind.resource.plural}/scale"] = {"patch"}
        for child in kind.children:
            made = {"get", "create", "patch"} if child.kind != "Pod" else set()
            gone = {"delete"} if child in kind.removable else set()
            used[child.group, child.plural] = {"list", "watch"} | made | gone
    assert granted == used
