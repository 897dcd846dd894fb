"""The loop: bring one object to what its spec says, from whatever state it is in.

Kubernetes promises that the latest state arrives, not that every change does. So the loop never asks what happened: it
looks at what is wanted and what is there, does the next thing, and writes down how it stands. It may run at any time,
twice, or half.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from ballast_operator.cluster.apply import Applier, Change, Result
from ballast_operator.cluster.around import Surroundings
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import STATUS_MANAGER, Client
from ballast_operator.cluster.errors import ApiError, ChildConflict
from ballast_operator.cluster.probe import Prober
from ballast_operator.cluster.recorder import Recorder
from ballast_operator.kind import Children, Kind, Need, Notice, Observation, Situation, Trouble
from ballast_operator.metrics import APPLIED, CONDITION
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Key, Object, describe, digest
from ballast_operator.resources import EVENT, POD, resource_of

log = logging.getLogger(__name__)


@dataclass
class Reconciler:
    """Everything that a reconcile needs. One per process, shared by the workers."""

    kinds: Mapping[str, Kind[Any]]
    client: Client
    cache: Cache
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    prober: Prober = field(default_factory=Prober)
    _left: dict[Key, tuple[str, Object]] = field(default_factory=dict)  # status: digest of ours, and as it was stored
    _remembered: dict[Key, Any] = field(default_factory=dict)  # what an observation wants to know at the next one

    def __post_init__(self) -> None:
        self.applier = Applier(self.client, self.cache)
        self.recorder = Recorder(self.client)
        self.surroundings = Surroundings(self.client)

    async def reconcile(self, key: Key) -> float | None:
        """Returns the seconds after which to look again, or None. Raises what a later try may cure."""
        kind = self.kinds[key.kind]
        seen = self.cache.get(kind.resource, key.namespace, key.name)
        if seen is None or seen["metadata"].get("deletionTimestamp"):
            self._forget(key)  # its children go with it
            return None
        model, faults = parse(kind.model, seen)
        trouble: Exception | None = None
        if model is not None:  # a spec that cannot be read changes nothing that runs
            try:
                await self._converge(kind, key, seen, model)
            except (ChildConflict, ApiError) as error:
                if explain(error) is None:  # the server's own trouble: nothing the user could change
                    raise
                trouble = error
        observation = await self._observe(kind, key, seen, model, faults, trouble)
        await self._report(key, seen, observation)
        await self._scale(kind, key, seen, observation)
        if observation.expired:
            await self.client.delete(kind.resource, seen)
        if trouble is not None:
            raise trouble
        return observation.again

    async def _converge(self, kind: Kind[Any], key: Key, seen: Object, model: Any) -> None:
        want = kind.desired(model, self._children(key))
        if want is None:
            return
        if kind.alone is not None:
            want = await self._without_second_writer(kind, key, want)
        changes = await self.applier.prune(key, seen, want, kind.removable)
        changes += await self.applier.converge(seen, key, want)
        for change in changes:
            APPLIED.labels(kind=change.child.split()[0], result=change.result).inc()
        await self._tell_drift(seen, changes)

    async def _without_second_writer(self, kind: Kind[Any], key: Key, want: list[Object]) -> list[Object]:
        """Hold back the child that must be alone while a pod of the owner may still run, seen by the cache or not."""
        makes = [
            obj
            for obj in want
            if resource_of(obj) == kind.alone
            and self.cache.get(kind.alone, key.namespace, obj["metadata"]["name"]) is None
        ]
        if not makes:
            return want
        selector = f"{OWNER_KIND}={key.kind},{OWNER_NAME}={key.name}"
        pods = await self.client.list(POD, key.namespace, selector)
        for pod in pods:
            self.cache.put(pod)
        return [obj for obj in want if obj not in makes] if any(may_run(pod) for pod in pods) else want

    async def _observe(
        self, kind: Kind[Any], key: Key, seen: Object, model: Any, faults: list[str], trouble: Exception | None
    ) -> Observation:
        children = self._children(key)
        probe = kind.probe(children)
        return kind.observe(
            Situation(
                model=model,
                children=children,
                previous=seen.get("status") or {},
                generation=seen["metadata"]["generation"],
                now=self.clock(),
                faults=faults,
                trouble=explain(trouble) if trouble else None,
                missing=await self._missing(kind, key, model, children) if model is not None else (),
                complaint=await self._complaint(kind.silent(children)),
                reported=await self.prober.fetch(probe) if probe else None,
                gathered=await self.prober.fetch_all(kind.probes(model, children)) if model is not None else {},
                around=await self.surroundings.look(kind.around(model), key.namespace) if model is not None else (),
                remembered=self._remembered.get(key),
            )
        )

    async def _scale(self, kind: Kind[Any], key: Key, seen: Object, observation: Observation) -> None:
        """Write the replicas that the observation asks for, unless the spec that it is about changed meanwhile:
        somebody may have scaled it. The watch brings us back then, and what was to be remembered is not true."""
        if observation.replicas is not None:
            now = self.cache.get(kind.resource, key.namespace, key.name)
            if now is None or _spec_of(now) != _spec_of(seen):
                return
            try:
                await self.client.scale(kind.resource, now, observation.replicas)
            except ApiError as error:
                if error.conflict or error.not_found:
                    return
                raise
            if observation.scaled:
                await self.recorder.tell(now, observation.scaled, self.clock())
        self._remembered[key] = observation.remember

    async def _missing(self, kind: Kind[Any], key: Key, model: Any, children: Children) -> list[Need]:
        """Needs that the server, asked just now, has nothing for; no watch shows us the user's own objects."""
        missing = []
        for need in kind.needs(model, children):
            found = await self.client.get(need.resource, key.namespace, need.name)
            if not need.met_by(found):
                missing.append(replace(need, there=found is not None))
        return missing

    async def _complaint(self, child: Object | None) -> str | None:
        """What Events say of a child that does not go on; of one that is not ours, and so not watched, by its name."""
        if child is None:
            return None
        meta = child["metadata"]
        named = f"involvedObject.kind={child['kind']},involvedObject.name={meta['name']}"
        fields = f"involvedObject.uid={meta['uid']}" if "uid" in meta else named
        events = await self.client.list(EVENT, meta["namespace"], fields=fields)
        return complaint([event for event in events if _when(event) >= meta.get("creationTimestamp", "")])

    async def _report(self, key: Key, seen: Object, observation: Observation) -> None:
        """Store the status if it says anything new, then tell what changed in it."""
        previous, asked = seen.get("status") or {}, digest(observation.status)
        if observation.status == previous or self._left.get(key) == (asked, previous):
            return
        meta = {"name": key.name, "namespace": key.namespace}
        body = {"apiVersion": seen["apiVersion"], "kind": seen["kind"], "metadata": meta, "status": observation.status}
        try:
            stored = await self.client.apply(body, subresource="status", manager=STATUS_MANAGER)
        except ApiError as error:
            if error.not_found:  # deleted while we looked
                return
            raise
        self._left[key] = (asked, stored.get("status") or {})
        self.cache.put(stored)
        for condition in observation.status.get("conditions", []):
            CONDITION.labels(key.kind, key.namespace, key.name, condition["type"]).set(condition["status"] == "True")
        for notice in notices(previous, observation.status):
            await self.recorder.tell(seen, notice, self.clock())

    async def _tell_drift(self, seen: Object, changes: list[Change]) -> None:
        for change in changes:
            if change.result is Result.CORRECTED:
                log.info("put back %s, which somebody had changed", change.child)
                notice = Notice("DriftCorrected", f"{change.child} had been changed; put back")
                await self.recorder.tell(seen, notice, self.clock())

    def _children(self, key: Key) -> Children:
        return Children(self.cache.children(key))

    def _forget(self, key: Key) -> None:
        self._remembered.pop(key, None)
        _, status = self._left.pop(key, ("", {}))
        for condition in status.get("conditions", []):
            CONDITION.remove(key.kind, key.namespace, key.name, condition["type"])
        self.applier.forget(key)


