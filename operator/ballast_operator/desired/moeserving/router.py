"""The router's pods: they hold requests while no engine is ready, and choose one otherwise."""

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.engine import EXIT_SECONDS, probe, secret, spread
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.parts import API_PORT, ENGINE, REPLICAS, REVISION, ROUTER, STATUS_PORT, Part
from ballast_operator.desired.pod import pod_template
from ballast_operator.objects import Object

CONTAINER = "router"


def drain_seconds(serving: MoEServing) -> int:
    """What a request may still need when its router ends: to be held as long as any, then to be answered."""
    return serving.spec.router.hold.timeout_seconds + serving.spec.drain.timeout_seconds


def router_pod(serving: MoEServing, installation: Installation, revision: str) -> Object:
    """Template of the router's pods. It shares nothing with the engine's: no devices, no selectors of GPU nodes."""
    part = Part.of(serving.metadata, ROUTER)
    made = pod_template(
        serving.spec.router.template,
        part.labels | {REVISION: revision},
        container(serving, installation),
        [{"name": "scratch", "emptyDir": {}}],
        restart_policy="Always",
        grace_seconds=drain_seconds(serving) + EXIT_SECONDS,
        pull_secrets=installation.pull_secrets,
    )
    made["spec"]["topologySpreadConstraints"] = [spread(part)]
    return made


def container(serving: MoEServing, installation: Installation) -> Object:
    ports = [("http", API_PORT), ("status", STATUS_PORT)]
    key = serving.spec.access.api_key_secret_ref
    return {
        "name": CONTAINER,
        "image": installation.router_image,
        "imagePullPolicy": installation.pull_policy,
        "args": arguments(serving),
        "env": [secret("VLLM_API_KEY", key.name, key.key or "api-key")] if key else [],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "1Gi"}},
        "startupProbe": probe("/livez", 2, 90),  # on a busy node even a small process takes its time
        "readinessProbe": probe("/readyz", 2, 2),
        "livenessProbe": probe("/livez", 10, 3),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    }


def arguments(serving: MoEServing) -> list[str]:
    """Command line of `ballast_serving hold`."""
    router, engines = serving.spec.router, Part.of(serving.metadata, ENGINE).names.child(REPLICAS)
    flags = {
        "port": API_PORT,
        "status-port": STATUS_PORT,
        "engines": f"{engines}.{serving.metadata.namespace}.svc:{API_PORT}",
        "engine-status-port": STATUS_PORT,
        "service": f"{serving.metadata.name}.{serving.metadata.namespace}.svc:{API_PORT}",
        "policy": router.policy.value,
        "max-held": router.hold.max_requests,
        "hold-timeout": router.hold.timeout_seconds,
        "drain-timeout": drain_seconds(serving),
    }
    return ["hold", *(f"--{name}={value}" for name, value in flags.items())]
