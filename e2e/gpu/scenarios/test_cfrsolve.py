"""CFRSolve on a real GPU, through the real scheduler, kubelet and device plugin."""

from __future__ import annotations

import json
import time

import pytest

from e2e.gpu.node import GpuNode
from e2e.gpu.scenarios.conftest import Volume, host_template
from e2e.support.kube import Kube, Object, condition, is_true, solve

pytestmark = pytest.mark.gpu


def complete(kube: Kube, name: str, seconds: float = 120) -> Object:
    """The object once it is complete; fails at once with its words if it failed."""
    done = kube.until("cfr", name, lambda o: is_true("Complete")(o) or is_true("Failed")(o), seconds, "Complete")
    assert is_true("Complete")(done), condition(done, "Failed")
    return done


def outcome(kube: Kube, name: str) -> Object:
    """What the solver's last pod said at its end."""
    pods = kube.list("pods", f"ballast.dev/owner-name={name}")
    ended = [p["status"]["containerStatuses"][0]["state"].get("terminated", {}) for p in pods]
    said: Object = json.loads(next(end["message"] for end in ended if end.get("exitCode") == 0))
    return said


@pytest.mark.parametrize(
    ("game", "iterations"),
    [({"name": "leduc"}, 1000), ({"name": "liars-dice", "parameters": {"faces": "4"}}, 1000)],
    ids=["leduc", "liars-dice"],
)
def test_a_gpu_and_a_cpu_give_the_same_strategy_to_the_last_bit(
    kube: Kube, node: GpuNode, volume: Volume, game: Object, iterations: int
) -> None:
    said = {}
    for device in ("CUDA", "CPU"):
        name = device.lower()
        folder = volume(name)
        kube.apply(
            solve(
                name,
                game={"builtin": game},
                stop={"maxIterations": iterations},
                device=device,
                checkpoint={"ephemeral": {}},
                output={"persistentVolumeClaim": {"claimName": name, "path": "strategy.csv"}},
                template=host_template(node),
            )
        )
        complete(kube, name)
        said[device] = (outcome(kube, name)["strategySha256"], (folder / "strategy.csv").read_bytes())
        print(device, outcome(kube, name))
    assert said["CUDA"] == said["CPU"]


def test_a_solve_evicted_from_its_gpu_goes_on_where_it_was(kube: Kube, node: GpuNode, volume: Volume) -> None:
    volume("state")
    kube.apply(
        solve(
            "liar",
            game={"builtin": {"name": "liars-dice"}},
            stop={"maxIterations": 400_000},
            device="CUDA",
            backoffLimit=0,
            checkpoint={"persistentVolumeClaim": {"claimName": "state", "path": "liar"}, "intervalSeconds": 1},
            template=host_template(node),
        )
    )
    kube.until("cfr", "liar", lambda o: o.get("status", {}).get("iteration", 0) > 0, 90, "progress")
    time.sleep(2)
    pod = kube.list("pods", "ballast.dev/owner-name=liar")[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": kube.namespace}}
    kube.run(
        "create",
        "--raw",
        f"/api/v1/namespaces/{kube.namespace}/pods/{pod}/eviction",
        "-f",
        "-",
        text=json.dumps(eviction),
    )
    done = complete(kube, "liar")
    assert done["status"]["iteration"] == 400_000
    pods = kube.list("pods", "ballast.dev/owner-name=liar")
    logs = "".join(kube.run("logs", p["metadata"]["name"]) for p in pods if p["metadata"]["name"] != pod)
    assert "resuming at iteration" in logs


def test_a_batch_on_a_gpu_gives_what_the_cpu_gives(kube: Kube, node: GpuNode, volume: Volume) -> None:
    lines = [{"name": f"b{number}", "ranges": [{"Ja:": number / 8}, {}]} for number in range(8)]
    data = {"b.jsonl": "\n".join(map(json.dumps, lines))}
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "many"}, "data": data})
    folders = {}
    for device in ("CUDA", "CPU"):
        name = f"batch-{device.lower()}"
        folders[device] = volume(name)
        kube.apply(
            solve(
                name,
                batch={"configMapKeyRef": {"name": "many", "key": "b.jsonl"}},
                stop={"maxIterations": 500},
                device=device,
                checkpoint={"ephemeral": {}},
                output={"persistentVolumeClaim": {"claimName": name, "path": "all"}},
                template=host_template(node),
            )
        )
        complete(kube, name)
    for line in lines:
        gpu, cpu = ((folder / "all" / f"{line['name']}.csv").read_bytes() for folder in folders.values())
        assert gpu == cpu, line["name"]
