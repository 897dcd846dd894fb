"""`kubectl ballast diff`: what applying a file would change, in the object and in the children made of it.

The server itself says what would be stored (a dry run), so defaults and other people's fields never show up as changes.
"""

import argparse
import difflib
from collections.abc import Iterator

from ballast_api.yamltext import dump
from ballast_operator.cli.render import read, render
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object, describe
from ballast_operator.resources import Resource, resource_of
from ballast_operator.settings import Settings

_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


async def run(client: Client, chosen: argparse.Namespace) -> int:
    """0 if nothing would change, 1 if something would."""
    different = False
    for obj in read(chosen.file):
        obj.setdefault("metadata", {}).setdefault("namespace", chosen.namespace or client.namespace)
        for text in await _differences(client, obj):
            print(text)
            different = True
    return int(different)


async def _differences(client: Client, obj: Object) -> list[str]:
    own = await _difference(client, obj)
    live = await client.get(resource_of(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])
    if live:
        obj["metadata"]["uid"] = live["metadata"]["uid"]
    wanted, faults = render(obj, Settings.from_environment())
    found = [own, *(f"error: {fault}" for fault in faults)]
    for child in wanted:
        if live is None:  # there is nothing yet that could own it
            child["metadata"].pop("ownerReferences", None)
        found.append(await _difference(client, child))
    return [text for text in found if text]


async def _difference(client: Client, wanted: Object) -> str:
    resource: Resource = resource_of(wanted)
    live = await client.get(resource, wanted["metadata"]["namespace"], wanted["metadata"]["name"])
    stored = await client.apply(wanted, dry_run=True)
    return "\n".join(_lines(live, stored))


def _lines(live: Object | None, stored: Object) -> Iterator[str]:
    name = describe(stored)
    before = _yaml(live) if live else []
    yield from difflib.unified_diff(before, _yaml(stored), f"{name} (live)", f"{name} (applied)", lineterm="", n=3)


def _yaml(obj: Object) -> list[str]:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    lean = {key: value for key, value in obj.items() if key != "status"} | {"metadata": meta}
    return dump(lean).splitlines()
