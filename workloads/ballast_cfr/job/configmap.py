"""Handing the result over: one patch of the one ConfigMap that this pod may patch.

Plain HTTPS with the pod's service account; a Kubernetes client would be most of the image.
"""

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ballast_cfr.errors import SolverError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LIMIT = 1 << 20  # bytes of data that a ConfigMap may hold
_WAITS = (0.5, 1, 2, 4, 8, 16)  # seconds between tries; an API server that restarts is back within this


class PatchError(SolverError):
    """The API server did not take the result, however often it was asked."""


@dataclass(frozen=True)
class Server:
    """An API server and how to be let in. `account` holds `token` and `ca.crt`; the token is read anew for every try,
    as it rotates."""

    url: str
    account: Path = SERVICE_ACCOUNT


def in_cluster() -> Server:
    """The API server of the cluster this pod runs in. Raises PatchError outside of one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise PatchError(
            "a result ConfigMap was asked for, but KUBERNETES_SERVICE_HOST is not set, so this is not a pod"
        )
    return Server(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")


def size(data: Mapping[str, str]) -> int:
    """Bytes that count towards the limit."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


def patch(server: Server, namespace: str, name: str, data: Mapping[str, str]) -> None:
    """Set the data of a ConfigMap that exists. Raises PatchError with the server's own words."""
    url = f"{server.url}/api/v1/namespaces/{namespace}/configmaps/{name}"
    body = json.dumps({"data": data}).encode()
    waits = iter(_WAITS)
    while True:
        try:
            _send(server, url, body)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            wait = next(waits, None)
            if wait is None:
                raise PatchError(f"ConfigMap {namespace}/{name} could not be patched: {_words(error)}") from error
            time.sleep(wait)
        else:
            return


def _send(server: Server, url: str, body: bytes) -> None:
    request = urllib.request.Request(
        url,
        data=body,
        method="PATCH",
        headers={
            "Authorization": f"Bearer {(server.account / 'token').read_text().strip()}",
            "Content-Type": "application/merge-patch+json",
            "Accept": "application/json",
        },
    )
    authority = server.account / "ca.crt"
    context = ssl.create_default_context(cafile=str(authority)) if url.startswith("https:") else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    with opener.open(request, timeout=10) as answer:
        answer.read()


def _words(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        try:
            return f"{error.code} {json.loads(error.read())['message']}"
        except (ValueError, KeyError):
            return f"{error.code} {error.reason}"
    return str(getattr(error, "reason", error))
