"""Builders for tests: the shortest way to a serving, its Deployments and pods in some state, and what they answer."""

from collections.abc import Mapping
from typing import Any

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.parts import COMPONENT, ENGINE, REVISION, ROUTER
from ballast_operator.desired.moeserving.revision import engine_revision, router_revision
from ballast_operator.kind import Children, Situation
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object
from ballast_operator.observe.moeserving.vllm import EngineMetrics
from ballast_operator.testing import NOW, UID

INSTALLATION = Installation(
    image="ballast/serving:1",
    gpu_image="ballast/serving-gpu:1",
    router_image="ballast/router:1",
    pull_secrets=("registry",),
    optional=frozenset({"HTTPRoute", "LeaderWorkerSet", "PodMonitor", "ScaledObject"}),
)


def serving_object(name: str = "qwen", status: Object | None = None, **spec: Any) -> Object:
    """A MoEServing as the API server would hand it out. Keyword arguments are members of the spec, camelCase."""
    base: Object = {"model": {"builtin": {"name": "tiny-qwen3-moe"}}, "replicas": 1}
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "MoEServing",
        "metadata": {"name": name, "namespace": "team-a", "uid": UID, "generation": 1, "resourceVersion": "10"},
        "spec": base | spec,
        "status": status or {},
    }


def serving(name: str = "qwen", status: Object | None = None, **spec: Any) -> MoEServing:
    return MoEServing.model_validate(serving_object(name, status, **spec))


def child(kind: str, name: str, api_version: str = "v1", labels: dict[str, str] | None = None, **body: Any) -> Object:
    """A child of `serving()` of some kind."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-of-{name}",
            "generation": 1,
            "resourceVersion": "20",
            "creationTimestamp": "2026-01-02T03:00:00Z",
            "labels": {OWNER_KIND: "MoEServing", OWNER_NAME: "qwen"} | (labels or {}),
            "ownerReferences": [{"uid": UID, "controller": True, "kind": "MoEServing", "name": "qwen"}],
        },
    } | body


def deployment(
    role: str = ENGINE,
    *,
    replicas: int = 1,
    total: int | None = None,
    updated: int | None = None,
    available: int | None = None,
    **spec: Any,
) -> Object:
    """A role's Deployment; all its pods are updated and available unless said otherwise."""
    counts = {"replicas": total, "updatedReplicas": updated, "availableReplicas": available}
    status: Object = {"observedGeneration": 1} | {k: replicas if v is None else v for k, v in counts.items()}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    whole = {"replicas": replicas, "strategy": strategy} | spec
    return child("Deployment", f"qwen-{role}", "apps/v1", spec=whole, status=status)


def group(*, replicas: int = 1, total: int | None = None, updated: int | None = None, ready: int | None = None,
          seen: int | None = 1, **rollout: Any) -> Object:  # fmt: skip
    """The LeaderWorkerSet of a serving on several nodes; seen: its observedGeneration, None before version 0.9."""
    counts = {"replicas": total, "updatedReplicas": updated, "readyReplicas": ready}
    status: Object = {k: replicas if v is None else v for k, v in counts.items()}
    if seen is not None:
        status["observedGeneration"] = seen
    step = {"maxSurge": 1, "maxUnavailable": 0, "partition": 0} | rollout
    strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": step}
    spec = {"replicas": replicas, "rolloutStrategy": strategy, "leaderWorkerTemplate": {"size": 2}}
    return child("LeaderWorkerSet", "qwen-engine", "leaderworkerset.x-k8s.io/v1", spec=spec, status=status)


def pod(
    role: str = ENGINE,
    *,
    name: str | None = None,
    ready: bool = True,
    phase: str = "Running",
    revision: str | None = None,
    model: MoEServing | None = None,
    waiting: Object | None = None,
    ended: Object | None = None,
    restarts: int = 0,
    started: bool = False,
    conditions: list[Object] | None = None,
    address: str = "10.0.0.9",
) -> Object:
    """A pod of a role; started: its startup probe passed; ended: how its container ended last; revision: the present
    one of `model` unless given."""
    owner = model or serving()
    made = revision or (router_revision(owner) if role == ROUTER else engine_revision(owner))
    found = child("Pod", name or f"qwen-{role}-x", labels={COMPONENT: role, REVISION: made})
    found["spec"] = {"nodeName": "node1", "containers": [{"name": role, "image": "ballast/serving:1"}]}
    state: Object = {"waiting": waiting} if waiting else {"running": {}}
    container = {"name": role, "ready": ready, "restartCount": restarts, "started": started, "state": state}
    if ended:
        container["lastState"] = {"terminated": ended}
    answer = {"type": "Ready", "status": "True" if ready else "False"}
    found["status"] = {
        "phase": phase,
        "podIP": address,
        "conditions": [answer, *(conditions or [])],
        "containerStatuses": [container],
    }
    return found


def unscheduled(message: str) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]


def situation(model: MoEServing | None, *children: Object, **rest: Any) -> Situation[MoEServing]:
    """What `observe` is asked about."""
    return Situation(
        model=model,
        children=Children(children),
        previous=rest.pop("previous", {}),
        generation=rest.pop("generation", 1),
        now=rest.pop("now", NOW),
        **rest,
    )


def metrics(waiting: float = 0, running: float = 0, kv_cache: float = 0.0, **rest: Any) -> EngineMetrics:
    return EngineMetrics(waiting, running, kv_cache, **rest)


def answers(
    engines: Mapping[str, EngineMetrics | None], *, held: int = 0, in_flight: int = 0, ago: float | None = None
) -> Object:
    """What pods answer: a router at 10.0.1.1, and engines by their address."""
    router = {"held": held, "inFlight": in_flight, "lastRequestSecondsAgo": ago, "longestHoldSeconds": 0}
    found: Object = {"http://10.0.1.1:8080/status": router}
    return found | {f"http://{address}:8080/metrics": measured for address, measured in engines.items()}
