"""Engines on the GPU node: vLLM from a folder of the machine, models of random weights, an operator for them.

vLLM does not come with the machine: BALLAST_GPU_VLLM names a folder of the machine with its packages (0.26), unpacked.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ballast_serving import plugins, tiny
from ballast_vamp.replay.models import SHAPES
from e2e.cluster.layout import CHECKOUT
from e2e.gpu.node import GpuNode
from e2e.gpu.scenarios.conftest import PROJECT, PYTHON, host_template
from e2e.support.kube import Kube, Object
from e2e.support.operator import OperatorProcess

SERVING = "docker.io/local/serving:1"
START_SECONDS = 600


@pytest.fixture(scope="module")
def vllm() -> Path:
    """Where vLLM's packages are."""
    named = os.environ.get("BALLAST_GPU_VLLM")
    if not named or not (Path(named) / "vllm").is_dir():
        pytest.skip("BALLAST_GPU_VLLM names no folder with vLLM's packages")
    return Path(named)


def site() -> Path:
    """The packages that came with the node, the router's among them."""
    return Path(os.environ["BALLAST_GPU_HOME"]) / "site"


class Served:
    """A namespace, and an operator whose engines run this machine's programs; it can be ended and started again."""

    def __init__(self, kube: Kube, operator: OperatorProcess) -> None:
        self.kube, self.operator = kube, operator


@contextmanager
def served(admin: Kube, node: GpuNode, vllm: Path, log: Path) -> Iterator[Served]:
    """Images of the machine's own programs, a namespace and an operator, for as long as the block lasts."""
    environment = {"PYTHONPATH": f"{PROJECT}:{vllm}:{site()}", "USER": "ballast", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    plugins.write(CHECKOUT / "pyproject.toml", site())  # as an image has it
    node.load_host_image(SERVING, [PYTHON, "-m", "ballast_serving"], environment)
    images = {"BALLAST_SERVING_IMAGE": SERVING, "BALLAST_SERVING_GPU_IMAGE": SERVING, "BALLAST_ROUTER_IMAGE": SERVING}
    name = f"s-{secrets.token_hex(3)}"
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    with OperatorProcess(admin.kubeconfig, log, images) as operator:
        yield Served(admin.inside(name), operator)
    print(log.read_text()[-4000:])
    admin.run("delete", "namespace", name, "--wait=false")


def model(folder: Path, layers: int) -> None:
    """Qwen3-30B-A3B with so many of its 48 layers, random weights, a tokenizer of bytes."""
    tiny.write(folder)
    shape = SHAPES["qwen3-30b-a3b"] | {"num_hidden_layers": layers, "vocab_size": tiny.VOCABULARY}
    (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 32768}))


def serving(node: GpuNode, vllm: Path, name: str, **spec: object) -> Object:
    """One engine with the node's GPU, in front of it the usual routers."""
    template = host_template(node)
    folders = {"vllm": vllm, "site": site()}
    template["volumes"] += [{"name": n, "hostPath": {"path": str(path)}} for n, path in folders.items()]
    template["volumeMounts"] += [{"name": n, "mountPath": str(path), "readOnly": True} for n, path in folders.items()]
    base: Object = {
        "model": {"persistentVolumeClaim": {"claimName": "model"}},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "startup": {"timeoutSeconds": START_SECONDS},
        "template": template,
        "router": {"template": template},
    }
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "MoEServing",
        "metadata": {"name": name},
        "spec": base | spec,
    }
