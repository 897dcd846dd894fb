"""VAMP on a real GPU, in a restricted pod that the real kubelet runs: it works there, and memory moves under a load.

vLLM does not come with the machine: BALLAST_GPU_VLLM names a folder of the machine with its packages (0.26), unpacked.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_serving import tiny
from ballast_vamp.cli import main
from ballast_vamp.replay.models import SHAPES
from e2e.gpu.node import GpuNode
from e2e.gpu.scenarios.conftest import PROJECT, PYTHON, Volume, host_template
from e2e.support.kube import Kube, Object, condition
from e2e.support.operator import OperatorProcess
from e2e.support.serving import pods

pytestmark = pytest.mark.gpu
SERVING = "docker.io/local/serving:1"
START_SECONDS = 600


@pytest.fixture(scope="module")
def vllm() -> Path:
    """Where vLLM's packages are."""
    named = os.environ.get("BALLAST_GPU_VLLM")
    if not named or not (Path(named) / "vllm").is_dir():
        pytest.skip("BALLAST_GPU_VLLM names no folder with vLLM's packages")
    return Path(named)


@pytest.fixture
def kube(gpu_admin: Kube, node: GpuNode, vllm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kube]:
    """A namespace, and an operator whose engines run this machine's programs."""
    environment = {"PYTHONPATH": f"{PROJECT}:{vllm}", "USER": "ballast", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    node.load_host_image(SERVING, [PYTHON, "-m", "ballast_serving"], environment)
    images = {"BALLAST_SERVING_IMAGE": SERVING, "BALLAST_SERVING_GPU_IMAGE": SERVING, "BALLAST_ROUTER_IMAGE": SERVING}
    name = f"v-{os.getpid()}"
    gpu_admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with OperatorProcess(gpu_admin.kubeconfig, tmp_path / "log", images):
        yield gpu_admin.inside(name)
    print((tmp_path / "log").read_text()[-4000:])
    gpu_admin.run("delete", "namespace", name, "--wait=false")


def model(folder: Path) -> None:
    """Qwen3-30B-A3B's experts in 16 layers, random weights, a tokenizer of bytes."""
    tiny.write(folder)
    shape = SHAPES["qwen3-30b-a3b"] | {"num_hidden_layers": 16, "vocab_size": tiny.VOCABULARY}
    (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 32768}))


def serving(node: GpuNode, vllm: Path, **vamp: object) -> Object:
    template = host_template(node)
    template["volumes"] += [{"name": "vllm", "hostPath": {"path": str(vllm)}}]
    template["volumeMounts"] += [{"name": "vllm", "mountPath": str(vllm), "readOnly": True}]
    arguments = {"load-format": "dummy", "kv-cache-memory-bytes": str(2 << 30)}
    spec: Object = {
        "model": {"persistentVolumeClaim": {"claimName": "model"}},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "engine": {"maxModelLen": 32768, "maxNumSeqs": 48, "extraArgs": arguments},
        "startup": {"timeoutSeconds": START_SECONDS},
        "cache": {"persistentVolumeClaim": {"claimName": "cache"}},
        "vamp": {"maxOffload": "6Gi", "hostMemory": "8Gi"} | vamp,
        "template": template,
    }
    return {"apiVersion": "ballast.dev/v1alpha1", "kind": "MoEServing", "metadata": {"name": "vamp"}, "spec": spec}


def vamp_condition(kube: Kube, name: str, status: str, reason: str) -> Object:
    """The condition once it is so. Routers find no engines here, where Services are not routed: so not Ready."""

    def holds(obj: Object) -> bool:
        found = condition(obj, name)
        current = obj["status"].get("observedGeneration") == obj["metadata"]["generation"]
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
    model(volume("model"))
    kept = volume("cache")
    kube.apply(serving(node, vllm))
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
    kube.apply(serving(node, vllm, mode="DryRun"))
    vamp_condition(kube, "VampActive", "False", "DryRun")
    assert list(kept.glob("vamp/*/vamp.json"))
