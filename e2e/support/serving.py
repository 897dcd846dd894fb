"""What scenarios of serving stand on: the example, clients in pods that count every answer, and questions to a pod."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.support.kube import Kube, Object, condition, eventually, is_true

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "moeserving-tiny.yaml"
START_SECONDS = 300  # of one replica, on a machine that does other things too

# Streams completions until it is told to stop, with connections that are kept and used again as real clients do, and
# says once a second how it went so far. An answer that ends without its last line was cut.
CLIENT = """
import asyncio, json, os, signal, time
import aiohttp

URL, MODEL = os.environ["URL"], os.environ["MODEL"]
WORKERS, TOKENS, PAUSE = int(os.environ["WORKERS"]), int(os.environ["TOKENS"]), float(os.environ["PAUSE"])
counts = {"answered": 0, "failed": 0, "cut": 0, "longest": 0.0, "waiting": 0, "errors": []}
stop = asyncio.Event()

def bad(kind, text):
    counts[kind] += 1
    counts["errors"] = counts["errors"][-4:] + [f"{time.strftime('%H:%M:%S')} {text}"[:300]]

async def ask(session, worker):
    body = {"model": MODEL, "prompt": f"client {worker} " * 8, "max_tokens": TOKENS, "stream": True, "ignore_eos": True}
    asked, first, done = time.monotonic(), None, False
    counts["waiting"] += 1
    try:
        async with session.post(f"{URL}/completions", json=body) as answer:
            if answer.status != 200:
                return bad("failed", f"{answer.status} {await answer.text()}")
            async for line in answer.content:
                if first is None:
                    first = time.monotonic() - asked
                    counts["longest"] = max(counts["longest"], first)
                done = done or line.strip() == b"data: [DONE]"
        if done:
            counts["answered"] += 1
        else:
            bad("cut", "the stream ended early")
    except Exception as error:
        bad("failed" if first is None else "cut", f"{type(error).__name__}: {error}")
    finally:
        counts["waiting"] -= 1

async def work(session, worker):
    while not stop.is_set():
        await ask(session, worker)
        await asyncio.sleep(PAUSE)

async def report():
    while True:
        print(json.dumps(counts), flush=True)
        await asyncio.sleep(1)

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    telling = asyncio.create_task(report())
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        await asyncio.gather(*(work(session, worker) for worker in range(WORKERS)))
    telling.cancel()
    print(json.dumps(counts | {"ended": True}), flush=True)

asyncio.run(main())
"""


def moe(name: str = "tiny", **spec: Any) -> Object:
    """The example, with members of its spec replaced."""
    obj: Object = yaml.safe_load(EXAMPLE.read_text())
    return obj | {"metadata": {"name": name}, "spec": obj["spec"] | spec}


def wait_ready(kube: Kube, name: str = "tiny", seconds: float = START_SECONDS) -> Object:
    """The object once it is Ready for its present generation."""

    def holds(obj: Object) -> bool:
        found = condition(obj, "Ready")
        return found.get("status") == "True" and found["observedGeneration"] == obj["metadata"]["generation"]

    return kube.until("moe", name, holds, seconds, "Ready")


def pod_body(name: str, image: str, command: list[str], env: dict[str, str], **spec: Any) -> Object:
    """A pod that may run in a restricted namespace."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    whole = {"restartPolicy": "Never", "securityContext": security, "containers": [container]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "client"}}, "spec": whole}


class Client:
    """A pod that streams completions from a serving, and what it counted."""

    def __init__(self, kube: Kube, name: str) -> None:
        self.kube = kube
        self.name = name

    def counts(self) -> dict[str, Any]:
        lines = self.kube.run("logs", self.name, "--tail=1").splitlines()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {"answered": 0, "failed": 0, "cut": 0}
        return found

    def answered(self, more: int, seconds: float = 120) -> None:
        """Wait until so many more requests were answered."""
        goal = self.counts()["answered"] + more
        eventually(lambda: self.counts()["answered"] >= goal, seconds, lambda: f"no answers: {self.counts()}")

    def end(self) -> dict[str, Any]:
        """Let it finish what it asked for; its last counts."""
        self.kube.run("exec", self.name, "--", "python3", "-c", "import os; os.kill(1, 15)")
        self.kube.until("pod", self.name, lambda pod: pod["status"]["phase"] != "Running", 180, "the end of the client")
        return self.counts()


@contextmanager
def client(
    kube: Kube, image: str, workers: int = 2, tokens: int = 24, pause: float = 2.0, address: str = "", **spec: Any
) -> Iterator[Client]:
    """A client in a pod for as long as the block lasts; image: the router's, which has what it needs; address: of a
    serving in another namespace. The pause leaves two cores time to start a further engine beside those that answer."""
    name = f"client-{int(time.monotonic() * 1000) % 1_000_000}"
    env = {
        "URL": f"http://{address or f'tiny.{kube.namespace}.svc'}:8000/v1",
        "MODEL": "tiny",
        "WORKERS": str(workers),
        "TOKENS": str(tokens),
        "PAUSE": str(pause),
    }
    kube.apply(pod_body(name, image, ["python3", "-c", CLIENT], env, **spec))
    kube.until("pod", name, lambda pod: pod["status"].get("phase") == "Running", 60, "a running client")
    try:
        yield Client(kube, name)
    finally:
        kube.delete("pod", name, "--grace-period=1", "--wait=false")


def shell(kube: Kube, image: str, name: str = "asker") -> None:
    """A pod from which `ask` asks."""
    kube.apply(pod_body(name, image, ["python3", "-c", "import time; time.sleep(86400)"], {}))
    kube.until("pod", name, lambda pod: pod["status"].get("phase") == "Running", 60, "a running pod")


ASK = """
import json, sys, urllib.error, urllib.request
url, body, key = sys.argv[1], sys.argv[2], sys.argv[3]
headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
request = urllib.request.Request(url, body.encode() or None, headers)
try:
    with urllib.request.urlopen(request, timeout=float(sys.argv[4])) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, error.read().decode()]))
except OSError as error:
    print(json.dumps([0, str(error)]))
"""


def ask(
    kube: Kube, url: str, body: Object | None = None, key: str = "", seconds: float = 60, name: str = "asker"
) -> tuple[int, str]:
    """Status and text of an answer; 0 and the error if there was none."""
    text = json.dumps(body) if body else ""
    said = kube.run("exec", name, "--", "python3", "-c", ASK, url, text, key, str(seconds), seconds=seconds + 30)
    status, answer = json.loads(said)
    return int(status), str(answer)


def pods(kube: Kube, role: str = "engine", name: str = "tiny") -> list[Object]:
    """Pods of a role that are not about to go."""
    selector = f"ballast.dev/owner-name={name},app.kubernetes.io/component={role}"
    return [pod for pod in kube.list("pods", selector) if "deletionTimestamp" not in pod["metadata"]]


def serve(kube: Kube, *objects: Object, seconds: float = START_SECONDS) -> None:
    """Apply servings and wait until all of them are Ready."""
    kube.apply(*objects)
    for obj in objects:
        wait_ready(kube, obj["metadata"]["name"], seconds)


ready = is_true("Ready")
