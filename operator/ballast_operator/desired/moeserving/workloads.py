"""What runs the pods: a Deployment for each role, or a LeaderWorkerSet where one replica takes several nodes."""

from ballast_api.moeserving import MoEServing, Rollout
from ballast_operator.desired.moeserving.parts import COMPONENT, ENGINE, REVISION, WORKER, Part
from ballast_operator.kind import Children
from ballast_operator.objects import Object

SPARE_SECONDS = 600  # on top of the startup: to pull a large image, and to wait for a node


def deployment(part: Part, replicas: int, pod: Object, rollout: Object, deadline: int) -> Object:
    """A Deployment of one role. Replicas are always applied: a field that is no longer applied falls back to 1."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": part.metadata(),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": part.selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rollout},
            "progressDeadlineSeconds": deadline,
            "revisionHistoryLimit": 2,
            "template": pod,
        },
    }


def leader_worker_set(part: Part, serving: MoEServing, leader: Object, worker: Object, rollout: Object) -> Object:
    """Groups of pods, one a node, that come and go together: a rank alone is of no use."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": part.metadata(),
        "spec": {
            "replicas": serving.spec.replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rollout},
            "leaderWorkerTemplate": {
                "size": serving.spec.parallelism.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def deadline(serving: MoEServing) -> int:
    """Seconds after which a rollout without progress is called stuck; it goes on all the same."""
    return serving.spec.startup.timeout_seconds + SPARE_SECONDS


def step(part: Part, revision: str, asked: Rollout, children: Children) -> Object:
    """How the next step of a rollout is made: a new pod first if there is room for it, else an old one makes room.

    There is no room when the scheduler says so of a pod of this revision while one of another is left to give way. That
    is kept until the rollout is over, or it would be found out again for each pod.
    """
    if asked.max_surge is not None:
        return {"maxSurge": asked.max_surge, "maxUnavailable": asked.max_unavailable}
    surge, replace = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}
    if _crowded(part, revision, children):
        return replace
    live = children.get("Deployment", part.name) or children.get("LeaderWorkerSet", part.name)
    if live is None or rolled_out(live):
        return surge
    return replace if _step_of(live).items() >= replace.items() else surge


def rolled_out(live: Object) -> bool:
    """Whether all replicas of a Deployment or LeaderWorkerSet are of its present template, and serve."""
    status, replicas = live.get("status", {}), live["spec"].get("replicas", 1)
    serving = "availableReplicas" if live["kind"] == "Deployment" else "readyReplicas"
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", serving)]
    return status.get("observedGeneration") == live["metadata"].get("generation") and counts == [replicas] * 3


def _step_of(live: Object) -> Object:
    """The step that was applied before; a LeaderWorkerSet has further members in the same place."""
    if live["kind"] == "Deployment":
        found: Object = live["spec"]["strategy"].get("rollingUpdate", {})
    else:
        found = live["spec"]["rolloutStrategy"].get("rollingUpdateConfiguration", {})
    return found


def _crowded(part: Part, revision: str, children: Children) -> bool:
    """A replica on several nodes may have room for some of its pods only, so all of them are looked at."""
    roles = [ENGINE, WORKER] if part.role == ENGINE else [part.role]
    pods = [pod for pod in children.all("Pod") if _labels(pod).get(COMPONENT) in roles]
    waiting = [pod for pod in pods if _labels(pod).get(REVISION) == revision and _unschedulable(pod)]
    return bool(waiting) and any(_labels(pod).get(REVISION) != revision for pod in pods)


def _labels(pod: Object) -> dict[str, str]:
    return dict(pod["metadata"].get("labels") or {})


def _unschedulable(pod: Object) -> bool:
    return any(
        c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable"
        for c in pod.get("status", {}).get("conditions") or []
    )
