"""What a serving owns, as whole objects and as promises that hold for every serving."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_operator.desired.moeserving import objects, waits
from ballast_operator.desired.moeserving.parts import REVISION
from ballast_operator.desired.moeserving.revision import engine_revision
from ballast_operator.kind import Children
from ballast_operator.objects import OWNER_NAME, Object
from ballast_operator.testing import UID
from ballast_operator.testing_serving import INSTALLATION, deployment, group, pod, serving, unscheduled

GPU = {"limits": {"nvidia.com/gpu": 1}}
NODES: Object = {"parallelism": {"tensor": 2, "nodes": 2}}
SURGE, REPLACE = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}


def made(*children: Object, **spec: Any) -> list[Object]:
    return objects(serving(**spec), Children(children), INSTALLATION)


def one(wanted: list[Object], kind: str, name: str) -> Object:
    (found,) = [obj for obj in wanted if (obj["kind"], obj["metadata"]["name"]) == (kind, name)]
    return found


def pod_spec(wanted: list[Object], role: str = "engine") -> Object:
    found: Object = one(wanted, "Deployment", f"qwen-{role}")["spec"]["template"]["spec"]
    return found


def arguments(role: str = "engine", **spec: Any) -> list[str]:
    args: list[str] = pod_spec(made(**spec), role)["containers"][0]["args"]
    return args


def test_a_serving_owns_addresses_policies_budgets_and_two_deployments() -> None:
    names = sorted(f"{obj['kind']}/{obj['metadata']['name'].rsplit('-', 1)[0]}" for obj in made())
    assert [f"{obj['kind']}" for obj in made()] == [
        "Service",
        "Service",
        "NetworkPolicy",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodDisruptionBudget",
        "ControllerRevision",
        "Deployment",
        "ControllerRevision",
        "Deployment",
        "PodMonitor",
    ]
    assert "ControllerRevision/qwen-engine" in names


def test_the_engine_is_this_container() -> None:
    container = pod_spec(made(engine={"maxModelLen": 4096, "extraArgs": {"enforce-eager": "true"}}))["containers"][0]
    assert container["image"] == "ballast/serving:1"
    assert container["args"] == [
        "serve",
        "--model=tiny",
        "--served-name=qwen",
        "--port=8000",
        "--status-port=8080",
        "--drain-timeout=120",
        "--startup-timeout=900",
        "--",
        "--max-model-len=4096",
        "--enforce-eager",
    ]
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] >= 900
    assert {
        probe: container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    } == {
        "startupProbe": "/startupz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]


def test_a_switch_is_on_or_off() -> None:
    args = arguments(engine={"extraArgs": {"enable-prefix-caching": "false", "seed": "1"}})
    assert args[args.index("--") :] == ["--", "--no-enable-prefix-caching", "--seed=1"]


def test_the_router_is_this_container() -> None:
    assert arguments("router") == [
        "hold",
        "--port=8000",
        "--status-port=8080",
        "--engines=qwen-replicas.team-a.svc:8000",
        "--engine-status-port=8080",
        "--service=qwen.team-a.svc:8000",
        "--policy=PrefixAware",
        "--max-held=256",
        "--hold-timeout=600",
        "--drain-timeout=720",
    ]


@pytest.mark.parametrize(
    ("model", "path", "name"),
    [
        ({"huggingFace": {"id": "Qwen/Qwen3-30B-A3B", "revision": "main"}}, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B"),
        ({"persistentVolumeClaim": {"claimName": "m"}}, "/ballast/model", "qwen"),
        ({"persistentVolumeClaim": {"claimName": "m", "path": "a/b"}}, "/ballast/model/a/b", "qwen"),
        ({"image": {"reference": "models/qwen:1", "path": "q"}, "servedName": "q3"}, "/ballast/model/q", "q3"),
        ({"builtin": {"name": "tiny-qwen3-moe"}}, "tiny", "qwen"),
    ],
)
def test_a_model_is_found_where_it_lies(model: Object, path: str, name: str) -> None:
    args = arguments(model=model)
    assert f"--model={path}" in args
    assert f"--served-name={name}" in args
    mounted = [v for v in pod_spec(made(model=model))["volumes"] if v["name"] == "model"]
    assert bool(mounted) == path.startswith("/ballast/model")


@pytest.mark.parametrize(
    ("spec", "image"),
    [
        ({}, "ballast/serving:1"),
        ({"resources": {"limits": {"cpu": 4}}}, "ballast/serving:1"),
        ({"resources": GPU}, "ballast/serving-gpu:1"),
        ({"resources": {"claims": [{"name": "gpu"}]}}, "ballast/serving-gpu:1"),
        ({"devices": {"deviceClassName": "gpu.nvidia.com"}}, "ballast/serving-gpu:1"),
    ],
)
def test_a_device_brings_the_gpu_image(spec: Object, image: str) -> None:
    assert pod_spec(made(**spec))["containers"][0]["image"] == image


def test_devices_are_claimed_for_the_engine_alone() -> None:
    wanted = made(devices={"deviceClassName": "gpu.nvidia.com", "count": 2, "selectors": ["true"]})
    engine, router = pod_spec(wanted), pod_spec(wanted, "router")
    (claim,) = engine["resourceClaims"]
    assert engine["containers"][0]["resources"]["claims"] == [{"name": "devices"}]
    template = one(wanted, "ResourceClaimTemplate", claim["resourceClaimTemplateName"])
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert "resourceClaims" not in router


def test_secrets_reach_pods_by_reference_only() -> None:
    model = {"huggingFace": {"id": "a/b", "tokenSecretRef": {"name": "hub"}}}
    wanted = made(model=model, access={"apiKeySecretRef": {"name": "keys", "key": "team"}})
    found = {
        (role, entry["name"], entry["valueFrom"]["secretKeyRef"]["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for role in ("engine", "router")
        for entry in pod_spec(wanted, role)["containers"][0].get("env", [])
        if "valueFrom" in entry
    }
    assert found == {
        ("engine", "HF_TOKEN", "hub", "token"),
        ("engine", "VLLM_API_KEY", "keys", "team"),
        ("router", "VLLM_API_KEY", "keys", "team"),
    }


def test_a_variable_of_the_template_replaces_ours() -> None:
    env = pod_spec(made(template={"env": [{"name": "HF_HOME", "value": "/x"}]}))["containers"][0]["env"]
    assert [entry["value"] for entry in env if entry["name"] == "HF_HOME"] == ["/x"]


def test_the_network_lets_only_routers_reach_the_engine() -> None:
    policy = one(made(), "NetworkPolicy", "qwen-engine")["spec"]
    reached = [rule for rule in policy["ingress"] if {"protocol": "TCP", "port": 8000} in rule["ports"]]
    (rule,) = reached
    assert rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "router"
    assert "namespaceSelector" not in rule["from"][0]


def test_metrics_are_for_the_namespaces_that_the_installation_names() -> None:
    closed = replace(INSTALLATION, metrics_namespaces=("monitoring",))
    wanted = objects(serving(), Children(), closed)
    (_, watchers) = one(wanted, "NetworkPolicy", "qwen-engine")["spec"]["ingress"]
    spaces = [peer["namespaceSelector"] for peer in watchers["from"]]
    assert spaces[0] == {"matchLabels": {"kubernetes.io/metadata.name": "ballast-system"}}
    assert spaces[1]["matchExpressions"][0]["values"] == ["monitoring"]
    assert watchers["ports"] == [{"protocol": "TCP", "port": 8080}]


def test_several_nodes_make_groups_whose_leaders_serve() -> None:
    wanted = made(parallelism={"tensor": 8, "pipeline": 2, "nodes": 2}, replicas=3)
    group = one(wanted, "LeaderWorkerSet", "qwen-engine")["spec"]
    assert (group["replicas"], group["leaderWorkerTemplate"]["size"]) == (3, 2)
    leader, worker = (group["leaderWorkerTemplate"][f"{role}Template"] for role in ("leader", "worker"))
    assert leader["metadata"]["labels"]["app.kubernetes.io/component"] == "engine"
    assert worker["metadata"]["labels"]["app.kubernetes.io/component"] == "engine-worker"
    assert "--nnodes=2" in leader["spec"]["containers"][0]["args"]
    assert "--leader=$(LWS_LEADER_ADDRESS):8080" in worker["spec"]["containers"][0]["args"]
    assert not [arg for arg in leader["spec"]["containers"][0]["args"] if arg.startswith("--leader")]
    assert "--peer=$(POD_NAME)-1.qwen-engine.team-a.svc:8080" in leader["spec"]["containers"][0]["args"]
    assert one(wanted, "Service", "qwen-replicas")["spec"]["selector"]["app.kubernetes.io/component"] == "engine"
    assert not [obj for obj in wanted if obj["kind"] == "Deployment" and "engine" in obj["metadata"]["name"]]


def test_each_pod_of_a_group_has_a_node_of_its_own() -> None:
    group = one(made(parallelism={"tensor": 3, "nodes": 3}), "LeaderWorkerSet", "qwen-engine")["spec"]
    for role in ("leader", "worker"):
        (rule,) = group["leaderWorkerTemplate"][f"{role}Template"]["spec"]["topologySpreadConstraints"]
        assert (rule["maxSkew"], rule["minDomains"], rule["whenUnsatisfiable"]) == (1, 3, "DoNotSchedule")
        assert rule["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-key"]


def test_an_eviction_of_any_pod_of_a_group_counts() -> None:
    wanted = made(parallelism={"tensor": 2, "nodes": 2})
    (rule,) = one(wanted, "PodDisruptionBudget", "qwen-engine")["spec"]["selector"]["matchExpressions"]
    assert rule["values"] == ["engine", "engine-worker"]


def test_kinds_that_the_cluster_has_not_are_left_out() -> None:
    bare = replace(INSTALLATION, optional=frozenset())
    spec: Object = {"parallelism": {"tensor": 2, "nodes": 2}, "access": {"gatewayRef": {"name": "public"}}}
    kinds = {obj["kind"] for obj in objects(serving(**spec), Children(), bare)}
    assert not kinds & {"LeaderWorkerSet", "HTTPRoute", "PodMonitor", "ScaledObject"}


def test_engines_go_on_where_groups_cannot_be_made() -> None:
    bare, grouped = replace(INSTALLATION, optional=frozenset()), serving(**NODES)
    assert waits(grouped, Children([deployment()]), bare)
    assert not waits(grouped, Children([deployment("router")]), bare)
    assert not waits(grouped, Children([deployment()]), INSTALLATION)
    assert not waits(serving(), Children([deployment()]), bare)


def test_a_gateway_gets_a_route_to_the_api_and_to_nothing_else() -> None:
    route = one(made(access={"gatewayRef": {"name": "public", "namespace": "edge"}}), "HTTPRoute", "qwen")["spec"]
    assert route["parentRefs"] == [{"name": "public", "namespace": "edge"}]
    assert route["rules"][0]["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1"}}]
    assert route["rules"][0]["backendRefs"] == [{"name": "qwen", "port": 8000}]


def test_an_hpa_scales_the_object_itself() -> None:
    metrics = [
        {"type": "CPU", "averageUtilization": 70},
        {"type": "KVCacheUsage", "averageUtilization": 80},
        {"type": "WaitingRequests", "averageValue": 4},
    ]
    hpa = one(
        made(autoscaling={"mode": "HPA", "maxReplicas": 5, "metrics": metrics}),
        "HorizontalPodAutoscaler",
        "qwen-engine",
    )["spec"]
    assert hpa["scaleTargetRef"] == {"apiVersion": "ballast.dev/v1alpha1", "kind": "MoEServing", "name": "qwen"}
    assert hpa["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    assert hpa["metrics"][1]["pods"]["target"]["averageValue"] == "800m"
    assert hpa["metrics"][2]["pods"]["metric"]["name"] == "vllm:num_requests_waiting"
    assert hpa["behavior"]["scaleDown"]["stabilizationWindowSeconds"] == 300


def test_keda_counts_held_requests_so_that_it_can_start_from_zero() -> None:
    asked = {"mode": "KEDA", "minReplicas": 0, "maxReplicas": 3, "keda": {"prometheusAddress": "http://p:9090"}}
    spec = one(made(autoscaling=asked), "ScaledObject", "qwen-engine")["spec"]
    (trigger,) = spec["triggers"]
    assert "ballast_serving_held_requests" in trigger["metadata"]["query"]
    assert (spec["minReplicaCount"], trigger["metadata"]["activationThreshold"]) == (0, "0")


def test_mode_operator_needs_no_child() -> None:
    kinds = {obj["kind"] for obj in made(autoscaling={"maxReplicas": 3})}
    assert not kinds & {"HorizontalPodAutoscaler", "ScaledObject"}


def test_a_newer_operator_rolls_nothing_until_the_spec_changes() -> None:
    first = made()
    kept = [obj for obj in first if obj["kind"] == "ControllerRevision"]
    newer = replace(INSTALLATION, image="ballast/serving:2", router_image="ballast/router:2")
    same = objects(serving(), Children(kept), newer)
    for role in ("engine", "router"):
        assert pod_spec(same, role) == pod_spec(first, role)
    changed = objects(serving(engine={"maxNumSeqs": 8}), Children(kept), newer)
    assert pod_spec(changed)["containers"][0]["image"] == "ballast/serving:2"
    assert pod_spec(changed, "router")["containers"][0]["image"] == "ballast/router:1"


@pytest.mark.parametrize(
    "spec",
    [{"replicas": 3}, {"autoscaling": {"maxReplicas": 3}}, {"rollout": {"maxSurge": 2, "maxUnavailable": 0}}],
)
def test_what_does_not_change_pods_rolls_nothing(spec: Object) -> None:
    assert pod_spec(made(**spec)) == pod_spec(made())
    assert engine_revision(serving(**spec)) == engine_revision(serving())


def test_a_default_written_out_is_no_change() -> None:
    written: Object = {"drain": {"timeoutSeconds": 120}, "sharedMemory": "1Gi", "engine": {"dtype": "Auto"}}
    assert engine_revision(serving(**written)) == engine_revision(serving())


def test_a_revision_is_kept_as_long_as_one_of_its_pods_is_there() -> None:
    old = serving(engine={"maxNumSeqs": 2}, devices={"deviceClassName": "d"})
    kept = [
        obj | {"metadata": obj["metadata"] | {"uid": "u"}}
        for obj in objects(old, Children(), INSTALLATION)
        if obj["kind"] in ("ControllerRevision", "ResourceClaimTemplate")
    ]
    there = made(*kept, pod(model=old))
    gone = made(*kept)
    name = f"qwen-engine-{engine_revision(old)}"
    assert [obj["kind"] for obj in there if obj["metadata"]["name"] == name] == [
        "ControllerRevision",
        "ResourceClaimTemplate",
    ]
    assert not [obj for obj in gone if obj["metadata"]["name"] == name]


def strategy(*children: Object, **spec: Any) -> Object:
    found: Object = one(made(*children, **spec), "Deployment", "qwen-engine")["spec"]["strategy"]["rollingUpdate"]
    return found


def group_strategy(*children: Object, **spec: Any) -> Object:
    wanted = one(made(*children, **NODES, **spec), "LeaderWorkerSet", "qwen-engine")
    found: Object = wanted["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    return found


def test_a_rollout_adds_a_pod_first_where_there_is_room() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    assert strategy() == SURGE
    assert strategy(deployment(updated=0), pod(model=old), pod(name="new", ready=False)) == SURGE


def test_a_rollout_on_a_full_cluster_takes_one_away_first_until_it_is_over() -> None:
    old = serving(engine={"maxNumSeqs": 2})
    full = pod(name="new", ready=False, phase="Pending", conditions=unscheduled("0/2 nodes: Insufficient cpu"))
    assert strategy(deployment(updated=1, total=2), pod(model=old), full) == REPLACE
    replacing: Object = {"strategy": {"type": "RollingUpdate", "rollingUpdate": REPLACE}}
    under_way = deployment(updated=1, total=1, available=0, **replacing)
    assert strategy(under_way, pod(name="new", ready=False)) == REPLACE
    assert strategy(deployment(**replacing), pod(name="new")) == SURGE


def test_a_group_that_has_no_room_for_all_its_pods_takes_an_old_one_away_first_until_it_is_over() -> None:
    now, old = serving(**NODES), serving(engine={"maxNumSeqs": 2}, **NODES)
    assert group_strategy(group(), pod(model=now)) == SURGE
    leader = pod(name="new", model=now, ready=False)
    waits = unscheduled("0/2 nodes: Insufficient memory")
    worker = pod("engine-worker", name="new-1", model=now, ready=False, phase="Pending", conditions=waits)
    assert group_strategy(group(updated=1, total=2), pod(model=old), leader, worker) == REPLACE
    under_way = group(updated=1, ready=0, maxSurge=0, maxUnavailable=1)
    assert group_strategy(under_way, leader) == REPLACE
    assert group_strategy(group(maxSurge=0, maxUnavailable=1), pod(model=now)) == SURGE


def test_a_pod_that_waits_with_nobody_to_make_room_changes_nothing() -> None:
    full = pod(ready=False, phase="Pending", conditions=unscheduled("0/2 nodes: Insufficient cpu"))
    assert strategy(deployment(available=0), full) == SURGE


def test_a_rollout_that_is_prescribed_is_followed() -> None:
    assert strategy(rollout={"maxSurge": 2, "maxUnavailable": 1}) == {"maxSurge": 2, "maxUnavailable": 1}


NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,39}[a-z0-9])?", fullmatch=True)
TEMPLATE = {
    "labels": {"team": "a"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "mine"}],
    "env": [{"name": "A", "value": "b"}],
    "volumes": [{"name": "extra", "emptyDir": {}}],
    "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    "affinity": {"nodeAffinity": {}},
}
SPECS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                {"builtin": {"name": "tiny-qwen3-moe"}},
                {"huggingFace": {"id": "a/b", "tokenSecretRef": {"name": "s"}}},
                {"persistentVolumeClaim": {"claimName": "c", "path": "p"}},
                {"image": {"reference": "r:1"}},
            ]
        ),
        "replicas": st.integers(0, 9),
    },
    optional={
        "engine": st.just({"maxModelLen": 1, "extraArgs": {"seed": "1"}}),
        "parallelism": st.sampled_from([{"tensor": 4, "expert": True}, {"tensor": 4, "nodes": 2}]),
        "resources": st.sampled_from([GPU, {"requests": {"cpu": "500m"}}]),
        "devices": st.just({"deviceClassName": "d", "selectors": ["true"]}),
        "autoscaling": st.sampled_from(
            [
                {"maxReplicas": 3},
                {"mode": "HPA", "maxReplicas": 3, "metrics": [{"type": "CPU", "averageUtilization": 50}]},
                {"mode": "KEDA", "maxReplicas": 3, "keda": {"prometheusAddress": "http://p"}},
            ]
        ),
        "startup": st.builds(dict, timeoutSeconds=st.integers(10, 86400)),
        "drain": st.builds(dict, timeoutSeconds=st.integers(1, 7200)),
        "rollout": st.just({"maxSurge": 0, "maxUnavailable": 1}),
        "router": st.builds(
            dict, replicas=st.integers(1, 3), hold=st.builds(dict, timeoutSeconds=st.integers(1, 7200)), template=st.just(TEMPLATE)
        ),
        "access": st.just({"apiKeySecretRef": {"name": "k"}, "gatewayRef": {"name": "g"}, "hostnames": ["x.example.com"]}),
        "cache": st.sampled_from([{"size": "9Gi", "storageClassName": "s"}, {"persistentVolumeClaim": {"claimName": "c"}}]),
        "sharedMemory": st.sampled_from(["2Gi", 1073741824]),
        "vamp": st.sampled_from(
            [{"maxOffload": "8Gi"}, {"maxOffload": "1G", "mode": "DryRun", "profileConfigMapRef": {"name": "p", "key": "k"}}]
        ),
        "template": st.just(TEMPLATE),
    },
)  # fmt: skip


def pods_of(wanted: list[Object]) -> dict[str, Object]:
    """Every pod template, by role."""
    found = {}
    for obj in wanted:
        if obj["kind"] == "Deployment":
            template = obj["spec"]["template"]
            found[template["metadata"]["labels"]["app.kubernetes.io/component"]] = template
        if obj["kind"] == "LeaderWorkerSet":
            for name in ("leaderTemplate", "workerTemplate"):
                template = obj["spec"]["leaderWorkerTemplate"][name]
                found[template["metadata"]["labels"]["app.kubernetes.io/component"]] = template
    return found


def drain_of(container: Object) -> int:
    return next(int(arg.split("=")[1]) for arg in container["args"] if arg.startswith("--drain-timeout="))


@settings(deadline=None)
@given(NAMES, SPECS)
def test_every_child_is_owned_labelled_short_named_and_in_the_owners_namespace(name: str, spec: Object) -> None:
    for obj in objects(serving(name, **spec), Children(), INSTALLATION):
        meta = obj["metadata"]
        assert len(meta["name"]) <= 63
        assert meta["namespace"] == "team-a"
        assert meta["ownerReferences"][0]["uid"] == UID
        assert meta["labels"][OWNER_NAME] == name
        assert all(len(value) <= 63 for value in meta["labels"].values())


@settings(deadline=None)
@given(SPECS)
def test_a_pod_has_longer_to_end_than_its_drain_takes(spec: Object) -> None:
    for template in pods_of(objects(serving(**spec), Children(), INSTALLATION)).values():
        (container,) = template["spec"]["containers"]
        before_stop = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert template["spec"]["terminationGracePeriodSeconds"] > before_stop + drain_of(container)


@settings(deadline=None)
@given(SPECS)
def test_every_pod_has_its_own_roles_secrets_tolerations_and_selector(spec: Object) -> None:
    for role, template in pods_of(objects(serving(**spec), Children(), INSTALLATION)).items():
        asked = spec.get("router", {}).get("template") if role == "router" else spec.get("template")
        pod = template["spec"]
        extra = [{"name": "mine"}] if asked else []
        assert pod["imagePullSecrets"] == [{"name": "registry"}, *extra]
        assert pod.get("tolerations") == (asked or {}).get("tolerations")
        assert pod.get("nodeSelector") == (asked or {}).get("nodeSelector")
        assert REVISION in template["metadata"]["labels"]


@settings(deadline=None)
@given(SPECS)
def test_every_pod_may_run_in_a_restricted_namespace(spec: Object) -> None:
    for template in pods_of(objects(serving(**spec), Children(), INSTALLATION)).values():
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


@settings(deadline=None)
@given(SPECS)
def test_the_same_spec_always_gives_the_same_objects(spec: Object) -> None:
    first = objects(serving(**spec), Children(), INSTALLATION)
    kept = Children([obj for obj in first if obj["kind"] == "ControllerRevision"])
    assert objects(serving(**spec), kept, INSTALLATION) == first


def examples() -> list[Object]:
    """Objects of specs that together have every member that pods are made from."""
    found: list[Object] = []
    whole: Object = {
        "template": TEMPLATE,
        "router": {"template": TEMPLATE},
        "access": {"apiKeySecretRef": {"name": "k"}},
        "cache": {"size": "9Gi"},
        "devices": {"deviceClassName": "d", "selectors": ["true"]},
        "resources": GPU,
        "autoscaling": {"mode": "HPA", "maxReplicas": 3},
        "vamp": {"maxOffload": "8Gi", "profileConfigMapRef": {"name": "p", "key": "k"}},
    }
    sources: list[Object] = [
        {"huggingFace": {"id": "a/b", "tokenSecretRef": {"name": "s"}}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"image": {"reference": "r:1"}},
    ]
    for model in sources:
        found += objects(serving(model=model, **whole), Children(), replace(INSTALLATION, metrics_namespaces=("m",)))
    return found


def test_kubernetes_own_schema_takes_every_child() -> None:
    own = [
        obj for obj in examples() if obj["kind"] not in ("HTTPRoute", "LeaderWorkerSet", "PodMonitor", "ScaledObject")
    ]
    text = "\n---\n".join(json.dumps(obj) for obj in own)
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", "1.37", "-"]
    checked = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    said = checked.stdout + checked.stderr
    assert checked.returncode == 0, said
    assert said.count("INFO") + said.count("passed") >= len(own)
    assert "WARN" not in said, said
