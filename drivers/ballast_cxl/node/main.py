"""`python -m ballast_cxl node`: one plugin, from its settings to its end."""

import argparse
import asyncio
import logging
import signal

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ballast_cxl.cdi.store import Store
from ballast_cxl.host import Host, HostError
from ballast_cxl.host.emulated import EmulatedHost
from ballast_cxl.host.linux import LinuxHost
from ballast_cxl.node.attachments import Attachments
from ballast_cxl.node.checkpoint import Checkpoint
from ballast_cxl.node.devices import Devices
from ballast_cxl.node.health import Health
from ballast_cxl.node.incarnation import incarnation
from ballast_cxl.node.keeper import Keeper
from ballast_cxl.node.liveness import Liveness
from ballast_cxl.node.prepare import Preparer
from ballast_cxl.node.services import Services
from ballast_cxl.node.settings import Settings
from ballast_operator import logs
from ballast_operator.cluster.client import Client

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0


def main(flags: list[str]) -> int:
    """Run until SIGTERM. All settings come from the environment."""
    argparse.ArgumentParser(prog="ballast_cxl node", description="The node plugin.").parse_args(flags)
    logs.configure()
    asyncio.run(run(Settings.from_environment()))
    return 0


def host_of(settings: Settings) -> Host:
    return EmulatedHost(settings.emulated_root) if settings.host == "emulated" else LinuxHost()


async def run(settings: Settings) -> None:
    """Everything of one plugin; ends when it is told to, raises what a part of it raised."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings.folder.mkdir(parents=True, exist_ok=True)
    client = await Client.connect(user_agent="ballast-cxl-node")
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(_work(settings, client))
            await stop.wait()
            work.cancel()
    finally:
        await client.close()


async def _work(settings: Settings, client: Client) -> None:
    boot, node = incarnation(), settings.node
    checkpoint, store, health = Checkpoint(settings.folder), Store(settings.cdi), Health()
    checkpoint.read()  # a damaged file must end us before kubelet calls, not during a call
    attachments = Attachments(client, node)
    devices = Devices(host_of(settings), settings.folder)
    await _wait_for_host(devices)
    preparer = Preparer(client, node, boot, checkpoint, store, attachments, devices, settings.prepare_seconds)
    keeper = Keeper(client, node, boot, checkpoint, store, attachments, devices, health, settings.renew_seconds)
    alive = Liveness(client, settings.namespace, node, boot, settings.lease_seconds, settings.renew_seconds)
    services = Services(preparer, health, settings.folder, settings.registry, settings.instance)
    probes = await _probes(keeper, settings)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(attachments.run())
            tasks.create_task(keeper.run())
            tasks.create_task(alive.run())
            await attachments.synced.wait()
            await services.start()
            log.info("serving node %s at %s, boot %s", node, services.endpoint, boot)
    finally:
        await services.stop()
        await probes.cleanup()


async def _wait_for_host(devices: Devices) -> None:
    """A host that cannot serve registers nothing: pods then wait with kubelet's own words."""
    while True:
        try:
            await devices.check()
            return
        except HostError as error:
            log.warning("this node cannot serve: %s", error)
            await asyncio.sleep(PATIENCE_SECONDS)


async def _probes(keeper: Keeper, settings: Settings) -> web.AppRunner:
    """/healthz fails when the keeper has not ended a pass for long; /metrics for Prometheus."""

    async def healthz(_: web.Request) -> web.Response:
        age = keeper.age()
        return web.Response(status=503 if age > settings.stall_seconds else 200, text=f"last pass {age:.0f} s ago")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, settings.health_port).start()
    return runner
