"""The node plugin as a whole, on a cluster in memory: kubelet's calls, restarts, reboots, wishes to detach, wiping."""

import asyncio
import mmap
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ballast_cxl.cdi.store import Store
from ballast_cxl.host.emulated import EmulatedHost
from ballast_cxl.names import attachment_name
from ballast_cxl.node.attachments import Attachments
from ballast_cxl.node.checkpoint import Checkpoint
from ballast_cxl.node.claims import Refused
from ballast_cxl.node.devices import Devices
from ballast_cxl.node.health import Health
from ballast_cxl.node.judge import NotYet
from ballast_cxl.node.keeper import Keeper
from ballast_cxl.node.prepare import Preparer
from ballast_cxl.node.testing import SIZE, Fabric, FakeClient, Server, claim, device_of, scrub_attachment

NODE = "node1"


class Plugin:
    """One plugin's parts, on a folder that outlives it."""

    def __init__(self, server: Server, folder: Path, node: str = NODE, boot: str = "boot-1") -> None:
        folder.mkdir(exist_ok=True)
        client: Any = FakeClient(server)
        self.checkpoint, self.store, self.health = Checkpoint(folder), Store(folder / "cdi"), Health()
        self.attachments = Attachments(client, node)
        devices = Devices(EmulatedHost(folder.parent / "fabric"), folder)
        common = (self.checkpoint, self.store, self.attachments, devices)
        self.preparer = Preparer(client, node, boot, *common, 5.0)
        self.keeper = Keeper(client, node, boot, *common, self.health, 0.02)

    async def prepare(self, obj: dict[str, Any]) -> Any:
        meta = obj["metadata"]
        return await self.preparer.prepare(meta["namespace"], meta["name"], meta["uid"])


