"""A blade and its ledger to the devices that the scheduler may give to claims. Pure.

Regions that somebody made are devices that many claims share. What is free is offered for claims that bring no region:
as buddy extents whose rows are shared counters where blocks must be consecutive, so that the scheduler's choice is a
placement; else as one device with a capacity. Blocks that the ledger holds for anybody but a claim are not offered.
Slices are a hint that is nearly always right. The ledger decides.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ballast_api.cxlblade import Contiguity, CXLBlade, Drain, Reservation, ReservationState
from ballast_cxl import placement
from ballast_cxl.controller.choice import extent_name
from ballast_cxl.controller.operations import cabled
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.names import region_device
from ballast_cxl.quantity import to_text

GIB = 1 << 30
MOST_CLAIMS = 256  # that may share one region
COUNTERS = 32  # in one set, by the API
COMPOSED, COMPOSE_FAILED = "cxl.ballast.dev/Composed", "cxl.ballast.dev/ComposeFailed"
ANY = "any"  # the one device of a blade whose blocks may be scattered
Device = dict[str, Any]


@dataclass(frozen=True)
class Pool:
    """Devices and counters that belong together, for the nodes of a selector."""

    name: str
    hosts: tuple[str, ...]
    devices: tuple[Device, ...] = ()
    counters: tuple[Device, ...] = field(default=())

    @property
    def selector(self) -> dict[str, Any]:
        """Nodes that a cable leads to, whether they live or not: an allocation keeps the selector of its moment."""
        wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(self.hosts)}
        return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def pools(blade: CXLBlade, leaving: Iterable[str], allocated: Mapping[str, int]) -> list[Pool]:
    """All pools of one blade. leaving: uids of regions on their way out; allocated: bytes by uid of the claims that
    hold capacity of the blade now, so that it is not taken off twice."""
    hosts = tuple(cabled(blade))
    if not hosts or blade.status.geometry is None:
        return []
    gone = set(leaving)
    shown = [region_of(entry, blade) for entry in blade.status.reservations if offered(entry, gone)]
    found = [Pool(f"{blade.metadata.name}-regions", hosts, tuple(shown))] if shown else []
    if blade.spec.contiguity is Contiguity.REQUIRED:
        found.append(extents(blade, hosts, allocated))
    else:
        found.append(Pool(blade.metadata.name, hosts, tuple(capacity(blade, allocated))))
    return [pool for pool in found if pool.devices]


def offered(entry: Reservation, leaving: set[str]) -> bool:
    """Whether pods can claim a region by name."""
    alive = entry.state in (ReservationState.COMPOSED, ReservationState.LOST)
    return alive and entry.claim is None and entry.uid not in leaving


def region_of(entry: Reservation, blade: CXLBlade) -> Device:
    """A region as a device. Its size is told and not consumed; what a claim consumes is one of its attachments."""
    assert blade.status.geometry is not None
    size = len(entry.blocks) * Grid.of(blade.status.geometry).block_bytes
    device: Device = {
        "name": region_device(entry.uid),
        "attributes": {
            "namespace": {"string": entry.namespace},
            "name": {"string": entry.name},
            "uid": {"string": entry.uid},
            "size": {"int": size // GIB},
            "scrubGeneration": {"int": entry.generation},
        },
        "capacity": {
            "size": {"value": to_text(size), "requestPolicy": {"default": "0", "validValues": ["0"]}},
            "attachments": {
                "value": str(MOST_CLAIMS),
                "requestPolicy": {"default": "1", "validRange": {"min": "1"}},
            },
        },
        "allowMultipleAllocations": True,
    }
    return _tainted(device, blade, lost=entry.state is ReservationState.LOST)


def extents(blade: CXLBlade, hosts: tuple[str, ...], allocated: Mapping[str, int]) -> Pool:
    """Buddy extents, smallest first, each of which consumes its rows."""
    assert blade.status.geometry is not None
    grid = Grid.of(blade.status.geometry)
    held = {
        block
        for entry in blade.status.reservations
        if entry.claim is None or entry.claim not in allocated
        for block in entry.blocks
    }
    found = [
        _tainted(_extent(blade, grid, extent), blade)
        for extent in placement.free_extents(grid, held)
        if extent.rows <= 2 * COUNTERS  # a device may consume from two sets
    ]
    return Pool(blade.metadata.name, hosts, tuple(found), tuple(counter_sets(grid)) if found else ())


def counter_sets(grid: Grid) -> Iterator[Device]:
    """One counter a row."""
    for first in range(0, grid.rows, COUNTERS):
        rows = range(first, min(first + COUNTERS, grid.rows))
        yield {"name": f"rows-{first}", "counters": {f"row-{row}": {"value": "1"} for row in rows}}


def capacity(blade: CXLBlade, allocated: Mapping[str, int]) -> Iterator[Device]:
    """A blade whose blocks may be scattered: one device, shared by as many claims as its capacity allows; none if not
    a block of it could be had, which the API takes for a device that contradicts itself."""
    assert blade.status.geometry is not None
    grid = Grid.of(blade.status.geometry)
    held = sum(
        len(entry.blocks) * grid.block_bytes
        for entry in blade.status.reservations
        if entry.claim is None or entry.claim not in allocated
    )
    if held >= grid.bytes:
        return
    block = to_text(grid.block_bytes)
    device: Device = {
        "name": ANY,
        "attributes": {"blade": {"string": blade.metadata.name}},
        "capacity": {
            "size": {
                "value": to_text(grid.bytes - held),
                "requestPolicy": {"default": block, "validRange": {"min": block, "step": block}},
            }
        },
        "allowMultipleAllocations": True,
    }
    yield _tainted(_bound(device), blade)


def _extent(blade: CXLBlade, grid: Grid, extent: placement.Extent) -> Device:
    size = extent.rows * grid.row_bytes
    sets: dict[str, dict[str, Any]] = {}
    for row in extent:
        sets.setdefault(f"rows-{row // COUNTERS * COUNTERS}", {})[f"row-{row}"] = {"value": "1"}
    return _bound(
        {
            "name": extent_name(extent),
            "attributes": {"blade": {"string": blade.metadata.name}, "size": {"int": size // GIB}},
            "capacity": {"size": {"value": to_text(size)}},
            "consumesCounters": [{"counterSet": name, "counters": rows} for name, rows in sets.items()],
        }
    )


def _bound(device: Device) -> Device:
    """Private memory is composed before its pod is bound, and the pod's node is then the claim's."""
    return device | {
        "bindsToNode": True,
        "bindingConditions": [COMPOSED],
        "bindingFailureConditions": [COMPOSE_FAILED],
    }


def _tainted(device: Device, blade: CXLBlade, *, lost: bool = False) -> Device:
    """Keep new pods away, or send those that are there away, from what is to be emptied or is gone."""
    taints = []
    if blade.spec.drain is not Drain.NONE:
        taints.append({"key": "ballast.dev/drain", "effect": blade.spec.drain.value})
    if lost:
        taints.append({"key": "ballast.dev/memory-lost", "effect": "NoExecute"})
    return device | ({"taints": taints} if taints else {})


def offered_uids(found: Iterable[Pool]) -> set[str]:
    """Regions among the devices of some pools."""
    return {
        device["attributes"]["uid"]["string"]
        for pool in found
        for device in pool.devices
        if "uid" in device["attributes"]
    }


def raw_bytes(blade: CXLBlade) -> dict[str, int]:
    """Bytes of each reservation state, free among them, for the metrics."""
    assert blade.status.geometry is not None
    grid = Grid.of(blade.status.geometry)
    found = {state.value.lower(): 0 for state in ReservationState}
    for entry in blade.status.reservations:
        found[entry.state.value.lower()] += len(entry.blocks) * grid.block_bytes
    return found | {"free": (grid.count - len(book.held(blade.status))) * grid.block_bytes}
