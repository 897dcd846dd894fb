"""The OpenAPI document of a live API server, by the current kubeconfig."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any


def document(*flags: str) -> dict[str, Any]:
    """core/v1 of the server that kubectl, with these flags, talks to. CalledProcessError if there is none."""
    found = _asked("/openapi/v3/api/v1", flags)
    found["info"]["version"] = version(*flags)
    return found


def version(*flags: str) -> str:
    """Version of the server; its OpenAPI document says `unversioned`."""
    return str(_asked("/version", flags)["gitVersion"])


def _asked(path: str, flags: Sequence[str]) -> dict[str, Any]:
    answer = subprocess.run(["kubectl", *flags, "get", "--raw", path], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found
