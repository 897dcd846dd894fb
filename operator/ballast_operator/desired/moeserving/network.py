"""Addresses and who may use them: Services, network policies, the route at a Gateway."""

from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.installation import Installation
from ballast_operator.desired.moeserving.parts import (
    API_PORT,
    COMPONENT,
    ENGINE,
    REPLICAS,
    ROUTER,
    STATUS_PORT,
    WORKER,
    Part,
)
from ballast_operator.objects import OWNER_NAME, Object

_NAMESPACE = "kubernetes.io/metadata.name"
OPERATOR_LABELS = {"app.kubernetes.io/name": "ballast-operator"}


def service(serving: MoEServing) -> Object:
    """The address that clients use: the name of the object, and the port that they know from vLLM."""
    part = Part.of(serving.metadata, ROUTER)
    metadata = part.metadata() | {"name": serving.metadata.name}
    return _service(metadata, {"selector": part.selector, "ports": [_port()]})


def engine_service(serving: MoEServing) -> Object:
    """The engines' addresses, for the router alone: it sees a pod before it is ready, and as long as it drains."""
    part = Part.of(serving.metadata, ENGINE)
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": part.selector, "ports": [_port()]}
    return _service(part.metadata(REPLICAS), spec)


def url(serving: MoEServing) -> str:
    """Where clients within the cluster find the API."""
    return f"http://{serving.metadata.name}.{serving.metadata.namespace}.svc:{API_PORT}/v1"


def engine_policy(serving: MoEServing, installation: Installation) -> Object:
    """Only routers reach the engine; pods of one group reach each other; status and metrics are for those who watch."""
    engine, router = Part.of(serving.metadata, ENGINE), Part.of(serving.metadata, ROUTER)
    ingress = [
        {"from": [{"podSelector": {"matchLabels": router.selector}}], "ports": _tcp(API_PORT, STATUS_PORT)},
        *_watchers(installation),
    ]
    if serving.spec.parallelism.nodes > 1:
        ingress.append({"from": [{"podSelector": _engines(serving)}]})
    return _policy(engine, _engines(serving), ingress)


def router_policy(serving: MoEServing, installation: Installation) -> Object:
    """Everybody reaches the API; access.apiKeySecretRef says who gets an answer."""
    part = Part.of(serving.metadata, ROUTER)
    ingress: list[Object] = [{"ports": _tcp(API_PORT)}, *_watchers(installation)]
    return _policy(part, {"matchLabels": part.selector}, ingress)


def route(serving: MoEServing) -> Object | None:
    """The way from a Gateway to the API, and to nothing else of ours. Streams last: the Gateway must not time out."""
    access = serving.spec.access
    if access.gateway_ref is None:
        return None
    parent = {"name": access.gateway_ref.name}
    if access.gateway_ref.namespace:
        parent["namespace"] = access.gateway_ref.namespace
    spec: Object = {
        "parentRefs": [parent],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                "backendRefs": [{"name": serving.metadata.name, "port": API_PORT}],
                "timeouts": {"request": "0s"},
            }
        ],
    }
    if access.hostnames:
        spec["hostnames"] = list(access.hostnames)
    metadata = Part.of(serving.metadata, ROUTER).metadata() | {"name": serving.metadata.name}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": metadata,
        "spec": spec,
    }


def pod_monitor(serving: MoEServing) -> Object:
    """Metrics of all pods, engines and routers, for the Prometheus operator."""
    part = Part.of(serving.metadata, ROUTER)
    selector = {name: value for name, value in part.selector.items() if name != COMPONENT}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": part.metadata() | {"name": serving.metadata.name},
        "spec": {
            "selector": {"matchLabels": selector},
            "podMetricsEndpoints": [{"port": "status", "path": "/metrics", "interval": "15s"}],
        },
    }


def engine_budget(serving: MoEServing) -> Object:
    """Of the engines; a replica on several nodes is gone with any pod of its group."""
    return _budget(Part.of(serving.metadata, ENGINE), _engines(serving))


def router_budget(serving: MoEServing) -> Object:
    part = Part.of(serving.metadata, ROUTER)
    return _budget(part, {"matchLabels": part.selector})


def _budget(part: Part, selector: Object) -> Object:
    """One pod at a time may be evicted: a drain of nodes goes on, and finds the others serving."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": part.metadata(),
        "spec": {
            "maxUnavailable": 1,
            "selector": selector,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _service(metadata: Object, spec: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _port() -> Object:
    return {"name": "http", "port": API_PORT, "targetPort": API_PORT, "protocol": "TCP", "appProtocol": "http"}


def _tcp(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _engines(serving: MoEServing) -> Object:
    """Selects the pods that replicas are made of: engines, and what computes for them on other nodes."""
    roles = [ENGINE, WORKER] if serving.spec.parallelism.nodes > 1 else [ENGINE]
    return {
        "matchLabels": {OWNER_NAME: serving.metadata.name},
        "matchExpressions": [{"key": COMPONENT, "operator": "In", "values": roles}],
    }


def _watchers(installation: Installation) -> list[Object]:
    """The operator, and Prometheus wherever the installation has it."""
    operator = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE: installation.operator_namespace}},
        "podSelector": {"matchLabels": OPERATOR_LABELS},
    }
    if not installation.metrics_namespaces:
        return [{"ports": _tcp(STATUS_PORT)}]
    listed = {"key": _NAMESPACE, "operator": "In", "values": list(installation.metrics_namespaces)}
    return [{"from": [operator, {"namespaceSelector": {"matchExpressions": [listed]}}], "ports": _tcp(STATUS_PORT)}]


def _policy(part: Part, selector: Object, ingress: list[Object]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": part.metadata(),
        "spec": {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress},
    }
