"""The few numbers of an engine's /metrics that decisions are made from."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

LARGEST = 4 * 1024 * 1024  # bytes; histograms of many models are long
_NAMES = {
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_requests_running": "running",
    "vllm:kv_cache_usage_perc": "kv_cache",
    "vllm:time_to_first_token_seconds_sum": "first_token_seconds",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
}


@dataclass(frozen=True)
class EngineMetrics:
    """One engine at one moment. kv_cache: share in use, 0 to 1; first_token_seconds and first_tokens: totals."""

    waiting: float
    running: float
    kv_cache: float = 0.0
    first_token_seconds: float = 0.0
    first_tokens: float = 0.0


def read(body: bytes) -> EngineMetrics:
    """From Prometheus' text format, summed over the engines of a pod. ValueError for a text without these numbers."""
    found: dict[str, float] = {}
    for line in body.decode("utf-8").splitlines():
        name = _NAMES.get(line.partition("{")[0].partition(" ")[0])
        if name is None:
            continue
        for family in text_string_to_metric_families(line + "\n"):
            found[name] = found.get(name, 0.0) + sum(sample.value for sample in family.samples)
    if not found.keys() >= {"waiting", "running"}:
        raise ValueError("no metrics of an engine")
    return EngineMetrics(**found)
