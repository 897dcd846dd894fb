"""VAMP on a real GPU, in a restricted pod that the real kubelet runs: it works there, and memory moves under a load."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_vamp.cli import main
from e2e.gpu.node import GpuNode
from e2e.gpu.scenarios.conftest import Volume
from e2e.gpu.scenarios.engines import START_SECONDS, model, served, serving, vllm
from e2e.support.kube import Kube, Object, condition
from e2e.support.serving import pods

__all__ = ["vllm"]  # a fixture
pytestmark = pytest.mark.gpu


@pytest.fixture
def kube(gpu_admin: Kube, node: GpuNode, vllm: Path, tmp_path: Path) -> Iterator[Kube]:
    with served(gpu_admin, node, vllm, tmp_path / "log") as found:
        yield found.kube


def with_vamp(node: GpuNode, vllm: Path, **vamp: object) -> Object:
    arguments = {"load-format": "dummy", "kv-cache-memory-bytes": str(2 << 30)}
    return serving(
        node,
        vllm,
        "vamp",
        engine={"maxModelLen": 32768, "maxNumSeqs": 48, "extraArgs": arguments},
        cache={"persistentVolumeClaim": {"claimName": "cache"}},
        vamp={"maxOffload": "6Gi", "hostMemory": "8Gi"} | vamp,
    )


def vamp_condition(kube: Kube, name: str, status: str, reason: str) -> Object:
    """The condition once it is so."""

    def holds(obj: Object) -> bool:
        found = condition(obj, name)
        current = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
        return current and (found.get("status"), found.get("reason")) == (status, reason)

    return kube.until("moe", "vamp", holds, START_SECONDS + 60, f"{name}={status} ({reason})")


def page(kube: Kube) -> dict[str, float]:
    """The engine's own numbers, by their whole name."""
    (pod,) = pods(kube, name="vamp")
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("vamp:")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_memory_moves_under_a_load_in_a_restricted_pod(
    kube: Kube, node: GpuNode, vllm: Path, volume: Volume, tmp_path: Path
) -> None:
    model(volume("model"), layers=16)
    kept = volume("cache")
    kube.apply(with_vamp(node, vllm))
    vamp_condition(kube, "VampActive", "True", "Balancing")
    (pod,) = pods(kube, name="vamp")
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    url, result = f"http://{pod['status']['podIP']}:8000", tmp_path / "result.json"
    load = ["--preset", "swe110", "--sessions", "24", "--scale", "0.3", "--speed", "4", "--vocabulary", "320"]
    assert main(["replay", *load, "--arms", "vamp", "--url", url, "--runs", "1", "--json", str(result)]) == 0
    numbers = page(kube)
    print({name: value for name, value in numbers.items() if "bucket" not in name})
    moved = sum(v for n, v in numbers.items() if n.startswith("vamp:repartition_total") and 'result="ok"' in n)
    assert moved > 0
    assert numbers.get("vamp:kv_bytes_copied_total", 0) == 0
    # A change of the block is a new pod, which finds what the old one learned.
    kube.apply(with_vamp(node, vllm, mode="DryRun"))
    vamp_condition(kube, "VampActive", "False", "DryRun")
    assert list(kept.glob("vamp/*/vamp.json"))
