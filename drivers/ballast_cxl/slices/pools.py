"""Which writes bring the stored slices of a pool to what they should be. Pure.

The scheduler reads a pool only when all slices of its newest generation are there. So a change that one update can
carry keeps the generation, and any other gives all slices the next one; obsolete slices are deleted first, then others
are updated, then new ones made. Devices stay in the slice that they are in, so that one region more or less touches one
slice.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ballast_cxl.names import DRIVER
from ballast_cxl.slices.devices import Device, Pool
from ballast_operator.objects import Object, project

MOST_DEVICES = 64  # in a slice, where devices have taints or counters
MOST_SETS = 8  # of counters in a slice
OWNED = "ballast.dev/cxl-slice"  # label of the slices of this publisher


@dataclass(frozen=True)
class Write:
    """verb: delete, update or create. body: the slice, whole."""

    verb: str
    body: Object


def writes(pool: Pool, stored: Sequence[Object], owner: Object | None) -> list[Write]:
    """What to do, in order; nothing if all is as it should be. stored: the pool's slices; owner: of new ones."""
    wanted = list(bodies(pool, stored))
    kept = {part: old for old, part in ((old, part_of(old)) for old in stored)}
    obsolete = [old for old in stored if part_of(old) not in {part for part, _ in wanted}]
    generation = max((old["spec"]["pool"]["generation"] for old in stored), default=0)
    changed = [part for part, spec in wanted if part in kept and not same(kept[part], spec, generation, len(wanted))]
    new = [part for part, _ in wanted if part not in kept]
    if not obsolete and not new and not changed:
        return []
    if obsolete or new or len(changed) > 1:
        generation += 1
        changed = [part for part, _ in wanted if part in kept]
    whole = {part: spec | {"pool": header(pool, generation, len(wanted))} for part, spec in wanted}
    return [
        *(Write("delete", old) for old in obsolete),
        *(Write("update", kept[part] | {"spec": whole[part]}) for part in changed),
        *(Write("create", slice_of(pool, part, whole[part], owner)) for part in new),
    ]


def withdrawn(stored: Iterable[Object]) -> list[Write]:
    """The writes for a pool that is no longer offered."""
    return [Write("delete", old) for old in stored]


def bodies(pool: Pool, stored: Sequence[Object]) -> Iterator[tuple[str, Object]]:
    """Part and spec, without the pool's header, of each slice."""
    base = {"driver": DRIVER, "nodeSelector": pool.selector}
    for index in range(0, len(pool.counters), MOST_SETS):
        yield (
            f"counters{index // MOST_SETS:03d}",
            base | {"sharedCounters": list(pool.counters[index : index + MOST_SETS])},
        )
    for part, devices in spread(pool.devices, stored):
        yield part, base | {"devices": devices}


def spread(devices: Sequence[Device], stored: Sequence[Object]) -> Iterator[tuple[str, list[Device]]]:
    """Devices to slices: each where it is, new ones where there is room, in slices of their own when there is none."""
    home = {device["name"]: part_of(old) for old in stored for device in old["spec"].get("devices", [])}
    placed: dict[str, list[Device]] = {}
    rest = []
    for device in devices:
        if (part := home.get(device["name"])) is not None:
            placed.setdefault(part, []).append(device)
        else:
            rest.append(device)
    number = 0
    for device in rest:
        while len(placed.setdefault(f"devices{number:03d}", [])) >= MOST_DEVICES:
            number += 1
        placed[f"devices{number:03d}"].append(device)
    order = {device["name"]: index for index, device in enumerate(devices)}
    for part in sorted(placed):
        if placed[part]:
            yield part, sorted(placed[part], key=lambda device: order[device["name"]])


def same(old: Object, spec: Object, generation: int, count: int) -> bool:
    """Whether a stored slice says what it should; what the server filled in does not count."""
    header = old["spec"]["pool"]
    return (
        project(old["spec"], spec) == spec
        and old["spec"].keys() - {"pool"} == spec.keys()
        and (header["generation"], header["resourceSliceCount"]) == (generation, count)
    )


def dropped(wanted: Object, got: Object) -> list[str]:
    """Fields of devices that the server did not keep, as it does with those whose feature gate is off."""
    lost: set[str] = set()
    found = {device["name"]: device for device in got["spec"].get("devices", [])}
    for device in wanted["spec"].get("devices", []):
        lost |= device.keys() - found.get(device["name"], {}).keys()
    return sorted(lost)


def header(pool: Pool, generation: int, count: int) -> dict[str, Any]:
    return {"name": pool.name, "generation": generation, "resourceSliceCount": count}


def slice_of(pool: Pool, part: str, spec: Object, owner: Object | None) -> Object:
    """A new slice. Its owner is the DeviceClass, so that an uninstall takes it along."""
    meta: Object = {"name": f"{DRIVER}-{pool.name}-{part}", "labels": {OWNED: pool.name}}
    if owner:
        names = {key: owner[key] for key in ("apiVersion", "kind")}
        meta["ownerReferences"] = [names | {key: owner["metadata"][key] for key in ("name", "uid")}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}


def part_of(stored: Object) -> str:
    """Which part of its pool a slice is, by its name."""
    return str(stored["metadata"]["name"]).rpartition("-")[2]
