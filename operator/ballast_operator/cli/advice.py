"""What to do about each reason: the cause in general words, and the next command.

The page `docs/not-ready.md` shows the same table; a test compares them. Commands are filled with the object's names.
"""

from dataclasses import dataclass

from ballast_api.conditions import Reason


@dataclass(frozen=True)
class Advice:
    """cause: what is generally behind the reason. command: what to run next, with {kind}, {name}, {namespace}."""

    cause: str
    command: str


_POD_EVENTS = "kubectl -n {namespace} describe pods -l ballast.dev/owner-name={name}"
_POD_LOGS = "kubectl -n {namespace} logs -l ballast.dev/owner-name={name} --tail=50"
_STRATEGY = "kubectl -n {namespace} get configmap {name}-strategy -o jsonpath='{{.data.strategy\\.csv}}'"
_POD_SAID = "kubectl -n {namespace} logs -l ballast.dev/owner-name={name} -c engine --tail=50 --prefix"
_WATCH = "kubectl -n {namespace} get {kind} {name} -w"
_SCALERS = "kubectl -n {namespace} get horizontalpodautoscalers"
_VAMP_SAID = "kubectl -n {namespace} logs -l ballast.dev/owner-name={name} -c engine --tail=-1 --prefix | grep -i vamp"
_VAMP_METRICS = (
    "kubectl -n {namespace} exec deploy/{name}-engine -c engine -- python3 -c "
    "\"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics').read().decode())\" | grep ^vamp:"
)
_BLADES = "kubectl get cxlblades -o wide"
_LEDGER = "kubectl get cxlblades -o jsonpath='{{.items[*].status.reservations[?(@.name==\"{name}\")]}}'"
_ATTACHMENTS = "kubectl get cxlattachments -o wide | grep {name}"
_REGION_LOGS = "kubectl -n ballast-system logs deploy/ballast-cxl --tail=50"
_OBJECT = "kubectl -n {namespace} get {kind} {name} -o yaml"

