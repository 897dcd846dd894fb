"""`python -m ballast_cxl emulator`: the emulated appliance as a process."""

import argparse
import asyncio
import os
import signal
from pathlib import Path

from aiohttp import web

from ballast_cxl.emulator.appliance import Appliance
from ballast_cxl.emulator.backends import Backend, Loop, Qemu, Shm, Slot
from ballast_cxl.emulator.faults import Faults
from ballast_cxl.emulator.layout import BladeLayout, Quirks
from ballast_cxl.emulator.service import application
from ballast_operator import logs


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="ballast_cxl emulator", description="An emulated CXL memory appliance.")
    found.add_argument("--root", type=Path, required=True, help="folder that every emulated host sees")
    found.add_argument("--host", default="127.0.0.1", help="address to listen at (default 127.0.0.1)")
    found.add_argument("--port", type=int, required=True, help="port to listen at; 0 for any free one")
    found.add_argument("--appliance", default="a0", help="name of the appliance (default a0)")
    found.add_argument(
        "--blade",
        type=BladeLayout.parse,
        action="append",
        required=True,
        help="NAME=CHANNELSxROWSxMIB,ports=N; may be given several times",
    )
    found.add_argument("--quirks", type=Quirks.parse, default=Quirks(), help="traps, by name; cma: all of Seagate's")
    found.add_argument("--backend", choices=("shm", "loop", "qemu"), default="shm", help="how hosts see memory")
    found.add_argument(
        "--slot",
        type=slot,
        action="append",
        default=[],
        help="for qemu: PORT=SOCKET:BUS, the guest's monitor and its root port",
    )
    return found


def slot(text: str) -> tuple[str, Slot]:
    port, _, rest = text.partition("=")
    socket, _, bus = rest.rpartition(":")
    if not (port and socket and bus):
        raise ValueError(f"--slot {text!r} is not PORT=SOCKET:BUS")
    return port, Slot(Path(socket), bus)


def backend(chosen: argparse.Namespace) -> Backend:
    if chosen.backend == "qemu":
        return Qemu(chosen.root, dict(chosen.slot))
    return {"shm": Shm, "loop": Loop}[chosen.backend](chosen.root)


def credentials() -> tuple[str, str] | None:
    """BALLAST_CXL_EMULATOR_CREDENTIALS as NAME:PASSWORD; not a flag, since flags are seen by everybody."""
    name, colon, word = os.environ.get("BALLAST_CXL_EMULATOR_CREDENTIALS", "").partition(":")
    return (name, word) if colon else None


async def serve(chosen: argparse.Namespace) -> None:
    """Until SIGTERM. Prints the address once it answers."""
    chosen.root.mkdir(parents=True, exist_ok=True)
    appliance = Appliance(chosen.appliance, chosen.root, chosen.blade, chosen.quirks, backend(chosen), Faults())
    await appliance.settle()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(application(appliance, credentials()), access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, chosen.host, chosen.port).start()
    print(f"http://{chosen.host}:{runner.addresses[0][1]}", flush=True)
    await stop.wait()
    await runner.cleanup()


def main(arguments: list[str]) -> int:
    logs.configure()
    asyncio.run(serve(parser().parse_args(arguments)))
    return 0