def parse(model: type[BaseModel], obj: Object) -> tuple[Any | None, list[str]]:
    """The object as its model, or what is wrong with it, one sentence a fault."""
    try:
        return model.model_validate(obj), []
    except ValidationError as error:
        return None, [
            f"{describe(obj)}: {'.'.join(str(part) for part in fault['loc'])}: {fault['msg'].lower()}"
            for fault in error.errors()
        ]


def may_run(pod: Object) -> bool:
    """Whether a pod's processes may still be there: any phase but the two final ones, terminating or not."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


_PROGRESS = frozenset(("Pulling", "Pulled", "Created", "Started", "SuccessfulCreate"))


def complaint(events: Iterable[Object]) -> str | None:
    """The last Warning, unless something went on since: an image is pulled only once all volumes are there. Controllers
    and kubelets put some troubles into Events and nowhere else."""
    found = list(events)
    last = max((event for event in found if event["type"] == "Warning"), key=_when, default=None)
    if last is None or any(event["reason"] in _PROGRESS and _when(event) >= _when(last) for event in found):
        return None
    return f"{last['reason']}: {last['message']}"


def _when(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _spec_of(obj: Object) -> tuple[str, int]:
    """Which spec an object has, of all that it ever had."""
    return obj["metadata"]["uid"], obj["metadata"]["generation"]


def explain(error: Exception) -> Trouble | None:
    """What the cluster refused, as a reason and a sentence for the status; None for what only time can cure."""
    if isinstance(error, ChildConflict):
        return Trouble("ChildConflict", str(error))
    if not isinstance(error, ApiError) or error.terminating:
        return None
    if error.quota:
        return Trouble("QuotaExceeded", error.message)
    if error.forbidden:
        return Trouble("Forbidden", error.message)
    return Trouble("InvalidSpec", error.message) if error.invalid else None


def notices(previous: Object, status: Object) -> list[Notice]:
    """What people should be told about the step from one status to the next: every change of a condition's reason."""
    before = {c["type"]: (c["status"], c["reason"]) for c in previous.get("conditions", [])}
    return [
        Notice(condition["reason"], condition["message"], warning=_bad(condition))
        for condition in status.get("conditions", [])
        if before.get(condition["type"]) != (condition["status"], condition["reason"])
        and condition["reason"] != "Starting"  # the Job's and the pod's own events say it better
    ]


_QUIET = frozenset(
    (
        "Queued",
        "Suspending",
        "Suspended",
        "Running",
        "Resumed",
        "WaitingForPods",
        "AllReplicasReady",
        "SomeReplicasReady",
        "ModelLoading",
        "PodsNotReady",
        "RouterNotReady",
        "ScaledToZero",
        "Holding",
        "RollingOut",
        "RolledOut",
        "FollowingLoad",
        "Delegated",
        "Balancing",
        "DryRun",
    )
)


def _bad(condition: Object) -> bool:
    if condition["type"] == "Failed":
        return bool(condition["status"] == "True")
    if condition["type"] == "Complete":
        return bool(condition["reason"] == "ResultTooLarge")
    return condition["reason"] not in _QUIET