ADVICE: dict[Reason, Advice] = {
    Reason.INVALID_SPEC: Advice("the spec asks for something that a child object may not have", _OBJECT),
    Reason.CHILD_CONFLICT: Advice(
        "an object of the name that a child needs belongs to somebody else, or is still being deleted",
        "kubectl -n {namespace} get configmaps,jobs,pvc,serviceaccounts,roles,rolebindings | grep {name}-",
    ),
    Reason.FORBIDDEN: Advice(
        "the operator's account lacks a right, or a policy of the namespace refuses the child",
        "kubectl auth can-i --list --as=system:serviceaccount:ballast-system:ballast-operator -n {namespace}",
    ),
    Reason.QUOTA_EXCEEDED: Advice(
        "a ResourceQuota of the namespace is used up", "kubectl -n {namespace} describe resourcequotas"
    ),
    Reason.DEPENDENCY_MISSING: Advice(
        "an object that the spec names does not exist, or lacks the key", "kubectl -n {namespace} get configmaps,pvc"
    ),
    Reason.NO_DEFAULT_STORAGE_CLASS: Advice(
        "the claim names no storage class and the cluster has no default one", "kubectl get storageclasses"
    ),
    Reason.CLAIM_PENDING: Advice(
        "no device is free for a ResourceClaim of the pod",
        "kubectl -n {namespace} get resourceclaims && kubectl get resourceslices",
    ),
    Reason.DEVICE_UNAVAILABLE: Advice(
        "no node has a free device of the kind that the pod asks for, or its driver does not run there",
        "kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu'",
    ),
    Reason.INSUFFICIENT_CAPACITY: Advice(
        "no node has what the pod asks for, or all that do are tainted or do not match the selector",
        "kubectl describe nodes | grep -A8 'Allocated resources'",
    ),
    Reason.IMAGE_PULL_FAILED: Advice("the image does not exist, or the node may not pull it", _POD_EVENTS),
    Reason.CONTAINER_CONFIG_INVALID: Advice("the node cannot create the container as asked", _POD_EVENTS),
    Reason.VOLUME_PENDING: Advice(
        "a volume of the pod is not bound, or the node cannot mount it",
        "kubectl -n {namespace} describe pvc && kubectl get storageclasses",
    ),
    Reason.QUEUED: Advice(
        "the queue has not admitted the Job yet",
        "kubectl -n {namespace} get workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io",
    ),
    Reason.WAITING_FOR_PODS: Advice(
        "a pod of an earlier Job is still ending; two at once would write one checkpoint",
        "kubectl -n {namespace} get pods -l ballast.dev/owner-name={name} -w",
    ),
    Reason.STARTING: Advice("the pod is being scheduled, or its image pulled, or its volume mounted", _POD_EVENTS),
    Reason.RUNNING: Advice("nothing: it is under way", "kubectl -n {namespace} get {kind} {name} -w"),
    Reason.RETRYING: Advice("the last pod failed and the next one is due", _POD_LOGS),
    Reason.DISRUPTED: Advice("the last pod was evicted or preempted and the next one is due", _POD_EVENTS),
    Reason.SUSPENDING: Advice(
        "the pod is writing its checkpoint and ending", "kubectl -n {namespace} get {kind} {name} -w"
    ),
    Reason.SUSPENDED: Advice(
        "spec.suspend is true",
        'kubectl -n {namespace} patch {kind} {name} --type=merge -p \'{{"spec":{{"suspend":false}}}}\'',
    ),
    Reason.TARGET_REACHED: Advice(
        "nothing: it is done",
        _STRATEGY,
    ),
    Reason.ITERATION_LIMIT: Advice(
        "it stopped at stop.maxIterations; the strategy is the best so far",
        _STRATEGY,
    ),
    Reason.TIME_LIMIT: Advice(
        "it stopped at stop.maxSeconds; the strategy is the best so far",
        _STRATEGY,
    ),
    Reason.JOB_COMPLETE: Advice(
        "it is done, but its pod went before its last words were read",
        "kubectl -n {namespace} get configmap {name}-strategy -o jsonpath='{{.data.summary\\.json}}'",
    ),
    Reason.RESULT_TOO_LARGE: Advice("it does not fit a ConfigMap; status.result names the volume that has it", _OBJECT),
    Reason.INVALID_GAME: Advice("the game cannot be solved as it is written; the message says where", _POD_LOGS),
    Reason.CHECKPOINT_MISMATCH: Advice(
        "the volume has the checkpoint of another game or algorithm; it is never overwritten", _POD_LOGS
    ),
    Reason.OUT_OF_MEMORY: Advice("the pod needed more memory than its limit", _OBJECT),
    Reason.BACKOFF_LIMIT_EXCEEDED: Advice("more pods failed than spec.backoffLimit allows", _POD_LOGS),
    Reason.DEADLINE_EXCEEDED: Advice("it ran longer than spec.activeDeadlineSeconds", _OBJECT),
    Reason.SOLVER_FAILED: Advice("the solver ended with an error of its own", _POD_LOGS),
    Reason.ALL_REPLICAS_READY: Advice("nothing: it serves", "kubectl -n {namespace} get {kind} {name} -o wide"),
    Reason.SOME_REPLICAS_READY: Advice("requests are answered, and further replicas are on their way", _WATCH),
    Reason.MODEL_LOADING: Advice(
        "a replica is loading the model, for as long as startup.timeoutSeconds at most", _POD_SAID
    ),
    Reason.PODS_NOT_READY: Advice("pods are being started or stopped", _POD_EVENTS),
    Reason.ROUTER_NOT_READY: Advice(
        "no pod of the router runs, so nobody is answered",
        "kubectl -n {namespace} describe pods -l ballast.dev/owner-name={name},app.kubernetes.io/component=router",
    ),
    Reason.SCALED_TO_ZERO: Advice(
        "there are no replicas, since nobody asked for long or somebody scaled it down", _OBJECT
    ),
    Reason.HOLDING: Advice("no replica serves; the router holds what is asked until one does", _POD_EVENTS),
    Reason.ROLLING_OUT: Advice("nothing: replicas are replaced one after the other", _WATCH),
    Reason.ROLLED_OUT: Advice("nothing: every replica is of the present revision", _WATCH),
    Reason.ROLLOUT_BLOCKED: Advice("a pod of the new revision does not become ready; the old ones go on", _POD_EVENTS),
    Reason.CRASH_LOOPING: Advice("the container ends again and again", _POD_LOGS),
    Reason.MODEL_NOT_FOUND: Advice("there is no model at the path, or of the id, that spec.model names", _POD_SAID),
    Reason.INVALID_ENGINE_ARGS: Advice("vLLM does not know, or does not take, an argument of spec.engine", _OBJECT),
    Reason.STARTUP_TIMEOUT: Advice("the model was not loaded within startup.timeoutSeconds", _POD_SAID),
    Reason.ENGINE_FAILED: Advice("vLLM ended with an error of its own", _POD_SAID),
    Reason.FOLLOWING_LOAD: Advice("nothing: replicas follow the load", _OBJECT),
    Reason.DELEGATED: Advice("nothing: an autoscaler of the cluster decides", _SCALERS),
    Reason.METRICS_UNAVAILABLE: Advice(
        "engines do not answer, or the autoscaler finds no metrics: an adapter or the metrics API is missing", _SCALERS
    ),
    Reason.AUTOSCALER_CONFLICT: Advice("two autoscalers want to set the same replicas", _SCALERS),
    Reason.AUTOSCALER_OFF: Advice(
        "a HorizontalPodAutoscaler does nothing while replicas are 0",
        "kubectl -n {namespace} scale {kind} {name} --replicas=1",
    ),
    Reason.BALANCING: Advice("nothing: memory follows the load", _OBJECT),
    Reason.DRY_RUN: Advice("vamp.mode is DryRun: what would be decided is in the engines' metrics", _VAMP_METRICS),
    Reason.RANKS_DISAGREE: Advice(
        "a device had no memory left for a move; capacity is what all devices of the pod have", _VAMP_SAID
    ),
    Reason.PLUGIN_MISSING: Advice("the pods run an image without the plugin, as an older release's", _OBJECT),
    Reason.VERSION_MISMATCH: Advice("the image has a version of vLLM that the plugin does not know", _VAMP_SAID),
    Reason.BAD_CONFIGURATION: Advice("a VAMP_ variable of template.env, or a size in spec.vamp, is wrong", _OBJECT),
    Reason.NOT_MOE: Advice("the model has no routed experts: there is nothing to give up; remove spec.vamp", _OBJECT),
    Reason.NO_CUDA: Advice("the pods have no GPU, or one that is not NVIDIA's; ask for one in spec.resources", _OBJECT),
    Reason.NO_VMM: Advice("the node's driver cannot map memory of the host at a device's address", _VAMP_SAID),
    Reason.UNSUPPORTED_BACKEND: Advice("vLLM chose kernels that keep experts in a layout of their own", _VAMP_SAID),
    Reason.UNSUPPORTED_OPTION: Advice("an argument of engine.extraArgs does not go together with VAMP", _OBJECT),
    Reason.HOST_MEMORY_TOO_SMALL: Advice(
        "vamp.hostMemory holds not one copy, or the node had no more memory for the pod", _VAMP_SAID
    ),
    Reason.ROUTING_TOO_FLAT: Advice(
        "the traffic uses all experts alike, so moving any of them would cost more than it gives", _VAMP_METRICS
    ),
    Reason.UNKNOWN_REASON: Advice("the plugin is newer than the operator; the message has its own words", _VAMP_SAID),
    Reason.RESERVED: Advice("the region has its blocks and is about to be composed", _LEDGER),
    Reason.COMPOSING: Advice("the appliance is composing the region", _LEDGER),
    Reason.COMPOSED: Advice("nothing: the appliance has the region", _LEDGER),
    Reason.PUBLISHING: Advice("the region is being offered to the scheduler", "kubectl get resourceslices"),
    Reason.PUBLISHED: Advice("nothing: pods can claim it", "kubectl -n {namespace} get resourceclaim {name}"),
    Reason.READY: Advice("nothing: pods can use it", "kubectl -n {namespace} get resourceclaim {name}"),
    Reason.ALLOCATED: Advice("nothing: pods use it", _ATTACHMENTS),
    Reason.NOT_ALLOCATED: Advice("no pod uses it yet", "kubectl -n {namespace} get resourceclaim {name}"),
    Reason.HEALTHY: Advice("nothing: all is as it should be", _ATTACHMENTS),
    Reason.DRAINING: Advice(
        "it was deleted while pods use it; it goes when they have ended",
        "kubectl -n {namespace} get resourceclaim {name} -o jsonpath='{{.status.reservedFor}}'",
    ),
    Reason.DETACHING: Advice("nodes are giving it back", _ATTACHMENTS),
    Reason.SCRUBBING: Advice("its bytes are being overwritten with zeros before anybody else gets them", _ATTACHMENTS),
    Reason.RETAINED: Advice("it was deleted with reclaimPolicy: Retain", _LEDGER),
    Reason.NO_BLADE: Advice("no CXLBlade has the class, or is cabled to enough nodes, or all are drained", _BLADES),
    Reason.NO_FREE_PORT: Advice(
        "each port of the blade that leads to the node carries another region already", _ATTACHMENTS
    ),
    Reason.APPLIANCE_UNREACHABLE: Advice("the appliance does not answer, or refuses our credentials", _REGION_LOGS),
    Reason.GEOMETRY_CHANGED: Advice(
        "the appliance tells of other blocks than when the ledger was begun", "kubectl get cxlblades -o yaml"
    ),
    Reason.DRIFT: Advice(
        "the appliance has memory that the ledger knows nothing of",
        "kubectl get cxlblades -o jsonpath='{{.items[*].status.drift}}'",
    ),
    Reason.COMPOSE_FAILED: Advice("the appliance refuses to compose the region", _REGION_LOGS),
    Reason.MEMORY_LOST: Advice(
        "the appliance has forgotten the region, as after a power cycle; its bytes are lost, so make a new one",
        "kubectl -n {namespace} delete cxlr {name}",
    ),
    Reason.NODE_LOST: Advice("the node plugin of a node that has the region no longer reports", _ATTACHMENTS),
    Reason.FENCE_FAILED: Advice(
        "a node that is gone could not be cut off at the appliance, so it may still write", _REGION_LOGS
    ),
    Reason.SCRUB_FAILED: Advice("the region could not be overwritten with zeros", _ATTACHMENTS),
    Reason.QUARANTINED: Advice(
        "its blocks are kept from everybody; once their cause is dealt with, name the reservation in the blade's "
        "spec.releaseQuarantined",
        _LEDGER,
    ),
}

UNSEEN = Advice(
    "the operator has not looked at the object: it is not running, or does not watch this namespace",
    "kubectl -n ballast-system get pods,leases && kubectl -n ballast-system logs deploy/ballast-operator --tail=20",
)


def fill(command: str, kind: str, namespace: str, name: str) -> str:
    """The command for one object."""
    return command.format(kind=kind, namespace=namespace, name=name)
