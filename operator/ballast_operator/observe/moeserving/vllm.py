"""The few numbers of an engine's /metrics that decisions are made from, and what its VAMP plugin says of itself."""

from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

LARGEST = 4 * 1024 * 1024  # bytes; histograms of many models are long
_NAMES = {
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_requests_running": "running",
    "vllm:kv_cache_usage_perc": "kv_cache",
    "vllm:time_to_first_token_seconds_sum": "first_token_seconds",
    "vllm:time_to_first_token_seconds_count": "first_tokens",
}
_ACTIVE, _DEGRADED, _DISABLED = "vamp:active", "vamp:degraded", "vamp:disabled_info"
_LONGEST_WORD = 64  # of a reason; a pod of ours says shorter ones


@dataclass(frozen=True)
class VampState:
    """What the plugin says. active: it may move memory; degraded: ranks disagree; reason, message: why not active."""

    active: bool = False
    degraded: bool = False
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class EngineMetrics:
    """One engine at one moment. kv_cache: share in use, 0 to 1; first_token_seconds and first_tokens: totals; vamp:
    what its plugin says, None where there is no plugin."""

    waiting: float
    running: float
    kv_cache: float = 0.0
    first_token_seconds: float = 0.0
    first_tokens: float = 0.0
    vamp: VampState | None = None


def read(body: bytes) -> EngineMetrics:
    """From Prometheus' text format, summed over the engines of a pod. ValueError for a text without these numbers."""
    found: dict[str, float] = {}
    said: list[Any] = []  # samples of the plugin
    for line in body.decode("utf-8").splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name not in _NAMES and name not in (_ACTIVE, _DEGRADED, _DISABLED):
            continue
        samples = [sample for family in text_string_to_metric_families(line + "\n") for sample in family.samples]
        if name in _NAMES:
            found[_NAMES[name]] = found.get(_NAMES[name], 0.0) + sum(sample.value for sample in samples)
        else:
            said += samples
    if not found.keys() >= {"waiting", "running"}:
        raise ValueError("no metrics of an engine")
    return EngineMetrics(**found, vamp=_vamp(said))


def _vamp(said: list[Any]) -> VampState | None:
    """Of a pod with several engines: active only if all of them are, and why the first one is not."""
    if not said:
        return None
    active = [sample.value for sample in said if sample.name == _ACTIVE]
    degraded = any(sample.value for sample in said if sample.name == _DEGRADED)
    off = [sample.labels for sample in said if sample.name == _DISABLED and sample.value]
    why: dict[str, str] = off[0] if off else {}
    reason, message = why.get("reason", "")[:_LONGEST_WORD], why.get("message", "")
    return VampState(bool(active) and all(active), degraded, reason, message)
