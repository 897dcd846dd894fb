"""When and how the number of replicas changes by itself."""

from enum import StrEnum
from typing import ClassVar

from ballast_api.base import Model, Rule, field


class Mode(StrEnum):
    """Who decides."""

    OPERATOR = "Operator"
    HPA = "HPA"
    KEDA = "KEDA"


class MetricType(StrEnum):
    """What is measured."""

    WAITING_REQUESTS = "WaitingRequests"
    KV_CACHE_USAGE = "KVCacheUsage"
    TTFT = "TTFT"
    CPU = "CPU"


class PolicyType(StrEnum):
    """Whether a policy counts pods or a share of them."""

    PODS = "Pods"
    PERCENT = "Percent"


class Metric(Model):
    """One thing that is measured, and its target for each replica."""

    rules: ClassVar = (
        Rule(
            "(self.type == 'WaitingRequests') == has(self.averageValue)",
            "averageValue is the target of WaitingRequests, and of no other metric; set averageUtilization for "
            "KVCacheUsage and CPU, averageMilliseconds for TTFT",
            ".averageValue",
        ),
        Rule(
            "(self.type in ['KVCacheUsage', 'CPU']) == has(self.averageUtilization)",
            "averageUtilization is the target of KVCacheUsage and CPU, and of no other metric; set averageValue for "
            "WaitingRequests, averageMilliseconds for TTFT",
            ".averageUtilization",
        ),
        Rule(
            "(self.type == 'TTFT') == has(self.averageMilliseconds)",
            "averageMilliseconds is the target of TTFT, and of no other metric; set averageValue for WaitingRequests, "
            "averageUtilization for KVCacheUsage and CPU",
            ".averageMilliseconds",
        ),
    )

    type: MetricType = field(
        "WaitingRequests: requests in the engines' queues and held by the router. KVCacheUsage: use of the KV cache. "
        "TTFT: mean time to the first token. CPU: use of the requested processor time, with modes HPA and KEDA."
    )
    average_value: int | None = field("Target of WaitingRequests, requests for each replica.", absent=None, ge=1)
    average_utilization: int | None = field("Target of KVCacheUsage and CPU, per cent.", absent=None, ge=1, le=1000)
    average_milliseconds: int | None = field("Target of TTFT, milliseconds.", absent=None, ge=1)


class Policy(Model):
    """How much may change in how much time."""

    type: PolicyType = field("Pods: a number of replicas. Percent: a share of those that there were.")
    value: int = field("Replicas, or per cent.", ge=1, le=1000)
    period_seconds: int = field("Seconds in which no more than that may change.", ge=1, le=1800)


class ScaleUp(Model):
    """How fast replicas are added."""

    stabilization_seconds: int = field(
        "Seconds over which the smallest recommendation counts, against flapping.", default=0, ge=0, le=3600
    )
    policies: list[Policy] = field(
        "Limits on the speed; the largest one counts. Unset: 4 pods or 100 per cent in 15 seconds.",
        default_factory=list,
        max_items=8,
    )


class ScaleDown(Model):
    """How fast replicas are taken away."""

    stabilization_seconds: int = field(
        "Seconds over which the largest recommendation counts, against flapping.", default=300, ge=0, le=3600
    )
    policies: list[Policy] = field(
        "Limits on the speed; the largest one counts. Unset: no limit.", default_factory=list, max_items=8
    )


class Keda(Model):
    """What KEDA has to know of this cluster."""

    prometheus_address: str = field(
        "URL of the Prometheus that has the engines' metrics.",
        pattern="^https?://[^ ]+$",
        max_length=500,
        examples=["http://prometheus.monitoring:9090"],
    )


DEFAULT_METRICS = [Metric(type=MetricType.WAITING_REQUESTS, average_value=4)]


class Autoscaling(Model):
    """Changes spec.replicas by load, through /scale. Leave spec.replicas out of what you apply once this is on."""

    rules: ClassVar = (
        Rule(
            "self.minReplicas <= self.maxReplicas",
            "autoscaling.minReplicas must not exceed autoscaling.maxReplicas; lower one or raise the other",
            ".minReplicas",
        ),
        Rule(
            "self.mode != 'HPA' || self.minReplicas >= 1",
            "autoscaling.minReplicas must be at least 1 with mode HPA, which cannot start from zero; raise it, or use "
            "mode Operator or KEDA",
            ".minReplicas",
        ),
        Rule(
            "self.mode != 'Operator' || !has(self.metrics) || !self.metrics.exists(m, m.type == 'CPU')",
            "autoscaling.metrics: CPU is for modes HPA and KEDA, since processor time says little of an engine on a "
            "device; use WaitingRequests, KVCacheUsage or TTFT",
            ".metrics",
        ),
        Rule(
            "self.mode != 'HPA' || !has(self.metrics) || !self.metrics.exists(m, m.type == 'TTFT')",
            "autoscaling.metrics: TTFT is for modes Operator and KEDA, since a HorizontalPodAutoscaler cannot read a "
            "histogram; use another metric or mode",
            ".metrics",
        ),
        Rule(
            "self.mode != 'KEDA' || self.minReplicas > 0 || !has(self.metrics)"
            " || self.metrics.exists(m, m.type == 'WaitingRequests')",
            "autoscaling.metrics: WaitingRequests is what wakes a serving that is scaled to zero by KEDA; add it or "
            "raise minReplicas",
            ".metrics",
        ),
        Rule(
            "self.mode != 'KEDA' || has(self.keda)",
            "autoscaling.keda is required with mode KEDA, which reads the engines' metrics from Prometheus; add "
            "prometheusAddress",
            ".keda",
        ),
        Rule(
            "self.mode == 'KEDA' || !has(self.keda)",
            "autoscaling.keda is for mode KEDA; remove it or set the mode",
            ".keda",
        ),
        Rule(
            "self.mode == 'Operator' || !has(self.tolerancePercent)",
            "autoscaling.tolerancePercent is for mode Operator, the others have a tolerance of their own; remove it",
            ".tolerancePercent",
        ),
    )

    mode: Mode = field(
        "Who decides. Operator: the operator itself, which needs nothing else in the cluster. HPA: a "
        "HorizontalPodAutoscaler; CPU needs the metrics API, other metrics an adapter. KEDA: a ScaledObject.",
        default=Mode.OPERATOR,
    )
    min_replicas: int = field("Fewest replicas. 0 scales to zero while nobody asks.", default=1, ge=0, le=1000)
    max_replicas: int = field("Most replicas.", ge=1, le=1000)
    metrics: list[Metric] = field(
        "What is measured; the metric that asks for most replicas counts. Unset: WaitingRequests with averageValue 4.",
        default_factory=list,
        max_items=4,
    )
    scale_to_zero_after_seconds: int = field(
        "Seconds without a request after which minReplicas 0 takes the last replica away.", default=600, ge=1, le=86400
    )
    tolerance_percent: int | None = field(
        "Deviation from the target, per cent, that changes nothing. Unset: 10.", absent=None, ge=0, le=100
    )
    scale_up: ScaleUp = field(default_factory=ScaleUp)
    scale_down: ScaleDown = field(default_factory=ScaleDown)
    keda: Keda | None = field(absent=None)

    @property
    def measured(self) -> list[Metric]:
        """The metrics, the default if none is named."""
        return self.metrics or DEFAULT_METRICS
