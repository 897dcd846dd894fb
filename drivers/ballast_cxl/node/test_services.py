"""What goes over kubelet's sockets: the very bytes of the published messages, an answer for every claim, no leftovers."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from ballast_cxl.cdi.edits import Share
from ballast_cxl.node.checkpoint import Entry, Region, Use
from ballast_cxl.node.claims import Refused
from ballast_cxl.node.health import DeviceHealth, Health
from ballast_cxl.node.protos import kubelet_pb2 as pb
from ballast_cxl.node.services import DRA, HEALTH, REGISTRATION, SOCKET_PATH_BYTES, Services, short

PROTOS = Path(__file__).parent / "protos"

# Made with kubelet's own .proto files (k8s.io/kubelet v0.36.3) and protoc; map entries in the order of their keys.
FIXTURES: list[tuple[Any, str]] = [
    (
        pb.PluginInfo(type="DRAPlugin", name="d", endpoint="/s", supported_versions=["v1.DRAPlugin"]),
        "0a09445241506c7567696e1201641a022f73220c76312e445241506c7567696e",
    ),
    (pb.RegistrationStatus(plugin_registered=True, error="e"), "0801120165"),
    (
        pb.NodePrepareResourcesRequest(claims=[pb.Claim(namespace="n", uid="u", name="c")]),
        "0a090a016e1201751a0163",
    ),
    (
        pb.NodePrepareResourcesResponse(
            claims={
                "u": pb.NodePrepareResourceResponse(
                    devices=[
                        pb.Device(
                            request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["k=u"], share_id="s"
                        )
                    ]
                )
            }
        ),
        "0a180a017512130a110a01721201701a016422036b3d752a0173",
    ),
    (
        pb.NodePrepareResourcesResponse(claims={"u": pb.NodePrepareResourceResponse(error="e")}),
        "0a080a01751203120165",
    ),
    (
        pb.NodeUnprepareResourcesResponse(claims={"u": pb.NodeUnprepareResourceResponse()}),
        "0a050a01751200",
    ),
    (
        pb.NodeWatchResourcesResponse(
            devices=[
                pb.DeviceHealth(
                    device=pb.DeviceIdentifier(pool_name="p", device_name="d"),
                    health=pb.UNHEALTHY,
                    last_updated_time=5,
                    health_check_timeout_seconds=30,
                    message="m",
                )
            ]
        ),
        "0a110a060a017012016410021805201e2a016d",
    ),
]


@pytest.mark.parametrize(("message", "published"), FIXTURES, ids=lambda value: type(value).__name__)
def test_messages_are_the_published_ones_byte_for_byte(message: Any, published: str) -> None:
    assert message.SerializeToString(deterministic=True).hex() == published
    assert type(message).FromString(bytes.fromhex(published)) == message


def test_generated_messages_are_what_the_proto_file_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PROTOS)]
    subprocess.run([*command, f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", "kubelet.proto"], check=True)
    for made in tmp_path.iterdir():
        assert made.read_text() == (PROTOS / made.name).read_text(), "run `make protos`"


class Answers:
    """A preparer that knows one claim."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def prepare(self, namespace: str, name: str, uid: str) -> Entry:
        self.calls.append(f"prepare {namespace}/{name}")
        if uid != "good":
            raise Refused(f"ResourceClaim {namespace}/{name} does not exist")
        share = Share("good", "/dev/ballast/kv", "KV", "r", 1, False)
        region = Region("team-a", "kv", "r")
        return Entry("good", namespace, name, (Use("r", "regions", "region-1", "share-1", region, share),), True)

    def unprepare(self, uid: str) -> None:
        self.calls.append(f"unprepare {uid}")
        if uid == "bad":
            raise OSError("disk full")


@asynccontextmanager
async def serving(folder: Path, health: Health | None = None) -> AsyncIterator[Services]:
    preparer: Any = Answers()
    services = Services(preparer, health or Health(), folder / "plugin", folder / "registry", "pod-1")
    await services.start()
    try:
        yield services
    finally:
        await services.stop()


def call(channel: grpc.aio.Channel, service: str, method: str, request: Any, answer: Any) -> Any:
    return channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )(request)


async def test_kubelet_learns_where_to_call_and_in_which_version(tmp_path: Path) -> None:
    async with serving(tmp_path) as services:
        assert services.registration == tmp_path / "registry" / "cxl.ballast.dev-pod-1-reg.sock"
        async with grpc.aio.insecure_channel(f"unix:{services.registration}") as channel:
            info = await call(channel, REGISTRATION, "GetInfo", pb.InfoRequest(), pb.PluginInfo)
            assert (info.type, info.name, info.endpoint) == ("DRAPlugin", "cxl.ballast.dev", str(services.endpoint))
            assert "v1.DRAPlugin" in info.supported_versions
            said = pb.RegistrationStatus(plugin_registered=False, error="no such version")
            await call(channel, REGISTRATION, "NotifyRegistrationStatus", said, pb.RegistrationStatusResponse)
            assert services.registered == "no such version"


