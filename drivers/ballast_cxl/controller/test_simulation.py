"""Controllers without election, interleaved call by call, with old reads and deaths between any two steps."""

import asyncio
import random
from pathlib import Path

import pytest

from ballast_cxl.controller.testing import Cluster
from ballast_cxl.emulator.judge import judge
from ballast_cxl.emulator.layout import BladeLayout
from ballast_cxl.emulator.state import read
from ballast_cxl.names import FABRIC_FINALIZER, NODE_FINALIZER, attachment_name
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE, CXL_REGION, CXL_TENANT_QUOTA, RESOURCE_CLAIM
from ballast_operator.watched import own_key

BLADE = BladeLayout("b0", 2, 8, 1, 8)  # 16 MiB, regions of whole rows of 2 MiB


def cluster(tmp_path: Path, seed: int, controllers: int = 2, contiguity: str = "Required") -> Cluster:
    return Cluster(tmp_path, random.Random(seed), controllers=controllers, blade=BLADE, contiguity=contiguity)


def proven(found: Cluster, tmp_path: Path) -> None:
    """What must hold at the end, by the appliance's own log and by the ledger."""
    verdict = judge(read(tmp_path / "log.jsonl"))
    assert (verdict.overlaps, verdict.refusals, verdict.twice) == ([], [], [])
    held = sorted(entry["memoryId"] for entry in found.ledger() if entry.get("memoryId"))
    assert sorted(found.memories()) == held, "leaked, or lost"
    ready = [r for r in found.server.all(CXL_REGION.kind) if r["status"]["phase"] in ("Composed", "Ready")]
    assert len(ready) == len(found.ledger()) == len(held)


async def race(found: Cluster, regions: int, sizes: list[str], crashes: float, steps: int) -> int:
    """Regions come and some go while controllers die at random; how many died."""
    died = made = 0
    for _ in range(steps):
        await found.step()
        chance = found.rng.random()
        if made < regions and chance < 0.08:
            made += 1
            found.region(f"r{made}", found.rng.choice(sizes))
        elif chance < 0.084 and (there := found.server.all(CXL_REGION.kind)):
            meta = found.rng.choice(there)["metadata"]
            found.server.delete(CXL_REGION, meta["namespace"], meta["name"])
        elif chance > 1 - crashes:
            found.crash(found.rng.randrange(len(found.processes)))
            died += 1
    return died


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("contiguity", ["Required", "None"])
async def test_a_race_ends_with_every_block_in_one_memory_or_free(tmp_path: Path, seed: int, contiguity: str) -> None:
    found = cluster(tmp_path, seed, contiguity=contiguity)
    quota = {"namespace": "team-a", "maxBytes": "12Mi"}
    found.create(CXL_TENANT_QUOTA, None, "q", quota)
    await race(found, 12, ["2Mi", "2Mi", "4Mi", "8Mi"], 0.004, 900)
    await found.converge()
    proven(found, tmp_path)
    (stored,) = found.server.all(CXL_TENANT_QUOTA.kind)
    assert len(stored["status"]["charges"]) >= len(found.ledger())
    assert sum(len(blocks) for blocks in found.memories().values()) <= 12


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
async def test_many_races_end_well(tmp_path: Path, seed: int) -> None:
    found = cluster(tmp_path, seed, controllers=3, contiguity=random.Random(seed).choice(["Required", "None"]))
    await race(found, 20, ["2Mi", "2Mi", "4Mi", "8Mi"], 0.006, 2000)
    await found.converge()
    proven(found, tmp_path)


@pytest.mark.parametrize(("count", "size", "contiguity", "fit"), [(12, "2Mi", "Required", 8), (20, "1Mi", "None", 16)])
async def test_exactly_as_many_get_memory_as_there_is(
    tmp_path: Path, count: int, size: str, contiguity: str, fit: int
) -> None:
    found = cluster(tmp_path, 7, contiguity=contiguity)
    for number in range(count):
        found.region(f"r{number}", size)
    for _ in range(600):
        await found.step()
        if found.rng.random() < 0.01:
            found.crash(found.rng.randrange(2))
    await found.converge()
    phases = [region["status"]["phase"] for region in found.server.all(CXL_REGION.kind)]
    assert (phases.count("Composed"), phases.count("Pending")) == (fit, count - fit)
    proven(found, tmp_path)
    messages = {
        condition["message"]
        for region in found.server.all(CXL_REGION.kind)
        for condition in region["status"]["conditions"]
        if region["status"]["phase"] == "Pending" and condition["type"] == "Ready"
    }
    assert all("free a region" in message for message in messages)


