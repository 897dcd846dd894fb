"""What a solve keeps: its checkpoint volume and the ConfigMap of its strategy; and how the pod sees them."""

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired.names import Names
from ballast_operator.objects import Object

CHECKPOINT = "/ballast/checkpoint"
GAME = "/ballast/game"
BATCH = "/ballast/batch"
OUTPUT = "/ballast/output"


def strategy(names: Names) -> Object:
    """The ConfigMap that the solver's pod fills. Its data are the pod's, so they are not named here."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": names.metadata("strategy")}


def checkpoint_claim(solve: CFRSolve, names: Names) -> Object | None:
    """The claim for the checkpoint, unless the user brought a volume or wants none."""
    checkpoint = solve.spec.checkpoint
    if checkpoint.persistent_volume_claim or checkpoint.ephemeral is not None:
        return None
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": checkpoint.size}}}
    if checkpoint.storage_class_name is not None:
        spec["storageClassName"] = checkpoint.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": names.metadata("checkpoint"),
        "spec": spec,
    }


def volumes(solve: CFRSolve, names: Names) -> list[Object]:
    """The pod's volumes: scratch, checkpoint, and game, batch and output where they are on one."""
    found: list[Object] = [{"name": "scratch", "emptyDir": {}}, {"name": "checkpoint"} | _checkpoint(solve, names)]
    for name, source in (("game", solve.spec.game), ("batch", solve.spec.batch)):
        if source and source.config_map_key_ref:
            found.append({"name": name, "configMap": {"name": source.config_map_key_ref.name}})
        if source and source.persistent_volume_claim:
            claim = source.persistent_volume_claim.claim_name
            found.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
    if output := solve.spec.output.persistent_volume_claim:
        found.append({"name": "output", "persistentVolumeClaim": {"claimName": output.claim_name}})
    return found


def mounts(solve: CFRSolve) -> list[Object]:
    """Where the solver finds them. A game is mounted read-only."""
    checkpoint = solve.spec.checkpoint.persistent_volume_claim
    found: list[Object] = [
        {"name": "scratch", "mountPath": "/tmp"},
        {"name": "checkpoint", "mountPath": CHECKPOINT} | ({"subPath": checkpoint.path} if checkpoint else {}),
    ]
    if solve.spec.game.builtin is None:
        found.append({"name": "game", "mountPath": GAME, "readOnly": True})
    if solve.spec.batch:
        found.append({"name": "batch", "mountPath": BATCH, "readOnly": True})
    if solve.spec.output.persistent_volume_claim:
        found.append({"name": "output", "mountPath": OUTPUT})
    return found


def _checkpoint(solve: CFRSolve, names: Names) -> Object:
    checkpoint = solve.spec.checkpoint
    if checkpoint.ephemeral is not None:
        return {"emptyDir": {}}
    users = checkpoint.persistent_volume_claim
    return {"persistentVolumeClaim": {"claimName": users.claim_name if users else names.child("checkpoint")}}
