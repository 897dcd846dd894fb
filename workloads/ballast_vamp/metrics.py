"""`vamp:*` on vLLM's own /metrics: the engine writes a small file by rename, the API process reads it on a scrape.

vLLM has no channel of its own for them that does not need a KV connector; a file is the same for one API process and
for several. A sample is kept as Prometheus spells it: name, labels, value.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

STATE = "VAMP_STATE"  # environment: folder that the processes of one server share
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
HELP = {
    "vamp:active": ("gauge", "1 while VAMP may move pages"),
    "vamp:disabled_info": ("gauge", "1, with the reason why VAMP stays out"),
    "vamp:degraded": ("gauge", "1 if ranks disagree about their memory"),
    "vamp:kv_bytes_physical": ("gauge", "bytes of KV cache with memory behind them, on each rank"),
    "vamp:kv_bytes_virtual": ("gauge", "bytes of KV cache that could be backed, on each rank"),
    "vamp:kv_blocks_parked": ("gauge", "blocks without memory"),
    "vamp:expert_bytes_host": ("gauge", "bytes of experts served from host memory, on each rank"),
    "vamp:expert_bytes_resident": ("gauge", "bytes of experts in device memory, on each rank"),
    "vamp:host_bytes": ("gauge", "bytes of host memory for copies of experts, on each rank"),
    "vamp:bandwidth_bytes_per_second": ("gauge", "measured speed of the way to host memory"),
    "vamp:decision_cost_seconds": ("gauge", "last price of an option, in request-seconds of delay"),
    "vamp:connector_held_share": ("gauge", "share of evicted blocks that a KV connector had when they were asked for"),
    "vamp:repartition": ("counter", "orders to move pages, by result"),
    "vamp:decision": ("counter", "decisions under pressure, by what was given up"),
    "vamp:cold_bytes_read": ("counter", "bytes of experts that steps read from host memory (expected)"),
    "vamp:kv_bytes_copied": ("counter", "bytes of KV cache that were copied to move pages"),
    "vamp:repartition_seconds": ("histogram", "seconds of an order: preparing, and standing still"),
}
Labels = tuple[tuple[str, str], ...]


def key(name: str, labels: Mapping[str, str]) -> str:
    """As Prometheus spells a sample."""
    if not labels:
        return name
    inside = ",".join(f'{label}="{_escape(value)}"' for label, value in labels.items())
    return f"{name}{{{inside}}}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", " ")


class Metrics:
    """Values of one engine."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], float] = {}

    def set(self, name: str, value: float, **labels: str) -> None:
        self._values[name, tuple(labels.items())] = float(value)

    def clear(self, name: str) -> None:
        """Forget a gauge with all its labels."""
        self._values = {sample: value for sample, value in self._values.items() if sample[0] != name}

    def add(self, name: str, value: float = 1.0, **labels: str) -> None:
        """Add to the counter `name`; the sample ends in _total."""
        sample = (f"{name}_total", tuple(labels.items()))
        self._values[sample] = self._values.get(sample, 0.0) + value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Count a value in a histogram."""
        first = bisect_left(BUCKETS, value)
        for n, bound in enumerate((*BUCKETS, float("inf"))):
            sample = (f"{name}_bucket", (*labels.items(), ("le", "+Inf" if bound == float("inf") else str(bound))))
            self._values[sample] = self._values.get(sample, 0.0) + (1.0 if n >= first else 0.0)
        for suffix, amount in (("sum", value), ("count", 1.0)):
            sample = (f"{name}_{suffix}", tuple(labels.items()))
            self._values[sample] = self._values.get(sample, 0.0) + amount

    def snapshot(self) -> dict[str, float]:
        """Samples by their spelling."""
        return {key(name, dict(labels)): value for (name, labels), value in self._values.items()}

    def rows(self) -> list[list[Any]]:
        """As they are written to the file."""
        return [[name, list(labels), value] for (name, labels), value in self._values.items()]


def folder() -> Path:
    """The folder that this server's processes share; made by the first that asks, its children inherit it."""
    if STATE not in os.environ:
        memory = Path("/dev/shm")
        made = tempfile.mkdtemp(prefix="vamp-", dir=memory if os.access(memory, os.W_OK) else None)
        os.environ[STATE] = made
        atexit.register(_remove, made, os.getpid())
    return Path(os.environ[STATE])


def _remove(made: str, owner: int) -> None:
    """A child that was forked does not take the folder away from the others."""
    if os.getpid() == owner:
        shutil.rmtree(made, ignore_errors=True)


def write(engine: str, metrics: Metrics) -> None:
    """Replace an engine's file; a reader sees the old or the new one. Without room for it the old one stays."""
    path = folder() / f"{engine}.json"
    new = path.with_suffix(f".{os.getpid()}.new")
    try:
        new.write_text(json.dumps(metrics.rows()))
        new.replace(path)
    except OSError:  # no room; or the server is ending, and its folder is gone
        with suppress(OSError):
            new.unlink(missing_ok=True)


def read() -> Iterator[tuple[str, list[tuple[str, Labels, float]]]]:
    """Each engine's samples."""
    for path in sorted(folder().glob("*.json")):
        try:
            rows = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # an engine that is just starting or ending
        yield path.stem, [(name, tuple((k, v) for k, v in labels), value) for name, labels, value in rows]


def family_of(sample: str) -> str:
    """The name of the family that a sample belongs to."""
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        if sample.removesuffix(suffix) in HELP:
            return sample.removesuffix(suffix)
    return sample


class Collector:
    """For prometheus_client: what all engines of this server wrote. More than one are told apart by `engine`."""

    def describe(self) -> list[Any]:
        return []  # nothing is known before the first scrape; without this, registering would scrape

    def collect(self) -> Iterator[Any]:
        from prometheus_client.metrics_core import Metric

        engines = list(read())
        families: dict[str, Any] = {}
        for engine, samples in engines:
            extra = (("engine", engine),) if len(engines) > 1 else ()
            for name, labels, value in samples:
                family = family_of(name)
                kind, words = HELP[family]
                metric = families.setdefault(family, Metric(family, words, kind))
                metric.add_sample(name, dict(labels + extra), value)
        yield from families.values()
