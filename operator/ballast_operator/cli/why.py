"""`kubectl ballast why`: the first thing in an object's way, and the next command."""

import argparse
from collections.abc import Iterator

from ballast_api.conditions import Reason
from ballast_operator.cli.advice import ADVICE, UNSEEN, Advice, fill
from ballast_operator.cli.target import Target, condition
from ballast_operator.cluster.client import Client
from ballast_operator.objects import Object


async def run(client: Client, chosen: argparse.Namespace) -> int:
    target: Target = chosen.target
    obj = await target.fetch(client)
    print("\n".join(lines(target, obj)))
    return 0


def lines(target: Target, obj: Object) -> Iterator[str]:
    """Three lines: what it is, why, and what to run next."""
    status = obj.get("status", {})
    found = _deciding(obj)
    if found is None or status.get("observedGeneration") != obj["metadata"]["generation"]:
        seen = status.get("observedGeneration")
        state = "has no status yet" if seen is None else f"has a status of generation {seen}, not of the present one"
        yield from _three(target, f"{target} {state}", UNSEEN)
        return
    reason = found["reason"]
    state = status.get("phase") or ("Ready" if condition(obj, "Ready") else "not Ready")
    head = f"{target} is {state} ({reason}): {found['message']}"
    yield from _three(target, head, ADVICE[Reason(reason)])


def _deciding(obj: Object) -> Object | None:
    """The condition that says most: an end, else suspended, else whether it is ready, else how it goes on.

    What is ready may still be degraded, or have an autoscaler or VAMP that cannot do its work.
    """
    for name in ("Failed", "Complete", "Suspended"):
        if found := condition(obj, name):
            return found
    by_type: dict[str, Object] = {c["type"]: c for c in obj.get("status", {}).get("conditions", [])}
    ready, scaling = by_type.get("Ready"), by_type.get("Autoscaling")
    if ready and ready["status"] == "True":
        amiss = condition(obj, "Degraded") or (scaling if scaling and scaling["status"] == "False" else None)
        return amiss or condition(obj, "VampDisabled") or ready
    return ready or by_type.get("Progressing")


def _three(target: Target, head: str, advice: Advice) -> Iterator[str]:
    yield head
    yield f"cause: {advice.cause}"
    yield f"next:  {fill(advice.command, target.kind.model.short_names[0], target.namespace, target.name)}"
