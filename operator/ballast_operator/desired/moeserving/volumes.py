"""What an engine's pod reads and writes: the model, the cache, shared memory, scratch; and the devices it claims."""

from ballast_api.engine import BuiltinModelName
from ballast_api.moeserving import AccessMode, MoEServing
from ballast_operator.desired.moeserving import vamp
from ballast_operator.desired.moeserving.parts import CACHE, ENGINE, Part
from ballast_operator.objects import Object

MODEL = "/ballast/model"
DEVICES = "devices"  # name of the claim in the pod
BUILTIN = {BuiltinModelName.TINY_QWEN3_MOE: "tiny"}  # as the entry point calls them


def cache_claim(serving: MoEServing) -> Object | None:
    """The claim for the cache, if the operator is asked to make one."""
    cache = serving.spec.cache
    if cache.size is None:
        return None
    mode = cache.access_mode or AccessMode.READ_WRITE_MANY
    spec: Object = {"accessModes": [mode.value], "resources": {"requests": {"storage": cache.size}}}
    if cache.storage_class_name is not None:
        spec["storageClassName"] = cache.storage_class_name
    metadata = Part.of(serving.metadata, ENGINE).metadata("cache")
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volumes(serving: MoEServing) -> list[Object]:
    found: list[Object] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "cache"} | _cache(serving),
        # An engine of several processes talks through it, and the usual 64 MiB are too few even for one.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": serving.spec.shared_memory}},
    ]
    model = serving.spec.model
    if model.persistent_volume_claim:
        claim = {"claimName": model.persistent_volume_claim.claim_name, "readOnly": True}
        found.append({"name": "model", "persistentVolumeClaim": claim})
    if model.image:
        found.append({"name": "model", "image": {"reference": model.image.reference, "pullPolicy": "IfNotPresent"}})
    return [*found, *vamp.volumes(serving)]


def mounts(serving: MoEServing) -> list[Object]:
    found: list[Object] = [
        {"name": "scratch", "mountPath": "/tmp"},
        {"name": "cache", "mountPath": CACHE},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    if serving.spec.model.persistent_volume_claim or serving.spec.model.image:
        found.append({"name": "model", "mountPath": MODEL, "readOnly": True})
    return [*found, *vamp.mounts(serving)]


def model_path(serving: MoEServing) -> str:
    """What the engine is told to load: a folder, an id of the hub, or a model of the image."""
    model = serving.spec.model
    if model.hugging_face:
        return model.hugging_face.id
    if model.builtin:
        return BUILTIN[model.builtin.name]
    mounted = model.persistent_volume_claim or model.image
    return f"{MODEL}/{mounted.path}" if mounted and mounted.path else MODEL


def claim_template(serving: MoEServing, revision: str) -> Object | None:
    """The template of each pod's claim for devices. Its spec cannot change, so each revision has one of its own."""
    devices = serving.spec.devices
    if devices is None:
        return None
    asked: Object = {
        "deviceClassName": devices.device_class_name,
        "allocationMode": "ExactCount",
        "count": devices.count,
    }
    if devices.selectors:
        asked["selectors"] = [{"cel": {"expression": text}} for text in devices.selectors]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": Part.of(serving.metadata, ENGINE).metadata(f"engine-{revision}"),
        "spec": {"spec": {"devices": {"requests": [{"name": DEVICES, "exactly": asked}]}}},
    }


def _cache(serving: MoEServing) -> Object:
    cache = serving.spec.cache
    if cache.persistent_volume_claim:
        return {"persistentVolumeClaim": {"claimName": cache.persistent_volume_claim.claim_name}}
    if cache.size is not None:
        claim = Part.of(serving.metadata, ENGINE).names.child("cache")
        return {"persistentVolumeClaim": {"claimName": claim}}
    return {"emptyDir": {}}
