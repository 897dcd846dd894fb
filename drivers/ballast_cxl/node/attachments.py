"""The CXLAttachments of this node as the API server last showed them, and a way to wait for a change."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp

from ballast_cxl.names import FABRIC_FINALIZER, NODE_FINALIZER, attachment_name
from ballast_cxl.resources import CXL_ATTACHMENT
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.objects import Object

log = logging.getLogger(__name__)

MANAGER = "ballast-node"
"""Field manager of `status.node`; the rest of an attachment's status is the controller's."""
AGAIN_SECONDS = 1.0
EXPECTED = (ApiError, aiohttp.ClientError, TimeoutError, OSError)


class Attachments:
    """Kept by a watch on this node's objects only. Whoever waits is woken by every change."""

    def __init__(self, client: Client, node: str) -> None:
        self._client, self._node = client, node
        self._objects: dict[str, Object] = {}
        self._changed = asyncio.Event()
        self.synced = asyncio.Event()

    def all(self) -> list[Object]:
        return list(self._objects.values())

    def of(self, region_uid: str) -> Object | None:
        """This node's attachment of a region."""
        return self._objects.get(attachment_name(region_uid, self._node))

    async def run(self) -> None:
        """List and watch for ever; the server's absence is waited out."""
        while True:
            try:
                await self._follow()
            except EXPECTED as error:
                log.warning("watch of attachments interrupted: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def change(self, seconds: float) -> None:
        """Return at the next change, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def ask(self, region: Object) -> Object:
        """The wish for a region on this node: made, or found. region: namespace, name and uid."""
        name = attachment_name(region["uid"], self._node)
        body = {
            "apiVersion": CXL_ATTACHMENT.api_version,
            "kind": CXL_ATTACHMENT.kind,
            "metadata": {"name": name, "finalizers": [FABRIC_FINALIZER, NODE_FINALIZER]},
            "spec": {"region": region, "node": self._node},
        }
        try:
            made = await self._client.create(body)
        except ApiError as error:
            if not error.conflict:
                raise
            found = await self._client.get(CXL_ATTACHMENT, None, name)
            if found is None:  # gone between the two calls
                raise
            made = found
        self._put(made)
        return made

    async def release(self, attachment: Object) -> None:
        """Wish the region away from this node."""
        await self._client.delete(CXL_ATTACHMENT, attachment)

    async def report(self, attachment: Object, **said: Any) -> None:
        """Write what the node says, if that is news. An attachment that is gone needs no report."""
        wanted = {name: value for name, value in said.items() if value is not None}
        if attachment.get("status", {}).get("node") == wanted:
            return
        body = {
            "apiVersion": CXL_ATTACHMENT.api_version,
            "kind": CXL_ATTACHMENT.kind,
            "metadata": {"name": attachment["metadata"]["name"]},
            "status": {"node": wanted},
        }
        try:
            self._put(await self._client.apply(body, subresource="status", manager=MANAGER))
        except ApiError as error:
            if not error.not_found:
                raise

    async def hold(self, attachment: Object) -> None:
        """Put our finalizer on, so that the fabric waits until the device is down on this node."""
        await self._finalize(attachment, lambda names: names if NODE_FINALIZER in names else [*names, NODE_FINALIZER])

    async def let_go(self, attachment: Object) -> None:
        """Take our finalizer off: the device is down on this node."""
        await self._finalize(attachment, lambda names: [name for name in names if name != NODE_FINALIZER])

    async def _finalize(self, attachment: Object, change: Callable[[list[str]], list[str]]) -> None:
        """Change the finalizers of this very object by compare-and-swap; nothing to do if it is gone."""
        while True:
            found = await self._client.get(CXL_ATTACHMENT, None, attachment["metadata"]["name"])
            if found is None or found["metadata"]["uid"] != attachment["metadata"]["uid"]:
                return
            before = found["metadata"].get("finalizers", [])
            if change(before) == before:
                return
            found["metadata"]["finalizers"] = change(before)
            try:
                self._put(await self._client.update(CXL_ATTACHMENT, found))
                return
            except ApiError as error:
                if error.not_found:
                    return
                if not error.conflict:
                    raise

    async def _follow(self) -> None:
        fields = f"spec.node={self._node}"
        self._objects = {obj["metadata"]["name"]: obj for obj in await self._client.list(CXL_ATTACHMENT, fields=fields)}
        self.synced.set()
        self.ring()
        async for kind, obj in self._client.watch(CXL_ATTACHMENT, fields):
            if kind == "DELETED":
                self._objects.pop(obj["metadata"]["name"], None)
                self.ring()
            else:
                self._put(obj)

    def _put(self, obj: Object) -> None:
        known = self._objects.get(obj["metadata"]["name"])
        if known is None or known["metadata"]["uid"] != obj["metadata"]["uid"] or _version(known) < _version(obj):
            self._objects[obj["metadata"]["name"]] = obj
            self.ring()

    def ring(self) -> None:
        """Wake whoever waits: something changed."""
        self._changed.set()
        self._changed = asyncio.Event()


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
