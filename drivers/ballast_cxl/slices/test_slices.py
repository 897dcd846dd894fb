"""What the scheduler is offered, and how stored slices are brought there."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_api.cxlblade import CXLBlade
from ballast_cxl.grid import Grid
from ballast_cxl.slices import devices, gates, pools
from ballast_cxl.slices.publish import Publisher, grants
from ballast_operator.objects import Object

ROW = 4


def blade(*entries: Object, contiguity: str = "Required", rows: int = 16, drain: str = "None") -> CXLBlade:
    ports = [{"name": f"p{number}", "node": f"n{number}"} for number in range(2)]
    spec = {"appliance": {"name": "a0", "url": "http://x"}, "blade": "b0", "contiguity": contiguity, "ports": ports}
    geometry = {"channels": ROW, "blocksPerChannel": rows, "blockSize": "8Gi"}
    status = {"epoch": 99, "geometry": geometry, "reservations": list(entries)}
    return CXLBlade.model_validate({"metadata": {"name": "b0"}, "spec": spec | {"drain": drain}, "status": status})


def entry(uid: str, rows: range, **changes: Any) -> Object:
    blocks = [block for row in rows for block in range(row * ROW, (row + 1) * ROW)]
    base = {"uid": uid, "namespace": "a", "name": uid, "blocks": blocks, "generation": 3, "state": "Composed"}
    return base | {"memoryId": f"m-{uid}"} | changes


def pool(found: list[devices.Pool], name: str) -> devices.Pool:
    return next(one for one in found if one.name == name)


def names(found: devices.Pool) -> set[str]:
    return {device["name"] for device in found.devices}


def test_an_empty_blade_is_offered_as_a_tree_of_extents_smallest_first() -> None:
    (raw,) = devices.pools(blade(), (), {})
    sizes = [device["attributes"]["size"]["int"] for device in raw.devices]
    assert (len(sizes), sizes[0], sizes[-1]) == (31, 32, 512)
    assert sizes == sorted(sizes)
    assert len(raw.counters) == 1 and len(raw.counters[0]["counters"]) == 16
    for device in raw.devices:
        (consumed,) = device["consumesCounters"]
        assert len(consumed["counters"]) * 32 == device["attributes"]["size"]["int"]
        assert device["bindsToNode"] and device["bindingConditions"] and device["bindingFailureConditions"]


def test_a_region_takes_its_rows_out_of_the_tree_and_is_a_device_of_its_own() -> None:
    found = devices.pools(blade(entry("u1", range(4))), (), {})
    raw, regions = pool(found, "b0"), pool(found, "b0-regions")
    assert names(raw) == {f"extent-{size}-{first}" for size in (1, 2, 4) for first in range(4, 16, size)} | {
        "extent-8-8"
    }
    (device,) = regions.devices
    assert device["attributes"]["uid"] == {"string": "u1"}
    assert device["capacity"]["size"]["requestPolicy"] == {"default": "0", "validValues": ["0"]}
    assert device["allowMultipleAllocations"] and "bindsToNode" not in device and "bindingConditions" not in device
    assert regions.selector["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == ["n0", "n1"]


def test_rows_of_a_claim_stay_offered_while_the_scheduler_counts_them_and_not_after() -> None:
    given = blade(entry("u1", range(4), claim="c1"))
    assert "extent-4-0" in names(pool(devices.pools(given, (), {"c1": 1}), "b0"))
    assert "extent-4-0" not in names(pool(devices.pools(given, (), {}), "b0"))
    assert [one.name for one in devices.pools(given, (), {"c1": 1})] == ["b0"]


@pytest.mark.parametrize("state", ["Reserved", "Scrubbing", "Quarantined"])
def test_only_a_region_that_can_be_used_is_offered(state: str) -> None:
    assert [one.name for one in devices.pools(blade(entry("u1", range(4), state=state)), (), {})] == ["b0"]


def test_a_region_on_its_way_out_is_not_offered() -> None:
    assert [one.name for one in devices.pools(blade(entry("u1", range(4))), ["u1"], {})] == ["b0"]


def test_pods_are_sent_away_from_a_region_that_is_lost_and_from_a_blade_that_is_emptied() -> None:
    (lost,) = pool(devices.pools(blade(entry("u1", range(4), state="Lost")), (), {}), "b0-regions").devices
    assert lost["taints"] == [{"key": "ballast.dev/memory-lost", "effect": "NoExecute"}]
    for found in devices.pools(blade(entry("u1", range(4)), drain="NoExecute"), (), {}):
        assert all(d["taints"][0] == {"key": "ballast.dev/drain", "effect": "NoExecute"} for d in found.devices)


def test_a_blade_whose_blocks_may_be_scattered_is_one_device_with_what_is_left() -> None:
    given = blade(entry("u1", range(4)), entry("u2", range(4, 6), claim="c1"), contiguity="None")
    (device,) = pool(devices.pools(given, (), {"c1": 1}), "b0").devices
    assert device["capacity"]["size"]["value"] == "384Gi"
    assert device["capacity"]["size"]["requestPolicy"] == {
        "default": "8Gi",
        "validRange": {"min": "8Gi", "step": "8Gi"},
    }
    assert device["allowMultipleAllocations"] and device["bindsToNode"]


def test_a_full_scattering_blade_offers_nothing_raw() -> None:
    """A capacity under its own smallest request is invalid, and put off the slices of all blades with it."""
    full = blade(entry("u1", range(15)), entry("u2", range(15, 16), claim="gone"), contiguity="None")
    assert [one.name for one in devices.pools(full, (), {})] == ["b0-regions"]
    (device,) = pool(devices.pools(full, (), {"gone": 1}), "b0").devices
    assert device["capacity"]["size"]["value"] == "32Gi"


def test_no_device_consumes_from_more_than_two_sets_of_counters() -> None:
    (raw,) = devices.pools(blade(rows=128), (), {})
    assert max(len(device["consumesCounters"]) for device in raw.devices) == 2
    assert [len(one["counters"]) for one in raw.counters] == [32] * 4


def many(*names: str) -> devices.Pool:
    shown = tuple({"name": name, "attributes": {"a": {"string": name}}} for name in names)
    return devices.Pool("p", ("n0",), shown)


def applied(stored: dict[str, Object], writes: list[pools.Write]) -> dict[str, Object]:
    """What the API server has after some writes."""
    after = dict(stored)
    for write in writes:
        name = write.body["metadata"]["name"]
        if write.verb == "delete":
            del after[name]
        else:
            after[name] = write.body
    return after


def whole(stored: dict[str, Object]) -> set[str]:
    """Devices as the scheduler reads them: of the newest generation, if it is complete."""
    newest = max((s["spec"]["pool"]["generation"] for s in stored.values()), default=0)
    slices = [s for s in stored.values() if s["spec"]["pool"]["generation"] == newest]
    assert len(slices) == len(stored), "slices of an old generation are left"
    assert all(s["spec"]["pool"]["resourceSliceCount"] == len(slices) for s in slices)
    return {device["name"] for s in slices for device in s["spec"].get("devices", [])}


def test_a_change_that_one_update_can_carry_keeps_the_generation() -> None:
    stored = applied({}, pools.writes(many("a", "b"), [], None))
    (write,) = pools.writes(many("a", "b", "c"), list(stored.values()), None)
    assert (write.verb, write.body["spec"]["pool"]["generation"]) == ("update", 1)


def test_a_change_of_several_slices_gives_all_of_them_the_next_generation() -> None:
    first = many(*(f"d{number:03d}" for number in range(64)))
    stored = applied({}, pools.writes(first, [], None))
    writes = pools.writes(many(*(f"d{number:03d}" for number in range(65))), list(stored.values()), None)
    assert [write.verb for write in writes] == ["update", "create"]
    assert {write.body["spec"]["pool"]["generation"] for write in writes} == {2}


def test_obsolete_slices_go_first() -> None:
    stored = applied({}, pools.writes(many(*(f"d{number:03d}" for number in range(65))), [], None))
    writes = pools.writes(many(*(f"d{number:03d}" for number in range(64))), list(stored.values()), None)
    assert [write.verb for write in writes] == ["delete", "update"]


def test_at_rest_nothing_is_written() -> None:
    stored = applied({}, pools.writes(many("a"), [], None))
    (only,) = stored.values()
    only["spec"]["devices"][0]["filledIn"] = "by the server"
    assert pools.writes(many("a"), [only], None) == []


def test_what_somebody_else_changed_is_put_back() -> None:
    stored = applied({}, pools.writes(many("a"), [], None))
    (only,) = stored.values()
    edited = only | {"spec": only["spec"] | {"devices": [{"name": "b"}]}}
    assert [write.verb for write in pools.writes(many("a"), [edited], None)]


@given(st.lists(st.sets(st.integers(0, 199)), max_size=6))
def test_any_sequence_of_changes_leaves_a_complete_pool(steps: list[set[int]]) -> None:
    stored: dict[str, Object] = {}
    for step in steps:
        wanted = many(*(f"d{number:03d}" for number in sorted(step)))
        stored = applied(
            stored, pools.writes(wanted, list(stored.values()), None) if step else pools.withdrawn(stored.values())
        )
        assert whole(stored) == {device["name"] for device in wanted.devices}
        assert all(len(s["spec"]["devices"]) <= 64 for s in stored.values())
        assert pools.writes(wanted, list(stored.values()), None) == [] or not step


def test_fields_that_the_server_drops_are_named() -> None:
    wanted = {"spec": {"devices": [{"name": "a", "bindsToNode": True, "taints": []}]}}
    assert pools.dropped(wanted, {"spec": {"devices": [{"name": "a", "taints": []}]}}) == ["bindsToNode"]


class Gateless:
    """An API server that drops some fields."""

    def __init__(self, *off: str) -> None:
        self.off = off

    async def create(self, obj: Object, *, dry_run: bool) -> Object:
        assert dry_run
        kept = [{key: value for key, value in d.items() if key not in self.off} for d in obj["spec"]["devices"]]
        return obj | {"spec": obj["spec"] | {"devices": kept}}


@pytest.mark.parametrize(
    ("dropped", "gate"),
    [
        ("allowMultipleAllocations", "DRAConsumableCapacity"),
        ("bindingConditions", "DRADeviceBindingConditions"),
        ("consumesCounters", "DRAPartitionableDevices"),
        ("taints", "DRADeviceTaints"),
    ],
)
async def test_a_feature_gate_that_is_off_is_refused_by_its_name(dropped: str, gate: str) -> None:
    with pytest.raises(gates.GateOff, match=f"feature gate {gate} of the API server is off"):
        await gates.demand(Gateless(dropped))  # type: ignore[arg-type]


async def test_with_all_gates_on_nothing_is_said() -> None:
    await gates.demand(Gateless())  # type: ignore[arg-type]


async def test_a_pool_is_compared_anew_only_when_it_or_its_slices_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def writes(pool: devices.Pool, stored: Sequence[Object], owner: Object | None) -> list[pools.Write]:
        compared.append(len(pool.devices))
        return []

    monkeypatch.setattr(pools, "writes", writes)
    publisher = Publisher(None)  # type: ignore[arg-type]
    slices = [{"metadata": {"name": "s", "resourceVersion": "1"}}]
    await publisher._bring(many("a"), slices, None)
    await publisher._bring(many("a"), slices, None)
    assert compared == [1]
    await publisher._bring(many("a", "b"), slices, None)
    assert compared == [1, 2], "a device more is not seen"
    slices[0]["metadata"]["resourceVersion"] = "2"
    await publisher._bring(many("a", "b"), slices, None)
    assert compared == [1, 2, 2], "what somebody else wrote is not seen"


def test_pools_are_made_anew_only_of_what_changed() -> None:
    publisher = Publisher(None)  # type: ignore[arg-type]
    seen = blade(entry("u1", range(4)))
    first = publisher._pools(seen, set(), {})
    assert publisher._pools(seen, {"of another blade"}, {}) is first
    leaving = publisher._pools(seen, {"u1"}, {})
    assert [one.name for one in first] == ["b0-regions", "b0"]
    assert [one.name for one in leaving] == ["b0"]
    assert publisher._pools(seen, set(), {}) == first
    assert publisher._pools(seen, set(), {"a claim": 1}) is not first
    assert [one.name for one in publisher._pools(blade(), set(), {})] == ["b0"], "a newer blade is not seen"


def test_grants_are_those_of_regions_that_are_shared_by_name() -> None:
    def region(name: str, **spec: Any) -> Object:
        return {"metadata": {"namespace": "a", "name": name}, "spec": spec}

    shared = region("kv", sharing="Explicit", allowedNamespaces=["c", "b"])
    assert grants([shared, region("own", sharing="Namespace"), region("x", sharing="Explicit")]) == {"a.kv": "b c"}


def test_the_sum_of_all_states_is_the_blade() -> None:
    found = devices.raw_bytes(blade(entry("u1", range(4)), entry("u2", range(6, 8), state="Scrubbing")))
    assert sum(found.values()) == Grid(4, 16, 8 << 30).bytes
    assert found["scrubbing"] == 64 << 30
