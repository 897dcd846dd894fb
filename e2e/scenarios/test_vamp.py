"""A serving that asks for VAMP where it cannot work: it serves all the same, and says why in every place people look."""

import time

import pytest

from e2e.support.kube import Kube, Object, condition
from e2e.support.serving import ask, moe, pods, shell, wait_ready

VAMP: Object = {"maxOffload": "64Mi"}
ENGINE: Object = {"maxModelLen": 2048, "maxNumSeqs": 4, "extraArgs": {"enforce-eager": "true"}}
PROMPT: Object = {"model": "tiny", "prompt": "hello", "max_tokens": 8}


def off(obj: Object) -> bool:
    found = condition(obj, "VampDisabled")
    return (found.get("status"), found.get("reason")) == ("True", "NoCuda")


@pytest.mark.e2e
def test_vamp_without_a_gpu_serves_and_says_why(kube: Kube, serving_images: dict[str, str]) -> None:
    kube.apply(moe(vamp=VAMP, engine=ENGINE))
    shell(kube, serving_images["router"])
    wait_ready(kube)
    started = time.monotonic()
    found = kube.until("moe", "tiny", off, 60, "VampDisabled with reason NoCuda")
    print(f"VampDisabled {time.monotonic() - started:.1f} s after Ready: {condition(found, 'VampDisabled')['message']}")
    assert condition(found, "VampActive")["status"] == "False"
    assert condition(found, "Ready")["status"] == "True"
    url = found["status"]["url"]
    status, text = ask(kube, f"{url}/completions", PROMPT)
    assert status == 200, text
    status, page = ask(kube, f"http://{pods(kube)[0]['status']['podIP']}:8080/metrics")
    assert status == 200
    assert "vamp:active 0" in page
    assert 'reason="NoCuda"' in page
    what_people_type(kube)
    and_back(kube)


def what_people_type(kube: Kube) -> None:
    """The columns, the plugin, Events, and the pod's own memory."""
    assert "False" in kube.run("get", "moe", "tiny", "-o", "wide")
    assert "is Ready (NoCuda)" in kube.plugin("why", "moe/tiny")
    assert "VampDisabled=True NoCuda" in kube.plugin("status", "moe/tiny")
    assert "NoCuda" in kube.run("get", "events")
    (pod,) = pods(kube)
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"]["memory"] == "1600Mi"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def and_back(kube: Kube) -> None:
    """Without the block a new revision rolls out, and nothing is said of VAMP any more."""
    kube.apply(moe(engine=ENGINE))
    wait_ready(kube)
    kube.until("moe", "tiny", lambda o: not condition(o, "VampDisabled") and not condition(o, "VampActive"), 30)
    (pod,) = pods(kube)
    names = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
    assert not any(name.startswith("VAMP_") for name in names)


@pytest.mark.e2e
def test_a_profile_that_is_not_there_is_named_and_awaited(kube: Kube, serving_images: dict[str, str]) -> None:
    kube.apply(moe(engine=ENGINE, vamp=VAMP | {"profileConfigMapRef": {"name": "hot", "key": "tiny.json"}}))
    found = kube.until(
        "moe", "tiny", lambda o: condition(o, "Ready").get("reason") == "DependencyMissing", 60, "DependencyMissing"
    )
    assert "hot, named by vamp.profileConfigMapRef" in condition(found, "Ready")["message"]
    kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hot"}, "data": {"tiny.json": "{}"}})
    wait_ready(kube)