async def run_calls(found: Cluster, calls: int) -> bool:
    """Let a single controller make so many calls and die; False if it had no more to make."""
    left = calls
    for _ in range(4000):
        if found.turns.release():
            left -= 1
            await found.settle()
            if left <= 0:
                return True
            continue
        process = found.processes[0]
        process.deliver(process.behind())
        process.begin(found.rng)
        await found.settle()
        if not process.tasks and not process.queue.ready:
            found.plugins()
            if found.done() and not found.server.all(CXL_REGION.kind):
                return False
            found.pass_time(1.0)
    return False


@pytest.mark.parametrize("stride", [range(1, 120, 17)])
async def test_a_death_between_any_two_steps_of_making_a_region_leaves_nothing_behind(
    tmp_path: Path, stride: range
) -> None:
    """Each run dies after a further call; then another controller finishes: one compose, and nothing leaked or lost."""
    for calls in stride:
        folder = tmp_path / str(calls)
        found = cluster(folder, calls, controllers=1)
        found.region("kv", "4Mi")
        await run_calls(found, calls)
        found.crash(0)
        await found.converge()
        proven(found, folder)
        assert judge(read(folder / "log.jsonl")).composes == 1, f"died after {calls} calls"


@pytest.mark.parametrize("stride", [range(1, 600, 37)])
async def test_a_death_between_any_two_steps_of_ending_a_region_leaves_nothing_behind(
    tmp_path: Path, stride: range
) -> None:
    for calls in stride:
        folder = tmp_path / str(calls)
        found = cluster(folder, calls, controllers=1)
        made = found.region("kv", "4Mi")
        await found.converge()
        ask(found, made, "n1")
        await found.converge()
        found.server.delete(CXL_REGION, "team-a", "kv")
        node = next(a for a in found.server.all(CXL_ATTACHMENT.kind))
        found.server.delete(CXL_ATTACHMENT, None, node["metadata"]["name"])
        finished = not await run_calls(found, calls)
        found.crash(0)
        await found.converge()
        assert (found.memories(), found.ledger(), found.server.all(CXL_ATTACHMENT.kind)) == ({}, [], []), calls
        if finished:
            break
    assert finished, "the matrix did not reach the end"


def ask(found: Cluster, region: dict[str, object], node: str) -> None:
    """As a node plugin does: it wants the region."""
    meta: dict[str, str] = region["metadata"]  # type: ignore[assignment]
    spec = {"region": {key: meta[key] for key in ("namespace", "name", "uid")}, "node": node, "purpose": "Use"}
    found.create(
        CXL_ATTACHMENT, None, attachment_name(meta["uid"], node), spec, finalizers=[FABRIC_FINALIZER, NODE_FINALIZER]
    )


async def test_a_node_is_cut_off_by_a_controller_that_has_not_heard_of_its_connection(tmp_path: Path) -> None:
    """Its watch of ledgers lags behind the one of attachments; the controller that made the connection is dead."""
    found = cluster(tmp_path, 9)
    made = found.region("kv", "4Mi")
    await found.converge()
    first, second = found.processes
    ask(found, made, "n1")
    while not found.ledger()[0].get("attachments") or found.ledger()[0].get("operation"):
        first.deliver(first.behind())
        first.begin(found.rng)
        found.turns.release()
        await found.settle()
    first.kill()
    (attachment,) = found.server.all(CXL_ATTACHMENT.kind)
    found.server.delete(CXL_ATTACHMENT, None, attachment["metadata"]["name"])
    found.plugins()  # the node gives it back
    (attachment,) = found.server.all(CXL_ATTACHMENT.kind)
    second.world.cache.put(attachment)
    work = asyncio.create_task(second.core.reconcile(own_key(attachment)[0]))
    while not work.done():
        found.turns.release()
        await found.settle()
    work.result()
    assert found.appliance.blades["b0"].state.connections == {}
    assert (found.ledger()[0].get("attachments", []), found.server.all(CXL_ATTACHMENT.kind)) == ([], [])
    assert second.world.cache.all(CXL_ATTACHMENT) == [], "a watch that has just begun would not tell that it is gone"
    assert own_key(made)[0] in second.queue.ready, "who waits for that is not woken"


