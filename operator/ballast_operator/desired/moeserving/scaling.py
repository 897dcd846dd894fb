"""Autoscalers of other projects over the object's own /scale: a HorizontalPodAutoscaler, or KEDA's ScaledObject."""

from collections.abc import Sequence

from ballast_api import API_VERSION
from ballast_api.autoscaling import Autoscaling, Metric, MetricType, Mode, Policy, PolicyType
from ballast_api.moeserving import MoEServing
from ballast_operator.desired.moeserving.parts import ENGINE, KIND, ROUTER, Part
from ballast_operator.objects import Object

# Kubernetes' own defaults, which mode Operator has too.
UP = (
    Policy(type=PolicyType.PODS, value=4, period_seconds=15),
    Policy(type=PolicyType.PERCENT, value=100, period_seconds=15),
)
DOWN = (Policy(type=PolicyType.PERCENT, value=100, period_seconds=15),)

WAITING = "vllm:num_requests_waiting"
KV_CACHE = "vllm:kv_cache_usage_perc"  # a share between 0 and 1, whatever its name says
FIRST_TOKEN = "vllm:time_to_first_token_seconds"
HELD = "ballast_serving_held_requests"


def horizontal_pod_autoscaler(serving: MoEServing) -> Object | None:
    scaling = serving.spec.autoscaling
    if scaling is None or scaling.mode is not Mode.HPA:
        return None
    spec = {
        "scaleTargetRef": _target(serving),
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": [_metric(metric) for metric in scaling.measured],
        "behavior": _behavior(scaling),
    }
    metadata = Part.of(serving.metadata, ENGINE).metadata()
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def scaled_object(serving: MoEServing) -> Object | None:
    scaling = serving.spec.autoscaling
    if scaling is None or scaling.mode is not Mode.KEDA:
        return None
    spec = {
        "scaleTargetRef": _target(serving),
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        "cooldownPeriod": scaling.scale_to_zero_after_seconds,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(scaling)}},
        "triggers": [_trigger(serving, scaling, metric) for metric in scaling.measured],
    }
    metadata = Part.of(serving.metadata, ENGINE).metadata()
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": spec}


def _target(serving: MoEServing) -> Object:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": serving.metadata.name}


def _behavior(scaling: Autoscaling) -> Object:
    up, down = scaling.scale_up, scaling.scale_down
    return {
        "scaleUp": _rules(up.stabilization_seconds, up.policies or UP),
        "scaleDown": _rules(down.stabilization_seconds, down.policies or DOWN),
    }


def _rules(window: int, policies: Sequence[Policy]) -> Object:
    return {
        "stabilizationWindowSeconds": window,
        "selectPolicy": "Max",
        "policies": [{"type": p.type.value, "value": p.value, "periodSeconds": p.period_seconds} for p in policies],
    }


def _metric(metric: Metric) -> Object:
    """A metric of a HorizontalPodAutoscaler; all but CPU come through an adapter for custom metrics."""
    if metric.type is MetricType.CPU:
        target = {"type": "Utilization", "averageUtilization": metric.average_utilization}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    if metric.type is MetricType.KV_CACHE_USAGE:
        name, value = KV_CACHE, f"{10 * (metric.average_utilization or 0)}m"
    else:
        name, value = WAITING, str(metric.average_value)
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def _trigger(serving: MoEServing, scaling: Autoscaling, metric: Metric) -> Object:
    """A trigger of KEDA. What is asked of Prometheus is a sum for the first, and an average for the others."""
    if metric.type is MetricType.CPU:
        return {"type": "cpu", "metricType": "Utilization", "metadata": {"value": str(metric.average_utilization)}}
    engine, router = _series(serving, ENGINE), _series(serving, ROUTER)
    if metric.type is MetricType.WAITING_REQUESTS:
        query = f"(sum({WAITING}{engine}) or vector(0)) + (sum({HELD}{router}) or vector(0))"
        kind, threshold = "AverageValue", str(metric.average_value)
    elif metric.type is MetricType.KV_CACHE_USAGE:
        query = f"100 * avg({KV_CACHE}{engine})"
        kind, threshold = "Value", str(metric.average_utilization)
    else:
        seconds, count = f"{FIRST_TOKEN}_sum{engine}[1m]", f"{FIRST_TOKEN}_count{engine}[1m]"
        query = f"1000 * sum(rate({seconds})) / sum(rate({count}))"
        kind, threshold = "Value", str(metric.average_milliseconds)
    address = scaling.keda.prometheus_address if scaling.keda else ""
    asked = {"serverAddress": address, "query": query, "threshold": threshold, "activationThreshold": "0"}
    return {"type": "prometheus", "metricType": kind, "metadata": asked}


def _series(serving: MoEServing, role: str) -> str:
    """Labels of a role's series, as the Prometheus operator's PodMonitor sets them."""
    name = Part.of(serving.metadata, role).name
    return f'{{namespace="{serving.metadata.namespace}",pod=~"{name}-.*"}}'