@asynccontextmanager
async def running(*parts: Any) -> AsyncIterator[None]:
    """Plugins and the fabric at work, until the block ends as by a kill."""
    tasks = []
    for part in parts:
        if isinstance(part, Plugin):
            tasks += [asyncio.create_task(part.attachments.run()), asyncio.create_task(part.keeper.run())]
        else:
            tasks.append(asyncio.create_task(part.run()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(holds: Callable[[], Any], what: str = "it") -> None:
    for _ in range(400):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def fabric(server: Server, tmp_path: Path) -> Fabric:
    return Fabric(server, tmp_path / "fabric")


@pytest.fixture
def plugin(server: Server, fabric: Fabric, tmp_path: Path) -> Plugin:
    return Plugin(server, tmp_path / "node")


def attachment(server: Server, region: str, node: str = NODE) -> dict[str, Any] | None:
    return server.objects.get(("CXLAttachment", "", attachment_name(region, node)))


def edits(plugin: Plugin, uid: str) -> dict[str, Any]:
    document = plugin.store.read(uid)
    assert document
    (device,) = document["devices"]
    found: dict[str, Any] = device["containerEdits"]
    return found


async def test_a_prepared_claim_has_its_regions_bytes_under_its_name(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        entry = await plugin.prepare(made)
    uid = made["metadata"]["uid"]
    assert [use.share.qualified for use in entry.uses] == [f"ballast.dev/cxl={uid}"]
    found = edits(plugin, uid)
    (mount,) = found["mounts"]
    assert mount["containerPath"] == "/dev/ballast/kv"
    assert Path(mount["hostPath"]).read_bytes() == b"\x5a" * SIZE
    assert found["env"] == [
        "BALLAST_REGION_KV_PATH=/dev/ballast/kv",
        f"BALLAST_REGION_KV_SIZE={SIZE}",
        f"BALLAST_REGION_KV_UID={region}",
    ]
    wished = attachment(server, region)
    assert wished and wished["status"]["node"]["state"] == "Attached"
    assert wished["status"]["node"]["incarnation"] == "boot-1"


async def test_preparing_again_changes_nothing_and_puts_a_lost_file_back(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    made = claim(server, "kv", device_of(fabric.region("kv")))
    uid = made["metadata"]["uid"]
    async with running(plugin, fabric):
        first = await plugin.prepare(made)
        await asyncio.sleep(0.2)
        plugin.store.remove(uid)
        calls = len(server.calls)
        assert await plugin.prepare(made) == first
        assert plugin.store.read(uid)
        assert server.calls[calls:] == []


async def test_two_nodes_share_a_region_by_one_claim_under_one_path(
    server: Server, fabric: Fabric, tmp_path: Path
) -> None:
    made = claim(server, "kv", device_of(fabric.region("kv")))
    plugins = [Plugin(server, tmp_path / node, node) for node in ("n1", "n2")]
    async with running(fabric, *plugins):
        await asyncio.gather(*(plugin.prepare(made) for plugin in plugins))
    mounts = [edits(plugin, made["metadata"]["uid"])["mounts"][0] for plugin in plugins]
    assert mounts[0]["containerPath"] == mounts[1]["containerPath"]
    assert mounts[0]["hostPath"] != mounts[1]["hostPath"]
    assert Path(mounts[0]["hostPath"]).samefile(mounts[1]["hostPath"])


async def test_the_last_claim_to_go_takes_the_attachment_with_it(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    one, two = (claim(server, name, device_of(region)) for name in ("one", "two"))
    async with running(plugin, fabric):
        await plugin.prepare(one)
        await plugin.prepare(two)
        plugin.preparer.unprepare(one["metadata"]["uid"])
        await asyncio.sleep(0.1)
        assert attachment(server, region) and fabric.detached == []
        plugin.preparer.unprepare(two["metadata"]["uid"])
        await until(lambda: attachment(server, region) is None, "the end of the attachment")
    assert plugin.store.claims() == set()
    assert plugin.checkpoint.read() == {}


async def test_unpreparing_is_idempotent_and_an_unknown_claim_is_done(plugin: Plugin) -> None:
    plugin.preparer.unprepare("never-seen")
    plugin.preparer.unprepare("never-seen")
    assert plugin.checkpoint.read() == {}


async def test_a_process_that_still_maps_the_region_keeps_it_attached(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    """A forced deletion frees the claim while the container still runs."""
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        await plugin.prepare(made)
        path = edits(plugin, made["metadata"]["uid"])["mounts"][0]["hostPath"]
        hold = "import mmap,sys,time; f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); f.close(); print('held',flush=True); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", hold, path], stdout=subprocess.PIPE) as holder:
            assert holder.stdout and holder.stdout.readline() == b"held\n"
            plugin.preparer.unprepare(made["metadata"]["uid"])

            def said() -> str:
                found = attachment(server, region)
                return str(found and found["status"]["node"].get("message"))

            await until(lambda: f"in use by process {holder.pid}" in said(), "the reason")
            assert fabric.detached == []
            holder.kill()
        await until(lambda: attachment(server, region) is None, "the end of the attachment")


async def test_a_device_whose_place_is_not_said_any_more_is_not_let_go(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    """The fabric would pull it out from under the kernel."""
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        await plugin.prepare(made)
        fabric.paused = True
        wished = attachment(server, region)
        assert wished
        node = wished["status"]["node"]
        server.put(wished | {"status": {"phase": "Detaching", "node": node}})
        await FakeClient(server).delete(_resource(), attachment(server, region) or {})
        plugin.preparer.unprepare(made["metadata"]["uid"])
        await until(lambda: "no longer says where its device is" in str(attachment(server, region)), "the reason")
        assert "ballast.dev/node" in (attachment(server, region) or {})["metadata"]["finalizers"]


async def test_a_wish_to_detach_waits_for_the_claims(server: Server, fabric: Fabric, plugin: Plugin) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        await plugin.prepare(made)
        wished = attachment(server, region)
        assert wished
        await FakeClient(server).delete(_resource(), wished)
        await until(lambda: "in use by claim team-a/kv" in str(attachment(server, region)), "the reason")
        assert fabric.detached == []
        plugin.preparer.unprepare(made["metadata"]["uid"])
        await until(lambda: attachment(server, region) is None, "the end of the attachment")


def _resource() -> Any:
    from ballast_cxl.resources import CXL_ATTACHMENT

    return CXL_ATTACHMENT


async def test_a_plugin_that_starts_anew_goes_on_from_the_checkpoint(
    server: Server, fabric: Fabric, plugin: Plugin, tmp_path: Path
) -> None:
    """Kubelet does not ask again for pods that run; their files were lost by a reboot meanwhile."""
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    uid = made["metadata"]["uid"]
    async with running(plugin, fabric):
        await plugin.prepare(made)
    before = plugin.store.read(uid)
    plugin.store.remove(uid)
    again = Plugin(server, tmp_path / "node", boot="boot-2")
    async with running(again, fabric):
        await until(lambda: again.store.read(uid) == before, "the file")
        await until(lambda: "boot-2" in str(attachment(server, region)), "the new boot")
    assert fabric.detached == []


async def test_a_plugin_without_an_api_server_leaves_everything_as_it_is(
    server: Server, fabric: Fabric, plugin: Plugin, tmp_path: Path
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        await plugin.prepare(made)
    server.down = True
    again = Plugin(server, tmp_path / "node")
    async with running(again):
        await asyncio.sleep(0.1)
    assert again.store.claims() == {made["metadata"]["uid"]}
    server.down = False
    assert attachment(server, region)


@pytest.mark.parametrize("second", ["first", "later"])
async def test_either_plugin_of_a_rolling_update_may_get_any_call(
    server: Server, fabric: Fabric, plugin: Plugin, tmp_path: Path, second: str
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    later = Plugin(server, tmp_path / "node")
    async with running(plugin, later, fabric):
        await plugin.prepare(made)
        assert await later.prepare(made) == (await plugin.prepare(made))
        (plugin if second == "first" else later).preparer.unprepare(made["metadata"]["uid"])
        await until(lambda: attachment(server, region) is None, "the end of the attachment")
    assert later.checkpoint.read() == {}


async def test_a_node_that_was_fenced_gets_its_region_back_for_pods_that_still_run(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin, fabric):
        await plugin.prepare(made)
    fenced = attachment(server, region)
    assert fenced
    fabric.unassign(fenced)
    fenced["metadata"] |= {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": []}
    server.put(fenced)
    async with running(plugin, fabric):
        await until(lambda: "Attached" in str(attachment(server, region)), "the device")
        found = attachment(server, region)
        assert found and found["metadata"]["uid"] != fenced["metadata"]["uid"]


async def test_health_names_what_is_wrong_with_a_device(server: Server, fabric: Fabric, plugin: Plugin) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    heard = plugin.health.follow(repeat=60)
    async with running(plugin, fabric):
        await plugin.prepare(made)
        _, devices = await asyncio.wait_for(anext(heard), 5)
        if not devices:
            _, devices = await asyncio.wait_for(anext(heard), 5)
        assert [(d.pool, d.device, d.trouble) for d in devices] == [("regions", device_of(region), "")]
        fabric.set(region, state="Quarantined")
        _, seen = await asyncio.wait_for(anext(heard), 5)
    assert "the ledger has state Quarantined" in seen[0].trouble


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": "Scrubbing"}, "the ledger has state Scrubbing for it, Composed is needed"),
        ({"state": "Quarantined"}, "the ledger has state Quarantined for it, Composed is needed"),
        ({"attachments": [], "state": "Composed"}, "the ledger does not confirm its attachment"),
    ],
)
async def test_nothing_is_given_out_that_the_ledger_does_not_confirm(
    server: Server, fabric: Fabric, plugin: Plugin, change: dict[str, Any], sentence: str
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    plugin.preparer.seconds = 0.3
    async with running(plugin):
        asyncio.get_running_loop().call_later(0.1, fabric.answer)
        asyncio.get_running_loop().call_later(0.1, lambda: fabric.set(region, **change))
        with pytest.raises(NotYet, match=sentence):
            await plugin.prepare(made)
    assert plugin.store.claims() == set()


async def test_another_namespace_is_refused_until_it_is_let_in(server: Server, fabric: Fabric, plugin: Plugin) -> None:
    region = fabric.region("kv")
    made = claim(server, "theirs", device_of(region), namespace="team-b")
    async with running(plugin, fabric):
        with pytest.raises(Refused, match=r"CXLRegion team-a/kv is not for namespace team-b; .*spec.allowedNamespaces"):
            await plugin.prepare(made)
        assert attachment(server, region) is None, "nothing was asked for in its name"
        obj = server.objects["CXLRegion", "team-a", "kv"]
        server.put(obj | {"spec": obj["spec"] | {"sharing": "Explicit", "allowedNamespaces": ["team-b"]}})
        await plugin.prepare(made)


async def test_a_region_made_anew_under_the_old_name_is_not_given_to_the_old_claim(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    server.objects["CXLRegion", "team-a", "kv"]["metadata"]["uid"] = "another"
    async with running(plugin, fabric):
        with pytest.raises(Refused, match=f"of device {device_of(region)} is gone"):
            await plugin.prepare(made)


async def test_a_claim_for_private_memory_gets_the_region_that_was_made_for_it(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    made = claim(server, "scratch", "ext-1")
    labels = {"ballast.dev/claim-uid": made["metadata"]["uid"], "ballast.dev/claim-request": "r0"}
    plugin.preparer.seconds = 0.2
    async with running(plugin, fabric):
        with pytest.raises(NotYet, match="device ext-1 has 0 regions made for it"):
            await plugin.prepare(made)
        region = fabric.region("scratch", labels=labels)
        entry = await plugin.prepare(made)
    assert [use.region.uid for use in entry.uses] == [region]


async def test_a_call_that_waits_in_vain_says_for_what_and_the_next_one_goes_on(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    made = claim(server, "kv", device_of(fabric.region("kv")))
    plugin.preparer.seconds = 0.2
    async with running(plugin):
        with pytest.raises(NotYet, match=r"is not attached to node node1 yet .*; waited 0.2 s, kubelet will ask again"):
            await plugin.prepare(made)
        assert plugin.store.claims() == set()
    async with running(plugin, fabric):
        await plugin.prepare(made)


async def test_a_claim_that_is_given_up_while_it_is_prepared_ends_the_call(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    """As when one pod of a claim ends while kubelet prepares it for the next one."""
    region = fabric.region("kv")
    made = claim(server, "kv", device_of(region))
    async with running(plugin):
        call = asyncio.create_task(plugin.prepare(made))
        await until(lambda: attachment(server, region), "the attachment")
        plugin.preparer.unprepare(made["metadata"]["uid"])
        with pytest.raises(NotYet, match="was unprepared while it was being prepared; kubelet will ask again"):
            await asyncio.wait_for(call, 2)
    async with running(plugin, fabric):
        await until(lambda: not attachment(server, region), "the end of the attachment")
        await plugin.prepare(made)


async def test_a_region_is_wiped_and_reported_before_it_is_let_go(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    fabric.set(region, state="Scrubbing")
    name = attachment_name(region, NODE)
    async with running(plugin, fabric):
        reference = {"namespace": "team-a", "name": "kv", "uid": region}
        scrub_attachment(server, reference, NODE, name)
        await until(lambda: "'scrub'" in str(attachment(server, region)), "the report")
        status = (attachment(server, region) or {})["status"]
        assert status["node"]["scrub"] == {"bytes": SIZE, "verified": SIZE, "generation": status["generation"]}
        assert (fabric.root / "regions" / region).read_bytes() == bytes(SIZE)
        assert "ballast.dev/node" in (attachment(server, region) or {})["metadata"]["finalizers"]
        await FakeClient(server).delete(_resource(), attachment(server, region) or {})
        await until(lambda: attachment(server, region) is None, "the end of the attachment")


async def test_nothing_is_wiped_that_the_ledger_does_not_have_scrubbed(
    server: Server, fabric: Fabric, plugin: Plugin
) -> None:
    region = fabric.region("kv")
    reference = {"namespace": "team-a", "name": "kv", "uid": region}
    async with running(plugin, fabric):
        scrub_attachment(server, reference, NODE, attachment_name(region, NODE))
        await until(lambda: "Scrubbing is needed" in str(attachment(server, region)), "the reason")
    assert (fabric.root / "regions" / region).read_bytes() == b"\x5a" * SIZE


async def test_a_plugin_at_rest_writes_nothing(server: Server, fabric: Fabric, plugin: Plugin) -> None:
    made = claim(server, "kv", device_of(fabric.region("kv")))
    async with running(plugin, fabric):
        await plugin.prepare(made)
        await asyncio.sleep(0.1)
        calls = len(server.calls)
        await asyncio.sleep(0.3)
        assert server.calls[calls:] == []


def test_a_mapping_outlives_the_file_of_a_detached_region(fabric: Fabric) -> None:
    """What the users check rests on: an unlinked file's bytes stay reachable for who has them mapped."""
    path = fabric.root / "ports" / "x"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        path.unlink()
        view[0] = 1
        assert view[0] == 1
