"""What the metrics pages of a run come to: counts over the whole run, and a few numbers over its time."""

from __future__ import annotations

import re
from collections.abc import Sequence

SERIES = {
    "waiting": "vllm:num_requests_waiting",
    "running": "vllm:num_requests_running",
    "kv_usage": "vllm:kv_cache_usage_perc",
    "kv_bytes_physical": "vamp:kv_bytes_physical",
    "kv_bytes_virtual": "vamp:kv_bytes_virtual",
    "expert_bytes_host": "vamp:expert_bytes_host",
    "expert_bytes_resident": "vamp:expert_bytes_resident",
    "host_bytes": "vamp:host_bytes",
}
COUNTS = {
    "preemptions": "vllm:num_preemptions_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "external_hits": "vllm:external_prefix_cache_hits_total",
    "repartitions": "vamp:repartition_total",
    "stall_seconds": 'vamp:repartition_seconds_sum{phase="stall"}',
    "cold_bytes_read": "vamp:cold_bytes_read_total",
    "kv_bytes_copied": "vamp:kv_bytes_copied_total",
}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r'\\(["\\])')


def values(page: str) -> dict[str, float]:
    """Every sample of a page, by its spelling and, summed over its labels, by its name; Prometheus has one a line."""
    found: dict[str, float] = {}
    for line in page.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        named, _, value = line.rpartition(" ")
        for name in {named, named.partition("{")[0]}:
            found[name] = found.get(name, 0.0) + float(value)
    return found


def series(samples: Sequence[tuple[float, str]]) -> dict[str, list[float | None]]:
    """Columns over time, `t` in seconds; a column that no sample has is left out."""
    pages = [values(page) for _, page in samples]
    columns: dict[str, list[float | None]] = {"t": [round(when, 3) for when, _ in samples]}
    for column, name in SERIES.items():
        if any(name in page for page in pages):
            columns[column] = [page.get(name) for page in pages]
    return columns


def counted(samples: Sequence[tuple[float, str]]) -> dict[str, float]:
    """How far each counter went in the run, between the first and the last page that came; those it has not are left
    out."""
    pages = [page for _, page in samples if page]
    if not pages:
        return {}
    first, last = values(pages[0]), values(pages[-1])
    return {count: last[name] - first.get(name, 0.0) for count, name in COUNTS.items() if name in last}


def disabled(samples: Sequence[tuple[float, str]]) -> str | None:
    """Why VAMP is off in this engine, as it last said itself: `NoCuda: the sentence`."""
    page = next((page for _, page in reversed(samples) if page), "")
    for line in page.splitlines():
        if line.startswith("vamp:disabled_info{") and not line.endswith(" 0.0"):
            labels = dict(_LABEL.findall(line))
            message = _ESCAPED.sub(r"\1", labels.get("message", ""))
            return f"{labels.get('reason', '')}: {message}"
    return None
