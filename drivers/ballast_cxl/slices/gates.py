"""Whether the API server keeps the fields of a slice that all this needs.

A feature gate that is off does not refuse a field, it drops it: a device without `allowMultipleAllocations` would serve
one pod, and one without binding conditions would be given out before it is there. So the process asks before it starts,
by slices that are made in a dry run, and refuses with the gate's name.
"""

from ballast_cxl.names import DRIVER
from ballast_cxl.slices.devices import COMPOSE_FAILED, COMPOSED
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object

GATES = {
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindsToNode": "DRADeviceBindingConditions",
    "consumesCounters": "DRAPartitionableDevices",
    "taints": "DRADeviceTaints",
}


class GateOff(Exception):
    """The API server lacks something that cannot be done without."""


async def demand(client: Client) -> None:
    """Raises GateOff, naming every gate that is off."""
    off: set[str] = set()
    for probe in probes():
        try:
            got = await client.create(probe, dry_run=True)
        except ApiError as error:
            if error.not_found:
                raise GateOff(
                    "the API server has no resource.k8s.io/v1; Kubernetes 1.36 or newer is needed for CXLRegion"
                ) from error
            if not error.invalid:
                raise
            off |= gates_of(probe)  # a device without its counters may be refused as a whole
            continue
        kept = got["spec"]["devices"][0].keys()
        off |= {gate for name, gate in GATES.items() if name in probe["spec"]["devices"][0] and name not in kept}
    if off:
        raise GateOff(
            f"feature gate {', '.join(sorted(off))} of the API server is off; switch it on for kube-apiserver, "
            "kube-scheduler, kube-controller-manager and kubelet, or install with cxl.enabled=false"
        )


def probes() -> list[Object]:
    """Slices that use each of the fields once, each gate's in a slice of its own."""
    one = {"string": "probe"}
    return [
        _slice("shared", {"allowMultipleAllocations": True}),
        _slice(
            "bound",
            {"bindsToNode": True, "bindingConditions": [COMPOSED], "bindingFailureConditions": [COMPOSE_FAILED]},
        ),
        _slice("counted", {"consumesCounters": [{"counterSet": "rows-0", "counters": {"row-0": {"value": "1"}}}]}),
        _slice("tainted", {"taints": [{"key": "ballast.dev/drain", "effect": "NoSchedule"}], "attributes": {"a": one}}),
    ]


def gates_of(probe: Object) -> set[str]:
    """Gates that the fields of a probe need."""
    return {GATES[name] for name in probe["spec"]["devices"][0] if name in GATES}


def _slice(name: str, fields: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{DRIVER}-probe-{name}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "probe", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "probe"} | fields],
        },
    }
