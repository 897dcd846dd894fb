"""LeaderWorkerSet: groups of pods that come and go together. What its own release installs, webhooks too."""

from __future__ import annotations

import json

import yaml

from e2e.cluster import build, shell, static_images, tools
from e2e.cluster.addons import Addon, Object
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.layout import Layout
from e2e.cluster.versions import LWS

NAME = "leader-worker-set"
NAMESPACE = "lws-system"


def objects(_layout: Layout) -> list[Object]:
    """The manifests of the release, out of the module that the controller is built from."""
    text = shell.run(tools.kubectl(), "kustomize", build.sources(LWS) / "config" / "default")
    found: list[Object] = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    for obj in found:
        if obj["kind"] == "Deployment":
            _fit(obj)
    return found


def _fit(deployment: Object) -> None:
    """One small pod of our image: the release asks for two with a processor each, and a node here has one to give."""
    deployment["spec"]["replicas"] = 1
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    container |= {
        "image": static_images.name(LWS),
        "imagePullPolicy": "IfNotPresent",
        "command": [f"/{LWS.name}"],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }


def ready(kubectl: Kubectl) -> bool:
    """Whether its webhooks answer: they check a group, and fill in what it leaves out."""
    container = {"name": "main", "image": "none"}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "probe", "namespace": NAMESPACE},
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [container]}}}},
    }
    asked = kubectl.attempt("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(group))
    return asked.returncode == 0 and "networkConfig" in json.loads(asked.stdout)["spec"]


ADDON = Addon(NAME, LWS, objects, ready, namespace=NAMESPACE)
