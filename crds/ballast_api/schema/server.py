"""The OpenAPI document of a live API server, by the current kubeconfig."""

import json
import subprocess
from typing import Any


def document() -> dict[str, Any]:
    """core/v1 of the server that kubectl talks to. CalledProcessError, with kubectl's words, if there is none."""
    answer = subprocess.run(["kubectl", "get", "--raw", "/openapi/v3/api/v1"], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(answer.stdout)
    found["info"]["version"] = version()
    return found


def version() -> str:
    """Version of the server; its OpenAPI document says `unversioned`."""
    answer = subprocess.run(["kubectl", "get", "--raw", "/version"], check=True, stdout=subprocess.PIPE)
    return str(json.loads(answer.stdout)["gitVersion"])
