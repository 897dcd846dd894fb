"""Starts the wiping process and reads what it says."""

import asyncio
import json
import sys

from ballast_cxl.host import Device, HostError
from ballast_cxl.scrubber.scrub import Result


async def scrub_apart(device: Device) -> Result:
    """Wipe a device in a process of its own, which ends when this is cancelled. Raises HostError if it died."""
    numbers = [str(number) for number in device.numbers or ()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ballast_cxl.scrubber",
        device.path,
        str(device.size),
        *numbers,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        last = complained.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise HostError(f"the scrub of {device.path} ended with {process.returncode}: {last[0]}")
    return Result(**json.loads(said))
