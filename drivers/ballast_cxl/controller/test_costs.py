"""What many regions that end at once ask of the appliance and of the API server."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ballast_cxl.controller.testing import Cluster, SimulatedFabric
from ballast_cxl.controller.testing_server import SimulatedClient
from ballast_cxl.emulator.layout import BladeLayout
from ballast_cxl.resources import CXL_ATTACHMENT, CXL_BLADE, CXL_REGION
from ballast_operator.objects import Object


async def test_regions_that_wait_for_a_port_ask_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight end at once and two ports lead anywhere: those whose turn it is not leave the appliance alone."""
    blade = BladeLayout("b0", 2, 8, 1, 2)
    found = Cluster(tmp_path, random.Random(8), controllers=1, blade=blade, contiguity="Required")
    for number in range(8):
        found.region(f"r{number}", "2Mi")
    await found.converge()
    calls, ask = 0, SimulatedFabric.asked

    async def counted(self: SimulatedFabric) -> None:
        nonlocal calls
        calls += 1
        await ask(self)

    create, most = SimulatedClient.create, 0

    async def watched(self: SimulatedClient, obj: Object) -> Object:
        nonlocal most
        made = await create(self, obj)
        most = max(most, len(found.server.all(CXL_ATTACHMENT.kind)))
        return made

    monkeypatch.setattr(SimulatedFabric, "asked", counted)
    monkeypatch.setattr(SimulatedClient, "create", watched)
    for number in range(8):
        found.server.delete(CXL_REGION, "team-a", f"r{number}")
    await found.converge()
    assert (found.memories(), found.ledger()) == ({}, [])
    assert 0 < most <= 4, f"{most} regions asked for two ports at the same time"
    print(f"{calls} requests to the appliance")
    assert 8 * 9 < calls < 8 * 16, f"{calls} requests to the appliance for eight regions"


async def test_the_end_of_a_region_reads_no_ledger_and_writes_it_eight_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests to the API server for each of sixteen regions that end at once, with four ports to be overwritten by."""
    asked = Counter[tuple[str, str]]()

    def counted(verb: str) -> None:
        call = getattr(SimulatedClient, verb)

        async def count(self: SimulatedClient, first: Any, *others: Any, **named: Any) -> Any:
            asked[verb, first["kind"] if isinstance(first, dict) else first.kind] += 1
            return await call(self, first, *others, **named)

        monkeypatch.setattr(SimulatedClient, verb, count)

    for verb in ("get", "list", "create", "update", "apply", "delete"):
        counted(verb)
    blade, regions = BladeLayout("b0", 2, 16, 1, 4), 16
    found = Cluster(tmp_path, random.Random(8), controllers=1, blade=blade, contiguity="Required")
    for number in range(regions):
        found.region(f"r{number}", "2Mi")
    await found.converge()
    asked.clear()
    for number in range(regions):
        found.server.delete(CXL_REGION, "team-a", f"r{number}")
    await found.converge()
    assert (found.memories(), found.ledger()) == ({}, [])
    each = {" ".join(what): round(count / regions, 1) for what, count in asked.most_common()}
    print(f"the end of a region: {asked.total() / regions:.1f} requests, {each}")
    assert asked["get", CXL_BLADE.kind] + asked["list", CXL_BLADE.kind] <= 1
    assert asked["update", CXL_BLADE.kind] <= 8 * regions  # given up, connected, zeros, cut off, freed
    assert asked.total() <= 28 * regions
