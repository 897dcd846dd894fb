"""One look at a serving: its model, its children by their part, and what its pods and routers said."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.engine import CONTAINER as ENGINE_CONTAINER
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.parts import ENGINE, REVISION, ROUTER, STATUS_PORT, WORKER, Part
from ballast_operator.desired.moeserving.revision import engine_revision, router_revision
from ballast_operator.desired.moeserving.router import CONTAINER as ROUTER_CONTAINER
from ballast_operator.kind import Children, Situation
from ballast_operator.objects import Object
from ballast_operator.observe.moeserving.seen import Seen
from ballast_operator.observe.moeserving.vllm import EngineMetrics
from ballast_operator.observe.pods import condition, may_run


@dataclass(frozen=True)
class View:
    """What the questions of `checks`, `status` and `autoscaler` are asked of."""

    serving: MoEServing
    situation: Situation[MoEServing]
    installation: Installation

    @property
    def children(self) -> Children:
        return self.situation.children

    @property
    def now(self) -> datetime:
        return self.situation.now

    @property
    def previous(self) -> Object:
        return self.situation.previous

    @property
    def seen(self) -> Seen:
        """What the last look tells this one."""
        found = self.situation.remembered
        return found if isinstance(found, Seen) else Seen()

    @property
    def wanted(self) -> int:
        """Replicas asked for."""
        return self.serving.spec.replicas

    @cached_property
    def engine(self) -> Part:
        return Part.of(self.serving.metadata, ENGINE)

    @cached_property
    def router(self) -> Part:
        return Part.of(self.serving.metadata, ROUTER)

    @cached_property
    def revision(self) -> str:
        return engine_revision(self.serving)

    @cached_property
    def router_revision(self) -> str:
        return router_revision(self.serving)

    @cached_property
    def workload(self) -> Object | None:
        """What runs the engines: a Deployment or a LeaderWorkerSet; one of the other kind until that is there."""
        kinds = ("LeaderWorkerSet", "Deployment") if self.grouped else ("Deployment", "LeaderWorkerSet")
        found = (self.children.get(kind, self.engine.name) for kind in kinds)
        return next((obj for obj in found if obj), None)

    @property
    def fits(self) -> bool:
        """Whether the engines run in what `parallelism.nodes` asks for."""
        return self.workload is not None and (self.workload["kind"] == "LeaderWorkerSet") == self.grouped

    @property
    def grouped(self) -> bool:
        """Whether each replica is a group of pods, on several nodes."""
        return self.serving.spec.parallelism.nodes > 1

    @cached_property
    def router_deployment(self) -> Object | None:
        return self.children.get("Deployment", self.router.name)

    @cached_property
    def engines(self) -> list[Object]:
        """Pods that serve, oldest first; of a group of nodes only its leader does."""
        return [pod for pod in self.pods if self.role(pod) == ENGINE]

    @cached_property
    def routers(self) -> list[Object]:
        return [pod for pod in self.pods if self.role(pod) == ROUTER]

    @cached_property
    def pods(self) -> list[Object]:
        """Every pod of ours that may still run."""
        roles = (ENGINE, WORKER, ROUTER)
        return [pod for pod in self.children.all("Pod") if may_run(pod) and self.role(pod) in roles]

    @property
    def updated(self) -> int:
        """Replicas of the present revision."""
        return int(self._status("updatedReplicas")) if self.fits else 0

    @property
    def total(self) -> int:
        """Replicas of any revision."""
        return int(self._status("replicas"))

    @property
    def available(self) -> int:
        """Replicas that serve, of any revision. A LeaderWorkerSet calls a ready group ready, not available."""
        grouped = (self.workload or {}).get("kind") == "LeaderWorkerSet"
        return int(self._status("readyReplicas" if grouped else "availableReplicas"))

    @property
    def routers_available(self) -> int:
        return int((self.router_deployment or {}).get("status", {}).get("availableReplicas", 0))

    @property
    def router_rolling(self) -> bool:
        """Whether a pod of the router is of an earlier template than the present one, as far as its Deployment's
        controller has seen that."""
        found = self.router_deployment
        if found is None:
            return False
        status = found.get("status", {})
        seen = status.get("observedGeneration") == found["metadata"].get("generation")
        return not seen or status.get("updatedReplicas", 0) < status.get("replicas", 0)

    @property
    def current(self) -> bool:
        """Whether the workload's own controller has seen what was last applied. A LeaderWorkerSet says so since 0.9; of
        an older one its pods tell, which are all of the present revision once it has seen that."""
        found = self.workload
        if found is None or not self.fits:
            return False
        seen = found.get("status", {}).get("observedGeneration")
        if seen is None and self.grouped:
            return all(self.revision_of(pod) == self.revision for pod in self.pods if self.role(pod) != ROUTER)
        return bool(seen == found["metadata"].get("generation"))

    @property
    def rolling(self) -> bool:
        """Whether a pod is missing, or of another revision than the present one."""
        return not self.current or not self.updated == self.total == self.wanted

    @cached_property
    def holding(self) -> list[dict[str, Any]]:
        """What each router that answered says of itself."""
        answers = (self.situation.gathered.get(status_url(pod, "status")) for pod in self.routers)
        return [answer for answer in answers if isinstance(answer, dict)]

    @property
    def held(self) -> int:
        """Requests that wait in routers."""
        return sum(number(answer, "held") for answer in self.holding)

    def measured(self, pod: Object) -> EngineMetrics | None:
        """What an engine measured, or None if it did not answer."""
        found = self.situation.gathered.get(status_url(pod, "metrics"))
        return found if isinstance(found, EngineMetrics) else None

    def missing(self, leader: Object) -> list[str]:
        """Names of the pods that a leader waits for: others of its group that are not there, or not ready."""
        there = {pod["metadata"]["name"] for pod in self.pods if self.role(pod) == WORKER and ready(pod)}
        ranks = range(1, self.serving.spec.parallelism.nodes)
        return [name for rank in ranks if (name := f"{leader['metadata']['name']}-{rank}") not in there]

    def role(self, pod: Object) -> str:
        return str((pod["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))

    def container(self, pod: Object) -> str:
        return ROUTER_CONTAINER if self.role(pod) == ROUTER else ENGINE_CONTAINER

    def revision_of(self, pod: Object) -> str | None:
        found = (pod["metadata"].get("labels") or {}).get(REVISION)
        return str(found) if found else None

    def is_current(self, pod: Object) -> bool:
        """Whether a pod is of the revision that the spec asks for now."""
        return self.revision_of(pod) == (self.router_revision if self.role(pod) == ROUTER else self.revision)

    def _status(self, name: str) -> int:
        return int((self.workload or {}).get("status", {}).get(name, 0))


def ready(pod: Object) -> bool:
    """Whether a pod is ready and is not about to go."""
    found = condition(pod, "Ready")
    return bool(found and found["status"] == "True" and not pod["metadata"].get("deletionTimestamp"))


def number(answer: dict[str, Any], name: str) -> int:
    """A count out of a pod's own words; 0 for anything else."""
    found = answer.get(name)
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else 0


def status_url(pod: Object, path: str) -> str:
    """Where a pod of ours says something of itself; empty while it has no address."""
    address = pod.get("status", {}).get("podIP")
    if not address:
        return ""
    return f"http://{f'[{address}]' if ':' in address else address}:{STATUS_PORT}/{path}"
