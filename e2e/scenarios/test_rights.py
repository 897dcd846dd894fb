"""The operator's rights and its network: what the chart grants is used, and what it does not grant is not missed."""

import json
from collections.abc import Iterator

import pytest

from e2e.scenarios.test_cfrsolve import complete
from e2e.scenarios.test_foreign_kinds import everything
from e2e.scenarios.test_resume import long_solve, running_pod
from e2e.support import foreign
from e2e.support.audit import Audit, forbidden
from e2e.support.chart import deploy
from e2e.support.fixtures import scale
from e2e.support.kube import Kube, Object, eventually, is_true, reason, solve
from e2e.support.operator import ACCOUNT, SYSTEM
from e2e.support.serving import moe

USER = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"


def granted(kube: Kube) -> set[tuple[str, str]]:
    """Every (verb, resource) that the operator's roles give."""
    system = kube.inside(SYSTEM)
    roles = [system.get("clusterrole", ACCOUNT), system.get("role", f"{ACCOUNT}-lease")]
    return {
        (verb, resource)
        for role in roles
        if role
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(entries: list[Object]) -> set[tuple[str, str]]:
    """Every (verb, resource) that was asked for and allowed; an apply that made something needs `create` too."""
    found = set()
    for entry in entries:
        ref = entry.get("objectRef", {})
        if entry["responseStatus"]["code"] == 403 or not ref.get("resource"):
            continue
        resource = ref["resource"] + (f"/{ref['subresource']}" if ref.get("subresource") else "")
        found.add((entry["verb"], resource))
        if entry["verb"] == "patch" and entry["responseStatus"]["code"] == 201:
            found.add(("create", resource))
    return found


@pytest.fixture
def foreign_kinds(admin: Kube) -> Iterator[None]:
    """Other projects' kinds, so that the rights on them can be used."""
    with foreign.installed(admin):
        yield


@pytest.mark.e2e
def test_every_right_is_used_and_no_call_is_forbidden(kube: Kube, audit: Audit, foreign_kinds: None) -> None:
    system = kube.inside(SYSTEM)
    scale(system, 0)
    system.run("delete", "lease", ACCOUNT, "--ignore-not-found")
    position = audit.now()
    scale(system, 1)
    kube.apply(
        long_solve("stops"),
        solve("goes", ttlSecondsAfterFinished=1),
        solve("refused", template={"securityContext": {"runAsNonRoot": False, "runAsUser": 0}}),
    )
    use_serving_rights(kube)
    running_pod(kube, "stops")
    kube.patch("cfr", "stops", {"spec": {"suspend": True}})
    kube.until("cfr", "stops", is_true("Suspended"), 90)
    kube.until("cfr", "refused", reason("Progressing", "Forbidden"), 60)
    kube.gone("cfr", "goes", 120)
    entries = audit.by(USER, position)
    rights = granted(kube)
    unused = rights - used(entries)
    print(f"{len(rights)} rights granted, {len(rights) - len(unused)} used, {len(entries)} requests")
    assert forbidden(entries) == []
    assert unused == set(), "granted, and never used"
    assert {u for u in used(entries) if u[1] != "selfsubjectreviews"} <= rights


def use_serving_rights(kube: Kube) -> None:
    """Servings that have every kind of child, and then no longer; none of their pods need run."""
    kept = {"cache": {"size": "16Mi"}, "resources": {"requests": {"cpu": "1000"}}}
    kube.apply(
        everything("groups"),
        moe("scaled", autoscaling={"minReplicas": 2, "maxReplicas": 3}, **kept),
        moe("hpa", autoscaling={"mode": "HPA", "maxReplicas": 3}, devices={"deviceClassName": "d"}),
    )
    kube.until("leaderworkerset", "groups-engine", lambda _: True, 60)
    kube.until("moe", "scaled", lambda obj: obj["spec"]["replicas"] == 2, 60)
    kube.until("hpa", "hpa-engine", lambda _: True, 60)
    gone: Object = {"autoscaling": None, "access": None, "parallelism": None, "devices": None, "replicas": 0}
    for name in ("groups", "hpa"):
        kube.patch("moe", name, {"spec": gone})
    kube.gone("leaderworkerset", "groups-engine", 60)
    kube.gone("scaledobject", "groups-engine", 60)
    kube.gone("httproute", "groups", 60)
    kube.gone("hpa", "hpa-engine", 60)
    kube.until("deployment", "groups-engine", lambda _: True, 60)
    kube.patch("moe", "groups", {"spec": {"parallelism": {"tensor": 2, "nodes": 2}}})
    kube.gone("deployment", "groups-engine", 60)
    eventually(lambda: not kube.list("resourceclaimtemplates"), 60, lambda: "a claim template is left")


@pytest.fixture
def closed(kube: Kube, images: dict[str, str]) -> Iterator[Kube]:
    """The operator with metrics for its own namespace only; as it was afterwards."""
    deploy(kube, images, f"networkPolicy.metricsNamespaces={{{SYSTEM}}}")
    yield kube
    deploy(kube, images)


def reaches(kube: Kube, name: str, url: str) -> bool:
    """Whether a pod of this namespace gets an answer from a URL."""
    container: Object = {
        "name": "main",
        "image": "docker.io/ballast/toolbox:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", f"sleep 5; fetch {url} 4"],  # policies learn of a new pod's address a little late
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"restartPolicy": "Never", "securityContext": security, "containers": [container]}
    kube.delete("pod", name)
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    ended = kube.until("pod", name, lambda p: p.get("status", {}).get("phase") in ("Succeeded", "Failed"), 60)
    kube.delete("pod", name)
    return bool(ended["status"]["phase"] == "Succeeded")


