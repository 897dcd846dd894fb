"""A MoEServing on a real GPU: vLLM with a model of Qwen3-30B-A3B's shape, through the router, replaced under a load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.gpu.node import GpuNode
from e2e.gpu.scenarios.conftest import Volume
from e2e.gpu.scenarios.engines import START_SECONDS, Served, model, served, serving, vllm
from e2e.support.kube import Kube, Object, eventually
from e2e.support.serving import CLIENT, pods, wait_ready

__all__ = ["vllm"]  # a fixture

pytestmark = pytest.mark.gpu
NAME = "qwen"


@pytest.fixture
def space(gpu_admin: Kube, node: GpuNode, vllm: Path, tmp_path: Path) -> Iterator[Served]:
    with served(gpu_admin, node, vllm, tmp_path / "log") as found:
        yield found


@pytest.fixture
def kube(space: Served) -> Kube:
    return space.kube


def qwen(node: GpuNode, vllm: Path, sequences: int) -> Object:
    engine = {"maxModelLen": 8192, "maxNumSeqs": sequences, "extraArgs": {"load-format": "dummy"}}
    return serving(node, vllm, NAME, engine=engine, rollout={"maxSurge": 0, "maxUnavailable": 1})


class Load:
    """Streams from this machine, by a router's own address, until it is ended."""

    def __init__(self, url: str, folder: Path) -> None:
        settings = {"URL": url, "MODEL": NAME, "WORKERS": "4", "TOKENS": "64", "PAUSE": "0.1"}
        self._out = folder / "client.log"
        with self._out.open("wb") as out:
            self._process = subprocess.Popen([sys.executable, "-c", CLIENT], env={**os.environ, **settings}, stdout=out)

    def counts(self) -> dict[str, float]:
        lines = self._out.read_text().splitlines()
        found: dict[str, float] = json.loads(lines[-1]) if lines else {"answered": 0}
        return found

    def answered(self, more: int, seconds: float) -> None:
        goal = self.counts()["answered"] + more
        eventually(lambda: self.counts()["answered"] >= goal, seconds, lambda: f"no answers: {self.counts()}")

    def end(self) -> dict[str, float]:
        self._process.terminate()
        self._process.wait(120)
        return self.counts()


def test_a_single_replica_is_replaced_under_a_load_and_every_request_is_answered(
    space: Served, kube: Kube, node: GpuNode, vllm: Path, volume: Volume, tmp_path: Path
) -> None:
    model(volume("model"), layers=48)
    applied = time.monotonic()
    kube.apply(qwen(node, vllm, sequences=64))
    wait_ready(kube, NAME, START_SECONDS + 60)
    print(f"Ready {time.monotonic() - applied:.0f} s after it was applied")
    (engine,) = pods(kube, name=NAME)
    with urllib.request.urlopen(f"http://{engine['status']['podIP']}:8000/metrics", timeout=10) as answer:
        assert b"vllm:num_requests_running" in answer.read()
    router = pods(kube, "router", name=NAME)[0]["status"]["podIP"]
    load = Load(f"http://{router}:8000/v1", tmp_path)
    try:
        load.answered(50, 120)
        kube.apply(qwen(node, vllm, sequences=48))
        space.operator.kill()
        space.operator.start()
        wait_ready(kube, NAME, START_SECONDS + 60)
        load.answered(50, 120)
    finally:
        counts = load.end()
    print(f"one replica replaced, the operator killed meanwhile: {counts}")
    assert pods(kube, name=NAME)[0]["metadata"]["uid"] != engine["metadata"]["uid"]
    assert (counts["failed"], counts["cut"]) == (0, 0)
    assert counts["longest"] > 5, "nobody was held, so this proves nothing"
