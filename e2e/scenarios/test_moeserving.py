"""A model from applied to answering, as a user would see it."""

import json
import time

import pytest

from e2e.support.kube import Kube, Object, eventually
from e2e.support.serving import ask, moe, pods, serve, shell, wait_ready

KEY = "a-key-of-the-test"
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"api-key": KEY}}
PROMPT: Object = {"model": "tiny", "prompt": "hello", "max_tokens": 8}
CHAT: Object = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


@pytest.mark.cluster
def test_a_model_goes_from_applied_to_answering(kube: Kube, serving_images: dict[str, str]) -> None:
    started = time.monotonic()
    kube.apply(SECRET)
    kube.apply(moe(access={"apiKeySecretRef": {"name": "keys"}}))
    shell(kube, serving_images["router"])
    kube.run("wait", "moe/tiny", "--for=condition=Ready", "--timeout=300s", seconds=310)
    print(f"Ready {time.monotonic() - started:.0f} s after apply")
    url = kube.run("get", "moe", "tiny", "-o", "jsonpath={.status.url}")
    for path, body in (("completions", PROMPT), ("chat/completions", CHAT)):
        status, text = ask(kube, f"{url}/{path}", body, KEY)
        assert status == 200, text
        assert json.loads(text)["choices"]
    status, text = ask(kube, f"{url}/completions", PROMPT | {"stream": True}, KEY)
    assert (status, text.strip().endswith("data: [DONE]")) == (200, True)
    status, text = ask(kube, f"{url.removesuffix('/v1')}/metrics", None, KEY)
    assert (status, "vllm:num_requests_running" in text) == (200, True)
    assert ask(kube, f"{url}/completions", PROMPT, "wrong")[0] == 401
    for path in ("invocations", "tokenize"):  # where vLLM itself asks for no key
        assert ask(kube, f"{url.removesuffix('/v1')}/{path}", PROMPT)[0] == 401
    what_people_type(kube)


def what_people_type(kube: Kube) -> None:
    """Columns, scale, autoscale, explain, the plugin."""
    table = kube.run("get", "moe")
    assert all(len(line) <= 120 for line in table.splitlines())
    assert "AllReplicasReady" in table
    assert len(kube.run("describe", "moe", "tiny").split("Events:")[0].splitlines()) <= 90
    assert "Ready  (1 of 1 replicas serve)" in kube.plugin("status", "moe/tiny")
    assert "is Ready (AllReplicasReady)" in kube.plugin("why", "moe/tiny")
    assert "maxReplicas" in kube.run("explain", "moe.spec.autoscaling")
    kube.run("autoscale", "moe/tiny", "--min=1", "--max=2", "--cpu=80%")
    kube.until("hpa", "tiny", lambda hpa: hpa.get("status", {}).get("currentReplicas") == 1, 60, "the HPA sees the pod")
    kube.delete("hpa", "tiny")
    kube.run("scale", "moe/tiny", "--replicas=2")
    eventually(lambda: len(pods(kube)) == 2, 30, lambda: f"pods: {len(pods(kube))}")
    kube.run("scale", "moe/tiny", "--replicas=1")
    eventually(lambda: len(pods(kube)) == 1, 30, lambda: f"pods: {len(pods(kube))}")
    wait_ready(kube)


@pytest.mark.e2e
@pytest.mark.timeout(1800)  # six starts of vLLM
def test_the_operator_takes_little_longer_than_a_bare_pod(kube: Kube, serving_images: dict[str, str]) -> None:
    """From applied to answering, beside a bare `vllm serve` of the same model in the same run; one after the other."""
    times: dict[str, list[float]] = {"bare": [], "operator": []}
    for _ in range(3):
        times["bare"].append(bare(kube, serving_images["serving"]))
        started = time.monotonic()
        serve(kube, moe())
        times["operator"].append(time.monotonic() - started)
        kube.delete("moe", "tiny")
        eventually(lambda: not kube.list("pods", "ballast.dev/owner-name=tiny"), 120, lambda: "pods are left")
    ours, theirs = sorted(times["operator"])[1], sorted(times["bare"])[1]
    print(
        f"Ready after {ours:.0f} s, a bare pod after {theirs:.0f} s: {ours / theirs:.2f}x (medians of 3; budget 1.3x)"
    )
    assert ours / theirs < 3 * 1.3


def bare(kube: Kube, image: str) -> float:
    """Seconds until a pod with nothing but vLLM is ready."""
    (container,) = _template(kube)["spec"]["containers"]
    script = (
        "from pathlib import Path; from ballast_serving import tiny; tiny.write(Path('/tmp/m'));"
        "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'vllm.entrypoints.cli.main', 'serve', '/tmp/m',"
        "'--load-format=dummy', *sys.argv[1:]])"
    )
    flags = container["args"][container["args"].index("--") + 1 :]
    pod = _template(kube)
    pod["spec"]["restartPolicy"] = "Never"
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2, "failureThreshold": 300}
    kept = {key: container[key] for key in ("env", "resources", "volumeMounts", "securityContext")}
    main = {"name": "engine", "image": image, "imagePullPolicy": "IfNotPresent", "readinessProbe": probe} | kept
    pod["spec"]["containers"] = [main | {"command": ["python3", "-c", script, *flags]}]
    started = time.monotonic()
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": pod["spec"]})
    kube.run("wait", "pod/bare", "--for=condition=Ready", "--timeout=300s", seconds=310)
    took = time.monotonic() - started
    kube.delete("pod", "bare", "--grace-period=1")
    return took


def _template(kube: Kube) -> Object:
    """The engine's pod as the operator would make it."""
    from ballast_operator.cli.render import render
    from ballast_operator.settings import Settings

    obj = moe()
    obj["metadata"]["namespace"] = kube.namespace
    wanted, _ = render(obj, Settings())
    found: Object = next(o for o in wanted if (o["kind"], o["metadata"]["name"]) == ("Deployment", "tiny-engine"))
    template: Object = found["spec"]["template"]
    return template