@pytest.mark.e2e
def test_metrics_are_let_in_from_where_the_policy_says_and_from_nowhere_else(closed: Kube) -> None:
    system = closed.inside(SYSTEM)
    (pod,) = [
        p for p in system.list("pods", f"app.kubernetes.io/name={ACCOUNT}") if "deletionTimestamp" not in p["metadata"]
    ]
    url = f"http://{pod['status']['podIP']}:8080/metrics"
    eventually(lambda: reaches(system, "friend", url), 60, lambda: "the friend is refused")
    assert not reaches(closed, "foe", url)


@pytest.mark.e2e
def test_the_operator_reaches_a_solvers_status_port_and_no_other_pod(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    running_pod(kube, "leduc")  # the iterations in its status came through the status port
    (server, *_) = [
        p["status"]["podIP"] for p in kube.inside("kube-system").list("pods", "app.kubernetes.io/name=coredns")
    ]
    assert reaches(kube, "anybody", f"http://{server}:8181/ready"), (
        "the other pod answers nobody, so this proves nothing"
    )
    script = (
        "import socket\n"
        "s = socket.socket(); s.settimeout(3)\n"
        f"try:\n s.connect(({server!r}, 8181)); print('open')\n"
        "except OSError as e: print('refused', e)"
    )
    said = kube.inside(SYSTEM).run("exec", f"deployment/{ACCOUNT}", "--", "python3", "-c", script)
    assert said.startswith("refused"), said


@pytest.mark.e2e
def test_a_pod_can_patch_its_own_result_and_nothing_else(kube: Kube) -> None:
    kube.apply(long_solve("leduc"))
    running_pod(kube, "leduc")
    account = f"system:serviceaccount:{kube.namespace}:leduc-solve"
    rules = json.loads(
        kube.run(
            "create",
            "-f",
            "-",
            "-o",
            "json",
            "--validate=false",
            f"--as={account}",
            text=json.dumps(_review(kube.namespace)),
        )
    )["status"]["resourceRules"]
    own = [r for r in rules if r["resources"] != ["selfsubjectreviews"] and "selfsubject" not in r["resources"][0]]
    assert [(r["verbs"], r["resources"], r.get("resourceNames")) for r in own] == [
        (["patch"], ["configmaps"], ["leduc-strategy"])
    ]


def _review(namespace: str) -> Object:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }


@pytest.mark.e2e
def test_an_upgrade_leaves_running_solves_alone(kube: Kube, images: dict[str, str]) -> None:
    kube.apply(solve("leduc", stop={"maxSeconds": 120}))  # longer than an upgrade, however fast the machine
    pod = running_pod(kube, "leduc")
    before = kube.get("job", "leduc-solve")
    assert before
    deploy(kube, images | {"cfr": "docker.io/ballast/cfr:of-tomorrow"})
    try:
        kube.patch("job", "leduc-solve", {"spec": {"backoffLimit": 1}})  # the new operator looks after the old Job
        kube.until("job", "leduc-solve", lambda job: job["spec"]["backoffLimit"] == 6, 30, "the edit put back")
        after = kube.get("job", "leduc-solve")
        assert after and after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"]["template"] == before["spec"]["template"]
        assert running_pod(kube, "leduc") == pod
        kube.apply(solve("new"))
        made = kube.until("job", "new-solve", lambda _: True, 30)
        assert made["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":of-tomorrow")
        kube.delete("cfr", "new")
    finally:
        deploy(kube, images)
    complete(kube, "leduc", 240)
