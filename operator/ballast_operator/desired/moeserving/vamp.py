"""What VAMP needs of the engine's pods: its settings, memory for the copies of experts, and its profile.

Nothing else. No capability is added, since a restricted namespace would then refuse the pods. IPC_LOCK lifts the limit
on memory that a process locks itself; here the driver does. SYS_NICE lets a container choose NUMA domains; where it
may not, the plugin takes memory of any domain, and where it can map none it serves without VAMP (NoVmm).
"""

from ballast_api.moeserving import MoEServing
from ballast_api.vamp import Vamp
from ballast_operator.desired.moeserving.parts import CACHE
from ballast_operator.desired.quantity import to_bytes, to_text
from ballast_operator.objects import Object

PROFILE = "vamp-profile"
SEED = "/ballast/vamp-profile"


def environment(serving: MoEServing) -> list[Object]:
    """The plugin's settings; sizes in whole bytes for each rank, as it reads them."""
    vamp = serving.spec.vamp
    if vamp is None:
        return []
    values = {
        "VAMP_ENABLE": "1",
        "VAMP_MODE": vamp.mode.value,
        "VAMP_MAX_OFFLOAD_BYTES": str(to_bytes(vamp.max_offload)),
        "VAMP_HOST_BYTES": str(_host_bytes(vamp)),
        "VAMP_MIN_RESIDENT_FRACTION": vamp.min_resident_fraction,
        "VAMP_CHUNK_BYTES": str(to_bytes(vamp.chunk_size)),
        "VAMP_PROFILE": profile_path(serving),
    }
    if vamp.profile_config_map_ref:
        values["BALLAST_VAMP_SEED"] = f"{SEED}/{vamp.profile_config_map_ref.key}"
    return [{"name": name, "value": value} for name, value in values.items()]


def profile_path(serving: MoEServing) -> str:
    """Where engines keep what they learn: in the cache, which replicas may share and other servings too."""
    meta = serving.metadata
    return f"{CACHE}/vamp/{meta.namespace}/{meta.name}.json"


def volumes(serving: MoEServing) -> list[Object]:
    """The ConfigMap with the profile to begin with. Without it a pod does not start; `needs` says so."""
    vamp = serving.spec.vamp
    if vamp is None or vamp.profile_config_map_ref is None:
        return []
    name, key = vamp.profile_config_map_ref.name, vamp.profile_config_map_ref.key
    return [{"name": PROFILE, "configMap": {"name": name, "items": [{"key": key, "path": key}]}}]


def mounts(serving: MoEServing) -> list[Object]:
    return [{"name": PROFILE, "mountPath": SEED, "readOnly": True} for _ in volumes(serving)]


def resources(serving: MoEServing, asked: Object) -> Object:
    """What the pod asks for, with the memory for copies on top of every amount of memory in it.

    Without any, the copies alone are asked for: so the scheduler counts them. A limit alone is a request too.
    """
    vamp = serving.spec.vamp
    if vamp is None:
        return asked
    copies = _host_bytes(vamp) * ranks(serving)
    found = {name: dict(asked[name]) for name in ("requests", "limits") if asked.get(name)}
    amounts = [part for part in found.values() if "memory" in part]
    for part in amounts:
        part["memory"] = to_text(to_bytes(part["memory"]) + copies)
    if not amounts:
        found["requests"] = found.get("requests", {}) | {"memory": to_text(copies)}
    return asked | found


def ranks(serving: MoEServing) -> int:
    """Devices of one pod, each with a rank of its own."""
    parallel = serving.spec.parallelism
    return parallel.tensor * parallel.pipeline // parallel.nodes


def _host_bytes(vamp: Vamp) -> int:
    return to_bytes(vamp.host_memory or vamp.max_offload)
