"""HTTP to the API server: get, list, apply, delete, on plain dictionaries.

Stands on the Kubernetes client's configuration, credentials and connection pool, without its typed models: they would
drop fields that this version of the client does not know. Every write names its field manager.
"""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from ballast_operator.cluster.errors import ApiError
from ballast_operator.cluster.faults import CrashAfter
from ballast_operator.objects import Object
from ballast_operator.resources import Resource, resource_of


def proxy_for(address: str) -> str | None:
    """The environment's proxy for an address, or None."""
    url = urlsplit(address)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


class NoCredentials(Exception):
    """Neither a service account nor a kubeconfig that works."""


MANAGER = "ballast"
STATUS_MANAGER = "ballast-status"
SCALE_MANAGER = "ballast-autoscaler"
REQUEST_SECONDS = 15
WATCH_SECONDS = 60
PAGE = 500


class Client:
    """The API server, as one set of credentials sees it."""

    def __init__(self, api: ApiClient, namespace: str = "default", faults: CrashAfter | None = None) -> None:
        self._api = api
        self.namespace = namespace  # of the current context; `default` in a pod
        self.faults = faults or CrashAfter()

    @classmethod
    async def connect(cls, *, user_agent: str = "ballast-operator") -> "Client":
        """With the pod's service account, else with KUBECONFIG. Raises NoCredentials when there is neither."""
        configuration = Configuration()
        configuration.connection_pool_maxsize = 50
        namespace = "default"
        try:
            load_incluster_config(client_configuration=configuration)
        except ConfigException:
            try:
                await load_kube_config(client_configuration=configuration)
                _, current = list_kube_config_contexts()
            except ConfigException as error:
                raise NoCredentials(f"no cluster to talk to: {error}; set KUBECONFIG") from error
            namespace = current["context"].get("namespace") or namespace
        configuration.proxy = configuration.proxy or proxy_for(configuration.host)
        configuration.client_session_kwargs = {"trust_env": False}  # read for each request, in a thread, otherwise
        api = ApiClient(configuration)
        api.user_agent = user_agent
        return cls(api, namespace)

    async def close(self) -> None:
        await self._api.close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """The object as the server has it now, or None."""
        try:
            found: Object = await self._request("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return found

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """All objects of a namespace, or of all of them, in pages; a consistent read, never from a stale replica."""
        items: list[Object] = []
        query: dict[str, Any] = {"limit": PAGE, "labelSelector": labels, "fieldSelector": fields}
        query = {name: value for name, value in query.items() if value}
        while True:
            answer = await self._request("GET", resource.path(namespace), query)
            for item in answer["items"]:  # items of a list do not say what they are
                items.append({"apiVersion": resource.api_version, "kind": resource.kind} | item)
            follow = answer["metadata"].get("continue")
            if not follow:
                return items
            query["continue"] = follow

    async def watch(self, resource: Resource, fields: str = "") -> AsyncIterator[tuple[str, Object]]:
        """What is there now, each as `ADDED`, then changes as (type, object), for about a minute.

        Deletions before the start are not told: list first, and list again when it ends. Raises ApiError.
        """
        query: dict[str, Any] = {"watch": "true", "timeoutSeconds": WATCH_SECONDS}
        if fields:
            query["fieldSelector"] = fields
        timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + REQUEST_SECONDS, sock_connect=REQUEST_SECONDS)
        response = await self._send("GET", resource.path(), query, timeout=timeout)
        if response.status != 200:
            raise ApiError.read(response.status, await response.read(), response.reason or "")
        buffer = b""
        try:
            async for chunk in response.response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiError.read(
                            int(event["object"].get("code", 500)), json.dumps(event["object"]).encode(), ""
                        )
                    yield event["type"], event["object"]
        finally:
            response.response.close()

    async def apply(
        self, obj: Object, *, subresource: str | None = None, manager: str = MANAGER, dry_run: bool = False
    ) -> Object:
        """Server-side apply, taking over fields that somebody else had set; returns the object as stored."""
        meta = obj["metadata"]
        path = resource_of(obj).path(meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        return await self._request("PATCH", path, query, obj, "application/apply-patch+yaml")

    async def create(self, obj: Object, *, dry_run: bool = False) -> Object:
        """Make an object that must not exist yet."""
        path = resource_of(obj).path(obj["metadata"].get("namespace"))
        query = {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})
        return await self._request("POST", path, query, obj)

    async def update(self, resource: Resource, obj: Object, subresource: str | None = None) -> Object:
        """Replace an object or a subresource; its resource version must be the present one, else ApiError.conflict."""
        path = resource.path(obj["metadata"].get("namespace"), obj["metadata"]["name"], subresource)
        return await self._request("PUT", path, {"fieldManager": MANAGER}, obj)

    async def scale(self, resource: Resource, obj: Object, replicas: int) -> None:
        """Set an object's replicas through /scale, if it is as we saw it; ApiError.conflict if it changed since."""
        meta = obj["metadata"]
        path = resource.path(meta["namespace"], meta["name"], "scale")
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "spec": {"replicas": replicas}}
        await self._request("PATCH", path, {"fieldManager": SCALE_MANAGER}, body, "application/merge-patch+json")

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server has this resource: its CRD may not be installed."""
        try:
            found = await self._request("GET", f"/{'apis' if resource.group else 'api'}/{resource.api_version}")
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return any(each["name"] == resource.plural for each in found.get("resources", []))

    async def delete(self, resource: Resource, obj: Object, *, propagation: str = "Background") -> bool:
        """Delete exactly this object (by uid, so never a namesake made since); False if it is gone already."""
        meta = obj["metadata"]
        body = {"propagationPolicy": propagation, "preconditions": {"uid": meta["uid"]}}
        try:
            await self._request("DELETE", resource.path(meta.get("namespace"), meta["name"]), None, body)
        except ApiError as error:
            if error.not_found or error.conflict:
                return False
            raise
        return True

    async def _request(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        response = await self._send(method, path, query, body, content_type, timeout)
        data = await response.read()
        if not 200 <= response.status < 300:
            raise ApiError.read(response.status, data, response.reason or "")
        if method != "GET" and "dryRun" not in (query or {}) and "/leases" not in path:
            self.faults.wrote()
        answer: Object = json.loads(data) if data else {}
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> Any:
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": self._api.user_agent}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._api.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        return await self._api.rest_client.request(method, url, headers=headers, body=body, _request_timeout=timeout)