@pytest.mark.parametrize("seed", range(3))
async def test_where_a_device_is_is_said_again_if_the_object_says_so_no_more(tmp_path: Path, seed: int) -> None:
    """The node needs it to take the device down; anybody who may write a status may have lost it."""
    found = cluster(tmp_path, seed)
    made = found.region("kv", "4Mi")
    await found.converge()
    ask(found, made, "n1")
    await found.converge()
    (attachment,) = found.server.all(CXL_ATTACHMENT.kind)
    place = {name: value for name, value in attachment["status"].items() if name != "phase"}
    assert set(place) == {"generation", "blade", "port", "memoryId", "serial", "size"}
    found.server.put(attachment | {"status": {"phase": "Assigned", "node": {"device": place["serial"]}}})
    found.server.delete(CXL_REGION, "team-a", "kv")
    found.server.delete(CXL_ATTACHMENT, None, attachment["metadata"]["name"])
    await found.converge()
    told = [obj.get("status") for _, obj in found.server.log if obj["kind"] == CXL_ATTACHMENT.kind]
    assert {"phase": "Detaching", "node": {"device": place["serial"]}} | place in told
    assert (found.memories(), found.ledger(), found.server.all(CXL_ATTACHMENT.kind)) == ({}, [], [])


async def test_a_dead_node_is_fenced_before_its_region_is_overwritten(tmp_path: Path) -> None:
    found = cluster(tmp_path, 3, controllers=1)
    made = found.region("kv", "4Mi")
    await found.converge()
    ask(found, made, "n1")
    await found.converge()
    (link,) = found.appliance.blades["b0"].state.connections.values()
    found.dead.add("n1")
    found.server.delete(CXL_REGION, "team-a", "kv")
    await found.converge()
    assert (found.memories(), found.ledger()) == ({}, [])
    events = [event for event in read(tmp_path / "log.jsonl") if event["op"] in ("assign", "unassign", "free")]
    assert (events[1]["op"], events[1]["port"]) == ("unassign", link.port)
    assert [event["op"] for event in events] == ["assign", "unassign", "assign", "unassign", "free"]
    assert events[2]["port"] != link.port


async def test_a_node_that_cannot_be_fenced_keeps_the_blocks_in_quarantine(tmp_path: Path) -> None:
    found = cluster(tmp_path, 4, controllers=1)
    made = found.region("kv", "4Mi")
    await found.converge()
    ask(found, made, "n1")
    await found.converge()
    found.dead.add("n1")
    found.outage.silent = True
    found.server.delete(CXL_REGION, "team-a", "kv")
    for _ in range(4000):
        if not found.turns.release():
            process = found.processes[0]
            process.deliver(process.behind())
            process.begin(found.rng)
            if not process.tasks:
                found.pass_time(2.0)
        await found.settle()
        if found.ledger()[0]["state"] == "Quarantined":
            break
    (entry,) = found.ledger()
    assert (entry["state"], entry["message"][:11]) == ("Quarantined", "FenceFailed")
    found.outage.silent = False
    for _ in range(25):
        found.pass_time(60)
        await found.converge()
    assert len(found.memories()) == 1, "blocks in quarantine came back by themselves"
    blade = next(iter(found.server.all("CXLBlade")))
    found.server.put(blade | {"spec": blade["spec"] | {"releaseQuarantined": [entry["uid"]]}})
    for _ in range(3):
        found.pass_time(10)
        await found.converge()
    assert (found.memories(), found.ledger()) == ({}, [])


async def test_a_retained_region_keeps_its_bytes_whenever_its_last_node_lets_go(tmp_path: Path) -> None:
    """The last attachment goes between any two steps of the region's end: its memory is never overwritten."""
    for calls in range(1, 25):
        found = cluster(tmp_path / str(calls), calls, controllers=1)
        made = found.region("kv", "4Mi", reclaimPolicy="Retain")
        await found.converge()
        ask(found, made, "n3")  # which is not cabled, so nothing but the object keeps the region
        await found.converge()
        found.server.delete(CXL_REGION, "team-a", "kv")
        await run_calls(found, calls)
        for attachment in found.server.all(CXL_ATTACHMENT.kind):
            found.server.put(attachment | {"metadata": attachment["metadata"] | {"finalizers": []}})
            found.server.delete(CXL_ATTACHMENT, None, attachment["metadata"]["name"])
        await found.converge()
        (entry,) = found.ledger()
        assert (entry["state"], entry["message"][:8], calls) == ("Quarantined", "Retained", calls)
        assert found.server.all(CXL_REGION.kind) == []


