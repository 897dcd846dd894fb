"""The Job that runs the solver. Made once: a Job's pod template cannot change, so the solve's spec may not either."""

from dataclasses import dataclass

from ballast_api.cfrsolve import CFRSolve, Device
from ballast_api.template import Template
from ballast_operator.desired.cfrsolve.volumes import BATCH, CHECKPOINT, GAME, OUTPUT, mounts, volumes
from ballast_operator.desired.names import Names
from ballast_operator.desired.pod import pod_template
from ballast_operator.objects import Object

BAD_INPUT = 42
CHECKPOINT_MISMATCH = 43
CONTAINER = "solver"
STATUS_PORT = 8080
GPU_RESOURCE = "nvidia.com/gpu"
GRACE_SECONDS = 120  # a large checkpoint must reach its volume
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class Images:
    """What an installation decides about a solver's pod. cfr_gpu: the same solver with CUDA's compiler."""

    cfr: str
    cfr_gpu: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()


def job(solve: CFRSolve, names: Names, images: Images) -> Object:
    """One pod at a time; a broken game fails it at once, a disruption never counts."""
    spec = solve.spec
    metadata = names.metadata("solve")
    wanted: Object = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": spec.backoff_limit,
        "podReplacementPolicy": "Failed",  # the next pod starts when the last one is gone: one writer
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": CONTAINER,
                        "operator": "In",
                        "values": [BAD_INPUT, CHECKPOINT_MISMATCH],
                    },
                },
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": pod_template(
            with_gpu(spec.template) if spec.device is Device.CUDA else spec.template,
            names.labels,
            solver(solve, names, images),
            volumes(solve, names),
            restart_policy="Never",
            grace_seconds=GRACE_SECONDS,
            pull_secrets=images.pull_secrets,
            service_account=spec.template.service_account_name or names.child("solve"),
        ),
    }
    if spec.active_deadline_seconds is not None:
        wanted["activeDeadlineSeconds"] = spec.active_deadline_seconds
    if spec.queue_name is None:
        wanted["suspend"] = False  # with a queue, the queue decides
    else:
        metadata["labels"] = metadata["labels"] | {QUEUE_LABEL: spec.queue_name}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": wanted}


def gives_device(template: Template) -> bool:
    """Whether the pod may see a GPU: a resource called so (nvidia.com/gpu, nvidia.com/mig-1g.10gb), or any claim."""
    resources = template.resources or {}
    named = {*resources.get("limits", {}), *resources.get("requests", {})}
    return bool(resources.get("claims")) or any(n.endswith("/gpu") or n.startswith("nvidia.com/") for n in named)


def with_gpu(template: Template) -> Template:
    """The template with one GPU asked for, unless it brings a device of its own."""
    if gives_device(template):
        return template
    resources = template.resources or {}
    limits = {**resources.get("limits", {}), GPU_RESOURCE: 1}
    return template.model_copy(update={"resources": {**resources, "limits": limits}})


def device(solve: CFRSolve) -> Device:
    """What the solver is told. Auto without a device in the pod is the CPU: nothing is measured, nothing is loaded."""
    if solve.spec.device is Device.AUTO and not gives_device(solve.spec.template):
        return Device.CPU
    return solve.spec.device


def solver(solve: CFRSolve, names: Names, images: Images) -> Object:
    """The container. Its arguments are the whole solve, so that `kubectl describe` shows what runs."""
    return {
        "name": CONTAINER,
        "image": images.cfr if device(solve) is Device.CPU else images.cfr_gpu,
        "imagePullPolicy": images.pull_policy,
        "args": arguments(solve, names),
        "ports": [{"name": "status", "containerPort": STATUS_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(solve),
    }


def arguments(solve: CFRSolve, names: Names) -> list[str]:
    """Command line of `ballast_cfr job` for a solve."""
    spec = solve.spec
    flags: list[tuple[str, object]] = [
        *_game(solve),
        ("game-sha256", spec.game.sha256),
        ("batch-file", _batch(solve)),
        ("variant", spec.algorithm.variant.value),
        ("updates", spec.algorithm.updates.value),
        ("tie-tolerance", spec.algorithm.tie_tolerance),
        *(("parameter", f"{name}={value}") for name, value in sorted(spec.algorithm.parameters.items())),
        ("dtype", spec.algorithm.precision and spec.algorithm.precision.value),
        ("device", device(solve).value.lower()),
        ("exploitability", spec.stop.exploitability),
        ("unit", spec.stop.unit.value),
        ("max-iterations", spec.stop.max_iterations),
        ("max-seconds", spec.stop.max_seconds),
        ("checkpoint-dir", CHECKPOINT),
        ("checkpoint-interval", spec.checkpoint.interval_seconds),
        *_output(solve),
        ("result-configmap", f"{solve.metadata.namespace}/{names.child('strategy')}"),
        ("status-port", STATUS_PORT),
        ("termination-log", "/dev/termination-log"),
    ]
    return ["job", *(f"--{name}={value}" for name, value in flags if value is not None)]


def _game(solve: CFRSolve) -> list[tuple[str, object]]:
    game = solve.spec.game
    if game.builtin:
        parameters = sorted(game.builtin.parameters.items())
        return [
            ("game-builtin", game.builtin.name),
            *(("game-parameter", f"{name}={value}") for name, value in parameters),
        ]
    if game.config_map_key_ref:
        return [("game-file", f"{GAME}/{game.config_map_key_ref.key}")]
    if game.persistent_volume_claim:
        return [("game-file", f"{GAME}/{game.persistent_volume_claim.path}")]
    raise ValueError(f"CFRSolve {solve.metadata.namespace}/{solve.metadata.name}: spec.game names no source")


def _batch(solve: CFRSolve) -> str | None:
    batch = solve.spec.batch
    if batch is None:
        return None
    if batch.config_map_key_ref:
        return f"{BATCH}/{batch.config_map_key_ref.key}"
    if batch.persistent_volume_claim:
        return f"{BATCH}/{batch.persistent_volume_claim.path}"
    raise ValueError(f"CFRSolve {solve.metadata.namespace}/{solve.metadata.name}: spec.batch names no source")


def _output(solve: CFRSolve) -> list[tuple[str, object]]:
    output = solve.spec.output
    if not output.persistent_volume_claim:
        return []
    return [("output-file", f"{OUTPUT}/{output.persistent_volume_claim.path}"), ("output-format", output.format.value)]
