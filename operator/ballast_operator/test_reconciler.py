"""What the loop does when the world moves while it looks, and what it takes from Events."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ballast_api.moeserving import MoEServing
from ballast_operator.cluster.apply import Applier
from ballast_operator.cluster.cache import Cache
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ChildConflict
from ballast_operator.kind import Kind, Need, Observation, Situation
from ballast_operator.kinds import MOE_SERVING
from ballast_operator.objects import Key, Object
from ballast_operator.reconciler import Reconciler, complaint
from ballast_operator.resources import CONFIG_MAP
from ballast_operator.testing import UID
from ballast_operator.testing_serving import child, serving_object

KEY = Key("MoEServing", "team-a", "qwen")
NEED = Need(CONFIG_MAP, "profile", "vamp.profileConfigMapRef", "hot")


class Server:
    """Takes what is written to /scale, and has one object of the user's, or none."""

    def __init__(self, found: Object | None = None) -> None:
        self.scaled: list[int] = []
        self.found = found

    async def get(self, _resource: object, _namespace: str, _name: str) -> Object | None:
        return self.found

    async def scale(self, _resource: object, _obj: Object, replicas: int) -> None:
        self.scaled.append(replicas)


def client(server: Server) -> Client:
    made: Any = server
    found: Client = made
    return found


def changed(generation: int) -> Object:
    obj = serving_object(replicas=generation)
    obj["metadata"] |= {"generation": generation, "resourceVersion": str(10 + generation)}
    return obj


def kind(
    observe: Callable[[Situation[MoEServing]], Observation], needs: Sequence[Need] = ()
) -> dict[str, Kind[MoEServing]]:
    """A kind that has no children."""
    made: Kind[MoEServing] = Kind(
        resource=MOE_SERVING,
        model=MoEServing,
        children=(),
        removable=(),
        desired=lambda _model, _children: None,
        observe=observe,
        needs=lambda _model, _children: list(needs),
        silent=lambda _children: None,
        probe=lambda _children: None,
    )
    return {KEY.kind: made}


@pytest.mark.parametrize(("meanwhile", "written"), [(1, [3]), (2, [])])
async def test_replicas_that_were_decided_for_an_earlier_spec_are_not_written(
    meanwhile: int, written: list[int]
) -> None:
    cache, server = Cache(), Server()
    cache.put(changed(1))

    def observe(situation: Situation[MoEServing]) -> Observation:
        cache.put(changed(meanwhile))  # as the watch does, at any time
        return Observation({}, replicas=3, remember=f"of {situation.generation}")

    await Reconciler(kind(observe), client(server), cache).reconcile(KEY)
    assert server.scaled == written


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (None, [replace(NEED, there=False)]),
        ({"data": {"another": "1"}}, [replace(NEED, there=True)]),
        ({"data": {"hot": "1"}}, []),
        ({"binaryData": {"hot": "MQ=="}}, []),
    ],
)
async def test_a_need_tells_a_missing_object_from_a_missing_entry(found: Object | None, missing: list[Need]) -> None:
    cache, seen = Cache(), list[Need]()
    cache.put(changed(1))

    def observe(situation: Situation[MoEServing]) -> Observation:
        seen.extend(situation.missing)
        return Observation({})

    await Reconciler(kind(observe, [NEED]), client(Server(found)), cache).reconcile(KEY)
    assert seen == missing


async def test_a_child_of_a_deleted_namesake_is_waited_for() -> None:
    cache = Cache()
    left, wanted = child("Service", "qwen"), child("Service", "qwen")
    left["metadata"]["ownerReferences"][0]["uid"] = "of-the-one-before"
    cache.put(left)
    owner = serving_object()
    assert owner["metadata"]["uid"] == UID
    said = r"Service team-a/qwen belongs to an earlier MoEServing team-a/qwen, which was deleted; waiting"
    with pytest.raises(ChildConflict, match=said):
        await Applier(client(Server()), cache).converge(owner, KEY, [wanted])
    left["metadata"]["ownerReferences"][0]["name"] = "another"
    cache = Cache()
    cache.put(left)
    with pytest.raises(ChildConflict, match="does not belong to this object"):
        await Applier(client(Server()), cache).converge(owner, KEY, [wanted])


def event(reason: str, second: int, kind: str = "Warning") -> Object:
    return {"type": kind, "reason": reason, "message": "m", "lastTimestamp": f"2026-01-02T03:04:{second:02}Z"}


def test_a_warning_counts_until_something_goes_on() -> None:
    mount, pull = event("FailedMount", 5), event("Pulling", 9, "Normal")
    assert complaint([]) is None
    assert complaint([event("Scheduled", 1, "Normal"), event("FailedScheduling", 2), mount]) == "FailedMount: m"
    assert complaint([mount, pull]) is None
    assert complaint([mount, pull, event("FailedMount", 10)]) == "FailedMount: m"
