"""The children of a MoEServing, in the order in which they are made."""

from ballast_api.moeserving import MoEServing, Rollout
from ballast_operator.desired.moeserving import network, scaling
from ballast_operator.desired.moeserving.engine import engine_pod
from ballast_operator.desired.moeserving.installation import (
    HTTP_ROUTE,
    LEADER_WORKER_SET,
    POD_MONITOR,
    SCALED_OBJECT,
    Installation,
)
from ballast_operator.desired.moeserving.parts import ENGINE, ROUTER, Part
from ballast_operator.desired.moeserving.revision import engine_revision, pinned, router_revision, still_used
from ballast_operator.desired.moeserving.router import router_pod
from ballast_operator.desired.moeserving.volumes import cache_claim, claim_template
from ballast_operator.desired.moeserving.workloads import deadline, deployment, leader_worker_set, step
from ballast_operator.kind import Children
from ballast_operator.objects import Object

__all__ = ["Installation", "objects", "waits"]


def waits(serving: MoEServing, children: Children, installation: Installation) -> bool:
    """Whether all that runs is left as it is: engines serve, and what shall take their place is of a kind that the
    cluster has not."""
    missing = serving.spec.parallelism.nodes > 1 and LEADER_WORKER_SET not in installation.optional
    return missing and children.get("Deployment", Part.of(serving.metadata, ENGINE).name) is not None


def objects(serving: MoEServing, children: Children, installation: Installation) -> list[Object]:
    """What the serving should own now. Children of kinds that the cluster has not are left out; `observe` says so."""
    engine, router = Part.of(serving.metadata, ENGINE), Part.of(serving.metadata, ROUTER)
    wanted = [
        network.service(serving),
        network.engine_service(serving),
        network.engine_policy(serving, installation),
        network.router_policy(serving, installation),
        network.engine_budget(serving),
        network.router_budget(serving),
        cache_claim(serving),
        *_engine(serving, engine, children, installation),
        *_router(serving, router, children, installation),
        scaling.horizontal_pod_autoscaler(serving),
        scaling.scaled_object(serving) if SCALED_OBJECT in installation.optional else None,
        network.route(serving) if HTTP_ROUTE in installation.optional else None,
        network.pod_monitor(serving) if POD_MONITOR in installation.optional else None,
    ]
    return [obj for obj in wanted if obj is not None]


def _engine(serving: MoEServing, part: Part, children: Children, installation: Installation) -> list[Object | None]:
    revision, grouped = engine_revision(serving), serving.spec.parallelism.nodes > 1

    def render() -> Object:
        made = {"template": engine_pod(serving, installation, revision)}
        return made | ({"worker": engine_pod(serving, installation, revision, worker=True)} if grouped else {})

    kept = pinned(part, revision, children, render)
    rollout = step(part, revision, serving.spec.rollout, children)
    pod, worker = kept["data"]["template"], kept["data"].get("worker")
    runs: Object | None
    if not grouped:
        runs = deployment(part, serving.spec.replicas, pod, rollout, deadline(serving))
    elif LEADER_WORKER_SET in installation.optional:
        runs = leader_worker_set(part, serving, pod, worker, rollout)
    else:
        runs = None
    return [kept, *still_used(part, revision, children), claim_template(serving, revision), runs]


def _router(serving: MoEServing, part: Part, children: Children, installation: Installation) -> list[Object | None]:
    revision = router_revision(serving)
    kept = pinned(part, revision, children, lambda: {"template": router_pod(serving, installation, revision)})
    rollout = step(part, revision, Rollout(), children)  # spec.rollout is about engines, which are dear
    runs = deployment(part, serving.spec.router.replicas, kept["data"]["template"], rollout, deadline(serving))
    return [kept, *still_used(part, revision, children), runs]