async def test_every_claim_of_a_call_has_an_answer(tmp_path: Path) -> None:
    claims = [pb.Claim(namespace="team-a", uid=uid, name=uid) for uid in ("good", "bad")]
    async with serving(tmp_path) as services, grpc.aio.insecure_channel(f"unix:{services.endpoint}") as channel:
        request = pb.NodePrepareResourcesRequest(claims=claims)
        answer = await call(channel, DRA, "NodePrepareResources", request, pb.NodePrepareResourcesResponse)
        assert answer.claims["bad"].error == "ResourceClaim team-a/bad does not exist"
        (device,) = answer.claims["good"].devices
        assert list(device.cdi_device_ids) == ["ballast.dev/cxl=good"]
        assert (list(device.request_names), device.pool_name, device.device_name, device.share_id) == (
            ["r"],
            "regions",
            "region-1",
            "share-1",
        )
        undo = pb.NodeUnprepareResourcesRequest(claims=claims)
        undone = await call(channel, DRA, "NodeUnprepareResources", undo, pb.NodeUnprepareResourcesResponse)
        assert {uid: entry.error for uid, entry in undone.claims.items()} == {"good": "", "bad": "disk full"}


@pytest.mark.parametrize("service", HEALTH)
async def test_health_comes_whole_at_once_and_at_every_change(tmp_path: Path, service: str) -> None:
    health = Health()
    async with (
        serving(tmp_path, health) as services,
        grpc.aio.insecure_channel(f"unix:{services.endpoint}") as channel,
    ):
        stream = channel.unary_stream(
            f"/{service}/NodeWatchResources",
            request_serializer=pb.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=pb.NodeWatchResourcesResponse.FromString,
        )(pb.NodeWatchResourcesRequest())
        first = await stream.read()
        assert isinstance(first, pb.NodeWatchResourcesResponse) and list(first.devices) == []
        health.say({DeviceHealth("regions", "region-1", "gone"), DeviceHealth("regions", "region-2")})
        second = await stream.read()
        assert isinstance(second, pb.NodeWatchResourcesResponse)
        assert [(d.device.device_name, d.health, d.message) for d in second.devices] == [
            ("region-1", pb.UNHEALTHY, "gone"),
            ("region-2", pb.HEALTHY, ""),
        ]
        stream.cancel()


async def test_sockets_of_a_dead_plugin_are_taken_over_and_none_is_left_behind(tmp_path: Path) -> None:
    for folder, name in (("plugin", "dra-pod-1.sock"), ("registry", "cxl.ballast.dev-pod-1-reg.sock")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("left by a crash")
    async with serving(tmp_path) as services:
        assert services.endpoint.is_socket() and services.registration.is_socket()
    assert list((tmp_path / "plugin").iterdir()) == [] and list((tmp_path / "registry").iterdir()) == []


async def test_two_plugins_serve_side_by_side(tmp_path: Path) -> None:
    preparer: Any = Answers()
    pair = [Services(preparer, Health(), tmp_path / "p", tmp_path / "r", instance) for instance in ("a", "b")]
    for services in pair:
        await services.start()
    await pair[0].stop()
    assert pair[1].endpoint.is_socket() and not pair[0].endpoint.exists()
    await pair[1].stop()


def test_a_path_too_long_for_a_socket_is_hashed_and_keeps_its_ending() -> None:
    deep = Path("/var/lib") / ("k" * 50) / "plugins_registry"
    name = f"cxl.ballast.dev-{'0' * 36}-reg.sock"
    made = short(deep, name)
    assert len(str(made)) <= SOCKET_PATH_BYTES < len(str(deep / name))
    assert made.name.endswith("-reg.sock") and made != short(deep, name.replace("0", "1"))
    assert short(Path("/run"), name) == Path("/run") / name


async def test_a_call_that_kubelet_gave_up_does_not_stop_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as services, grpc.aio.insecure_channel(f"unix:{services.endpoint}") as channel:
        slow = asyncio.Event()
        services._preparer.prepare = lambda *_: slow.wait()  # type: ignore[method-assign,assignment]
        claims = [pb.Claim(namespace="team-a", uid="good", name="good")]
        request = pb.NodePrepareResourcesRequest(claims=claims)
        pending: Any = channel.unary_unary(
            f"/{DRA}/NodePrepareResources", request_serializer=pb.NodePrepareResourcesRequest.SerializeToString
        )(request, timeout=0.1)
        with pytest.raises(grpc.aio.AioRpcError):
            await pending
        undo = pb.NodeUnprepareResourcesRequest(claims=claims)
        undone = await call(channel, DRA, "NodeUnprepareResources", undo, pb.NodeUnprepareResourcesResponse)
        assert undone.claims["good"].error == ""
