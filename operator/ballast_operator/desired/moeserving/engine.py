"""The engine's pods: vLLM behind the entry point of the serving image."""

from typing import Any

from ballast_api.engine import DType
from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving import vamp
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.parts import (
    API_PORT,
    CACHE,
    ENGINE,
    GROUP,
    KIND,
    LEADER,
    RANK,
    REVISION,
    STATUS_PORT,
    WORKER,
    Part,
)
from ballast_operator.desired.moeserving.volumes import DEVICES, model_path, mounts, volumes
from ballast_operator.desired.pod import pod_template
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object

CONTAINER = "engine"
PROBE_SECONDS = 2
EXIT_SECONDS = 30  # beyond the drain: for routers to notice, and for the engine to end


def served_name(serving: MoEServing) -> str:
    """What clients call the model."""
    model = serving.spec.model
    return model.served_name or (model.hugging_face.id if model.hugging_face else serving.metadata.name)


def grace_seconds(serving: MoEServing) -> int:
    """Longer than the drain, or kubelet would cut what the drain waits for."""
    return serving.spec.drain.timeout_seconds + EXIT_SECONDS


def engine_pod(serving: MoEServing, installation: Installation, revision: str, *, worker: bool = False) -> Object:
    """Template of the engine's pods; worker: of those of a group that do not serve but compute."""
    part = Part.of(serving.metadata, WORKER if worker else ENGINE)
    made = pod_template(
        serving.spec.template,
        part.labels | {REVISION: revision},
        container(serving, installation, worker=worker),
        volumes(serving),
        restart_policy="Always",
        grace_seconds=grace_seconds(serving),
        pull_secrets=installation.pull_secrets,
    )
    spec = made["spec"]
    if serving.spec.devices:
        claim = {"name": DEVICES, "resourceClaimTemplateName": part.names.child(f"engine-{revision}")}
        spec["resourceClaims"] = [claim, *spec.get("resourceClaims", [])]
    spec["topologySpreadConstraints"] = [spread(part) if serving.spec.parallelism.nodes == 1 else apart(serving)]
    return made


def spread(part: Part) -> Object:
    """Over nodes where that is possible, counting only pods of one revision: an old one makes room."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": part.selector},
        "matchLabelKeys": [REVISION],
    }


def apart(serving: MoEServing) -> Object:
    """Each pod of a group on a node of its own, or on none: fewer nodes than were asked for are not what was asked for.

    A rule against neighbours would say the same, but it also counts pods that are about to go, and `template.affinity`
    is the user's. With `minDomains` no node may have a second pod, however few nodes there are.
    """
    return {
        "maxSkew": 1,
        "minDomains": serving.spec.parallelism.nodes,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {OWNER_KIND: KIND, OWNER_NAME: serving.metadata.name}},
        "matchLabelKeys": [GROUP],
    }


def container(serving: MoEServing, installation: Installation, *, worker: bool) -> Object:
    """The engine's container. Its arguments are the whole engine, so that `kubectl describe` shows what runs."""
    steps = -(-serving.spec.startup.timeout_seconds // PROBE_SECONDS)
    ports = [("http", API_PORT), ("status", STATUS_PORT)]
    return {
        "name": CONTAINER,
        "image": installation.engine_image(serving),
        "imagePullPolicy": installation.pull_policy,
        "args": arguments(serving, worker=worker),
        "env": environment(serving),
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "resources": resources(serving),
        "startupProbe": probe("/startupz", PROBE_SECONDS, steps),
        "readinessProbe": probe("/readyz", PROBE_SECONDS, 2),
        "livenessProbe": probe("/livez", 10, 6),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(serving),
    }


def probe(path: str, period: int, failures: int) -> Object:
    """A probe of the status port, which answers while the engine itself is busy loading."""
    return {
        "httpGet": {"path": path, "port": STATUS_PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def arguments(serving: MoEServing, *, worker: bool) -> list[str]:
    """Command line of `ballast_serving serve`: our own flags, then vLLM's."""
    spec = serving.spec
    revision = spec.model.hugging_face.revision if spec.model.hugging_face else None
    own: list[tuple[str, Any]] = [
        ("model", model_path(serving)),
        ("served-name", served_name(serving)),
        ("revision", revision),
        ("port", API_PORT),
        ("status-port", STATUS_PORT),
        ("drain-timeout", spec.drain.timeout_seconds),
        ("startup-timeout", spec.startup.timeout_seconds),
    ]
    flags = [f"--{name}={value}" for name, value in own if value is not None]
    others = [f"--peer={address}" for address in peers(serving)]
    flags += [f"--leader={LEADER}:{STATUS_PORT}"] if worker else others
    return ["serve", *flags, "--", *engine_flags(serving)]


def peers(serving: MoEServing) -> list[str]:
    """Status ports of the other ranks of a group, whose leader is ready only while all of them are there."""
    part, ranks = Part.of(serving.metadata, ENGINE), range(1, serving.spec.parallelism.nodes)
    return [f"$(POD_NAME)-{rank}.{part.name}.{serving.metadata.namespace}.svc:{STATUS_PORT}" for rank in ranks]


def engine_flags(serving: MoEServing) -> list[str]:
    """vLLM's own arguments; what is at its default is left out, so that each version may choose its own."""
    engine, parallel = serving.spec.engine, serving.spec.parallelism
    flags: list[tuple[str, Any]] = [
        ("max-model-len", engine.max_model_len),
        ("max-num-seqs", engine.max_num_seqs),
        ("dtype", None if engine.dtype is DType.AUTO else engine.dtype.value.lower()),
        ("tensor-parallel-size", parallel.tensor if parallel.tensor > 1 else None),
        ("pipeline-parallel-size", parallel.pipeline if parallel.pipeline > 1 else None),
        ("enable-expert-parallel", "true" if parallel.expert else None),
    ]
    if parallel.nodes > 1:
        flags += [("nnodes", parallel.nodes), ("node-rank", RANK), ("master-addr", LEADER)]
    flags += sorted(engine.extra_args.items())
    return [flag(name, value) for name, value in flags if value is not None]


def flag(name: str, value: Any) -> str:
    """One argument. vLLM's switches take no value: on is the name, off has `no-` in front of it."""
    return {"true": f"--{name}", "false": f"--no-{name}"}.get(str(value), f"--{name}={value}")


def environment(serving: MoEServing) -> list[Object]:
    """Where things may be written, and secrets by reference. The template's own come after these and win."""
    found: list[Object] = [
        {"name": "HOME", "value": "/tmp"},
        {"name": "HF_HOME", "value": f"{CACHE}/huggingface"},
        {"name": "VLLM_CACHE_ROOT", "value": f"{CACHE}/vllm"},
        *vamp.environment(serving),
    ]
    if serving.spec.parallelism.nodes > 1:
        found.append({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    model, key = serving.spec.model.hugging_face, serving.spec.access.api_key_secret_ref
    if model and model.token_secret_ref:
        found.append(secret("HF_TOKEN", model.token_secret_ref.name, model.token_secret_ref.key or "token"))
    if key:
        found.append(secret("VLLM_API_KEY", key.name, key.key or "api-key"))
    return found


def secret(variable: str, name: str, key: str) -> Object:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def resources(serving: MoEServing) -> Object:
    """What the object says, memory for copies of experts, and the claim for its devices."""
    found = vamp.resources(serving, dict(serving.spec.resources or {}))
    if serving.spec.devices:
        found["claims"] = [{"name": DEVICES}, *found.get("claims", [])]
    return found
