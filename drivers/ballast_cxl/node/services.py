"""The gRPC services that kubelet calls, over unix sockets in its folders.

The service of devices is up before the one that registers it, and what a dead plugin left of a socket is removed first;
both sockets go on SIGTERM, so that kubelet knows at once. Names of sockets carry the pod's uid: two plugins run side by
side during an update, and kubelet prefers the later one.
"""

import hashlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from ballast_cxl.host import HostError
from ballast_cxl.names import DRIVER
from ballast_cxl.node.attachments import EXPECTED
from ballast_cxl.node.checkpoint import CheckpointError, Entry
from ballast_cxl.node.claims import Refused
from ballast_cxl.node.health import DeviceHealth, Health
from ballast_cxl.node.judge import NotYet
from ballast_cxl.node.prepare import Preparer
from ballast_cxl.node.protos import kubelet_pb2 as pb

log = logging.getLogger(__name__)

REGISTRATION = "pluginregistration.Registration"
DRA = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
HEALTH = ("v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth")
"""Kubelet 1.36 calls the first, later ones the second; the messages are the same."""
SUPPORTED = ("v1.DRAPlugin", *HEALTH)
"""As registered: DRA by a name that is not the one on the wire."""
SOCKET_PATH_BYTES = 107
_HEALTH_SECONDS = 30
_FAILURES = (Refused, NotYet, HostError, CheckpointError, ValueError, *EXPECTED)


class Services:
    """Both servers of one plugin. folder: its own; registry: kubelet's; instance: tells this plugin from another."""

    def __init__(self, preparer: Preparer, health: Health, folder: Path, registry: Path, instance: str) -> None:
        self._preparer, self._health = preparer, health
        middle = f"-{instance}" if instance else ""
        self.endpoint = short(folder, f"dra{middle}.sock")
        self.registration = short(registry, f"{DRIVER}{middle}-reg.sock")
        self.registered = ""  # what kubelet said last: empty until it did
        self._servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        await self._serve(self.endpoint, [self._dra(), *map(self._watching, HEALTH)])
        await self._serve(self.registration, [self._registering()])

    async def stop(self) -> None:
        """Registration first, so that kubelet makes no further call; then let calls end."""
        for server in reversed(self._servers):
            await server.stop(grace=5)
        for path in (self.registration, self.endpoint):
            path.unlink(missing_ok=True)

    async def _serve(self, path: Path, handlers: list[grpc.GenericRpcHandler]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(handlers)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        self._servers.append(server)

    # -- what kubelet calls

    async def info(self, _: pb.InfoRequest, __: Any) -> pb.PluginInfo:
        return pb.PluginInfo(type="DRAPlugin", name=DRIVER, endpoint=str(self.endpoint), supported_versions=SUPPORTED)

    async def told(self, request: pb.RegistrationStatus, _: Any) -> pb.RegistrationStatusResponse:
        self.registered = "yes" if request.plugin_registered else request.error
        level = logging.INFO if request.plugin_registered else logging.ERROR
        log.log(level, "kubelet registered %s: %s", self.endpoint.name, self.registered)
        return pb.RegistrationStatusResponse()

    async def prepare(self, request: pb.NodePrepareResourcesRequest, _: Any) -> pb.NodePrepareResourcesResponse:
        """Every claim has its answer, an error where it is one."""
        answer = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                entry = await self._preparer.prepare(claim.namespace, claim.name, claim.uid)
                answer.claims[claim.uid].devices.extend(devices(entry))
            except _FAILURES as error:
                log.warning("claim %s/%s not prepared: %s", claim.namespace, claim.name, error)
                answer.claims[claim.uid].error = str(error) or type(error).__name__
        return answer

    async def unprepare(self, request: pb.NodeUnprepareResourcesRequest, _: Any) -> pb.NodeUnprepareResourcesResponse:
        answer = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
            try:
                self._preparer.unprepare(claim.uid)
            except _FAILURES as error:
                log.warning("claim %s/%s not unprepared: %s", claim.namespace, claim.name, error)
                answer.claims[claim.uid].error = str(error) or type(error).__name__
        return answer

    async def watch(self, _: pb.NodeWatchResourcesRequest, __: Any) -> AsyncIterator[Any]:
        async for moment, found in self._health.follow():
            yield pb.NodeWatchResourcesResponse(devices=[_health(device, moment) for device in found])

    # -- as gRPC wants it

    def _dra(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            DRA,
            {
                "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
                    self.prepare,
                    pb.NodePrepareResourcesRequest.FromString,
                    pb.NodePrepareResourcesResponse.SerializeToString,
                ),
                "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
                    self.unprepare,
                    pb.NodeUnprepareResourcesRequest.FromString,
                    pb.NodeUnprepareResourcesResponse.SerializeToString,
                ),
            },
        )

    def _watching(self, service: str) -> grpc.GenericRpcHandler:
        method = grpc.unary_stream_rpc_method_handler(
            self.watch, pb.NodeWatchResourcesRequest.FromString, pb.NodeWatchResourcesResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(service, {"NodeWatchResources": method})

    def _registering(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            REGISTRATION,
            {
                "GetInfo": grpc.unary_unary_rpc_method_handler(
                    self.info, pb.InfoRequest.FromString, pb.PluginInfo.SerializeToString
                ),
                "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(
                    self.told, pb.RegistrationStatus.FromString, pb.RegistrationStatusResponse.SerializeToString
                ),
            },
        )


def devices(entry: Entry) -> list[pb.Device]:
    """A prepared claim as kubelet is told of it."""
    return [
        pb.Device(
            request_names=[use.request],
            pool_name=use.pool,
            device_name=use.device,
            cdi_device_ids=[use.share.qualified],
            share_id=use.share_id,
        )
        for use in entry.uses
    ]


def short(folder: Path, name: str) -> Path:
    """A socket's path, hashed where it would be longer than the kernel takes."""
    path = folder / name
    if len(str(path).encode()) <= SOCKET_PATH_BYTES:
        return path
    return (
        folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}{'-reg' if name.endswith('-reg.sock') else ''}.sock"
    )


def _health(device: DeviceHealth, moment: int) -> pb.DeviceHealth:
    return pb.DeviceHealth(
        device=pb.DeviceIdentifier(pool_name=device.pool, device_name=device.device),
        health=pb.UNHEALTHY if device.trouble else pb.HEALTHY,
        last_updated_time=moment,
        health_check_timeout_seconds=_HEALTH_SECONDS,
        message=device.trouble[:1024],
    )
