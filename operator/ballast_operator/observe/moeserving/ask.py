"""What to ask the cluster about a serving: its pods for numbers, its namespace for other autoscalers."""

from ballast_api.autoscaling import Mode
from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.installation import SCALED_OBJECT, Installation
from ballast_operator.desired.moeserving.parts import COMPONENT, ENGINE, ROUTER, WORKER
from ballast_operator.kind import Children, Need, Probe
from ballast_operator.objects import Object
from ballast_operator.observe.moeserving import vllm
from ballast_operator.observe.moeserving.view import ready, status_url
from ballast_operator.observe.pods import may_run, phase, waiting
from ballast_operator.resources import CONFIG_MAP, HORIZONTAL_POD_AUTOSCALER, PERSISTENT_VOLUME_CLAIM, Resource
from ballast_operator.resources import SCALED_OBJECT as SCALED_OBJECTS

POLL_SECONDS = 4.0  # shorter than the pause between two looks, so that each look has fresh numbers
VAMP_POLL_SECONDS = 9.0  # the same, where nothing but conditions is made from them


def probes(serving: MoEServing, children: Children) -> list[Probe]:
    """Engines' metrics for the autoscaler of mode Operator and for VAMP's conditions; routers' counts for the
    autoscaler, and while no engine is ready."""
    pods = [pod for pod in children.all("Pod") if may_run(pod) and status_url(pod, "")]
    engines = [pod for pod in _of(pods, ENGINE) if ready(pod)]
    routers = [pod for pod in _of(pods, ROUTER) if phase(pod) == "Running"]
    scaling = serving.spec.autoscaling
    ours = scaling is not None and scaling.mode is Mode.OPERATOR
    found = [Probe(status_url(pod, "status"), POLL_SECONDS) for pod in routers if ours or not engines]
    if ours or serving.spec.vamp:
        period = POLL_SECONDS if ours else VAMP_POLL_SECONDS
        found += [Probe(status_url(pod, "metrics"), period, vllm.read, vllm.LARGEST) for pod in engines]
    return found


def around(installation: Installation) -> list[Resource]:
    """Autoscalers that somebody else may have pointed at the serving or at its child."""
    return [HORIZONTAL_POD_AUTOSCALER, *([SCALED_OBJECTS] if SCALED_OBJECT in installation.optional else [])]


def needs(serving: MoEServing, children: Children) -> list[Need]:
    """Objects that the spec names, looked for while a pod waits. Secrets are not: the operator may not read any."""
    pods = _of(children.all("Pod"), ENGINE)
    if pods and all(phase(pod) != "Pending" for pod in pods):
        return []
    found = []
    if volume := serving.spec.model.persistent_volume_claim:
        found.append(Need(PERSISTENT_VOLUME_CLAIM, volume.claim_name, "model.persistentVolumeClaim"))
    if claim := serving.spec.cache.persistent_volume_claim:
        found.append(Need(PERSISTENT_VOLUME_CLAIM, claim.claim_name, "cache.persistentVolumeClaim"))
    if serving.spec.vamp and (profile := serving.spec.vamp.profile_config_map_ref):
        found.append(Need(CONFIG_MAP, profile.name, "vamp.profileConfigMapRef", profile.key))
    return found


def silent(children: Children) -> Object | None:
    """A pod that is on a node and does not start, or what should make a pod that is not there: only Events tell why."""
    for pod in children.all("Pod"):
        if phase(pod) == "Pending" and pod["spec"].get("nodeName") and not waiting(pod):
            return pod
    return next((maker for groups in children.all("LeaderWorkerSet") if (maker := _maker(children, groups))), None)


def _maker(children: Children, groups: Object) -> Object | None:
    """Name of the StatefulSet that a pod is missing of, if one is: a LeaderWorkerSet has one for all leaders, and one
    for the workers of each."""
    pods = [pod for pod in children.all("Pod") if may_run(pod)]
    leaders = [pod["metadata"]["name"] for pod in _of(pods, ENGINE)]
    workers = [pod["metadata"]["name"].rpartition("-")[0] for pod in _of(pods, WORKER)]
    size = groups["spec"]["leaderWorkerTemplate"]["size"]
    if len(leaders) < groups["spec"].get("replicas", 1):
        name = groups["metadata"]["name"]
    else:
        name = next((leader for leader in sorted(leaders) if workers.count(leader) < size - 1), None)
    meta = {key: groups["metadata"][key] for key in ("namespace", "creationTimestamp")}
    return {"kind": "StatefulSet", "metadata": meta | {"name": name}} if name else None


def _of(pods: list[Object], role: str) -> list[Object]:
    return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(COMPONENT) == role]