async def test_a_retained_region_whose_finalizer_was_taken_off_keeps_its_bytes(tmp_path: Path) -> None:
    """The object is not there to be asked when the entry is found to have no owner; the ledger knows."""
    found = cluster(tmp_path, 6, controllers=1)
    kept = found.region("kept", "4Mi", reclaimPolicy="Retain")
    late = found.region("late", "4Mi")
    await found.converge()
    found.server.put(late | {"spec": late["spec"] | {"reclaimPolicy": "Retain"}})  # decided later
    await found.converge()
    for name in ("kept", "late"):
        (stored,) = [r for r in found.server.all(CXL_REGION.kind) if r["metadata"]["name"] == name]
        found.server.put(stored | {"metadata": stored["metadata"] | {"finalizers": []}})
        found.server.delete(CXL_REGION, "team-a", name)
    for _ in range(4):
        found.pass_time(1000)  # far longer than leakSeconds
        await found.converge()
    assert {e["message"][:8] for e in found.ledger()} == {"Retained"}
    assert {e["state"] for e in found.ledger()} == {"Quarantined"}
    assert len(found.memories()) == 2, "bytes that were to be kept are gone"
    (blade,) = found.server.all(CXL_BLADE.kind)
    found.server.put(blade | {"spec": blade["spec"] | {"releaseQuarantined": [kept["metadata"]["uid"]]}})
    for _ in range(3):
        found.pass_time(10)
        await found.converge()
    assert [e["name"] for e in found.ledger()] == ["late"]


async def test_two_nodes_are_connected_one_after_the_other_without_waiting(tmp_path: Path) -> None:
    for seed in range(8):
        found = cluster(tmp_path / str(seed), seed, controllers=1)
        made = found.region("kv", "4Mi")
        await found.converge()
        began = found.clock.seconds
        ask(found, made, "n1")
        ask(found, made, "n2")
        process = found.processes[0]
        process.deliver(process.behind())
        for _ in range(4):  # both are under way before either makes a call
            process.begin(found.rng)
        await found.converge()
        assert len(found.appliance.blades["b0"].state.connections) == 2
        assert found.clock.seconds - began < 2, f"one waited for the other's deadline (seed {seed})"


async def test_a_blade_that_evicts_takes_back_claims_that_are_in_use(tmp_path: Path) -> None:
    """The scheduler would bind the pods' successors to them, and they would be evicted, for ever."""
    found = cluster(tmp_path, 12, controllers=1)
    found.region("kv", "4Mi")
    await found.converge()
    (made,) = found.server.all(RESOURCE_CLAIM.kind)
    (blade,) = found.server.all(CXL_BLADE.kind)
    found.server.put(made | {"status": {"allocation": {"devices": {"results": []}}}})
    await found.converge()
    assert found.server.all(RESOURCE_CLAIM.kind)[0]["metadata"]["uid"] == made["metadata"]["uid"]
    (blade,) = found.server.all(CXL_BLADE.kind)
    found.server.put(blade | {"spec": blade["spec"] | {"drain": "NoExecute"}})
    await found.converge()
    (after,) = found.server.all(RESOURCE_CLAIM.kind)
    assert after["metadata"]["uid"] != made["metadata"]["uid"], "the claim is the same"
    assert "status" not in after
    assert len(found.memories()) == 1, "its bytes are its owner's"


async def test_a_power_cycle_loses_the_region_and_never_reuses_its_id(tmp_path: Path) -> None:
    found = cluster(tmp_path, 5, controllers=1)
    found.region("kv", "4Mi")
    await found.converge()
    await found.appliance.power_cycle(found.appliance.blades["b0"])
    for _ in range(400):
        found.pass_time(1.0)
        for _ in range(30):
            if not found.turns.release():
                found.processes[0].deliver(found.processes[0].behind())
                found.processes[0].begin(found.rng)
            await found.settle()
        (region,) = found.server.all(CXL_REGION.kind)
        if region["status"]["phase"] == "Failed":
            break
    (region,) = found.server.all(CXL_REGION.kind)
    (ready,) = [c for c in region["status"]["conditions"] if c["type"] == "Ready"]
    assert (region["status"]["phase"], ready["reason"]) == ("Failed", "MemoryLost")
    found.server.delete(CXL_REGION, "team-a", "kv")
    await found.converge()
    assert (found.memories(), found.ledger()) == ({}, [])
