"""What to ask the cluster about a solve: how far its pod is, whether what it needs is there, why nothing happens."""

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired.cfrsolve.job import STATUS_PORT
from ballast_operator.kind import Children, Need, Probe
from ballast_operator.objects import Object
from ballast_operator.observe.pods import may_run, phase, waiting
from ballast_operator.resources import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM

POLL_SECONDS = 5.0


def probe(children: Children) -> Probe | None:
    """The status port of the running pod, while there is one."""
    for pod in reversed(children.all("Pod")):
        if phase(pod) == "Running" and (address := pod["status"].get("podIP")):
            host = f"[{address}]" if ":" in address else address
            return Probe(f"http://{host}:{STATUS_PORT}/status", POLL_SECONDS)
    return None


def silent(children: Children) -> Object | None:
    """A Job for which no pod is made, or a pod that is on a node and does not start: only Events tell why."""
    pods = children.all("Pod")
    stuck = next((pod for pod in pods if phase(pod) == "Pending" and pod["spec"].get("nodeName")), None)
    if stuck is not None:
        return None if waiting(stuck) else stuck
    return next(iter(children.all("Job")), None) if not pods else None


def needs(solve: CFRSolve, children: Children) -> list[Need]:
    """Objects that the spec names; looked for only while no pod runs, since kubelet waits for them in silence."""
    if solve.spec.suspend or any(phase(pod) != "Pending" and may_run(pod) for pod in children.all("Pod")):
        return []
    found: list[Need] = []
    game, spec = solve.spec.game, solve.spec
    for source, field in ((game, "game"), (spec.batch, "batch")):
        if source and (ref := source.config_map_key_ref):
            found.append(Need(CONFIG_MAP, ref.name, f"{field}.configMapKeyRef", ref.key))
    for volume, name in (
        (game.persistent_volume_claim, "game.persistentVolumeClaim"),
        (spec.batch and spec.batch.persistent_volume_claim, "batch.persistentVolumeClaim"),
        (spec.checkpoint.persistent_volume_claim, "checkpoint.persistentVolumeClaim"),
        (spec.output.persistent_volume_claim, "output.persistentVolumeClaim"),
    ):
        if volume:
            found.append(Need(PERSISTENT_VOLUME_CLAIM, volume.claim_name, name))
    return found
