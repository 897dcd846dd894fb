"""`kubectl ballast status`: the object and everything made for it, as a tree with one line each."""

import argparse
from collections.abc import Iterator

from ballast_operator.cli.target import Target
from ballast_operator.cluster.client import Client
from ballast_operator.kind import Children
from ballast_operator.objects import Object
from ballast_operator.observe.pods import condition, disrupted, phase, waiting


async def run(client: Client, chosen: argparse.Namespace) -> int:
    target: Target = chosen.target
    obj = await target.fetch(client)
    children = await target.children(client)
    print("\n".join(lines(target, obj, children)))
    return 0


def lines(target: Target, obj: Object, children: Children) -> Iterator[str]:
    """The tree: the object, its conditions, its children, and pods under their Job."""
    status = obj.get("status", {})
    yield f"{target}  {status.get('phase', 'Unknown')}{_progress(status)}"
    for found in status.get("conditions", []):
        yield f"  {found['type']}={found['status']} {found['reason']}: {found['message']}"
    for row in status.get("attachments", []):
        yield f"  on {row['node']}: {', '.join(row[key] for key in ('state', 'port', 'device') if key in row)}"
    others = [child for child in children.objects if child["kind"] != "Pod"]
    for child in others:
        last = child is others[-1] and child["kind"] != "Job"
        yield f"{'└' if last else '├'}── {child['kind']} {child['metadata']['name']}{_say(child)}"
        if child["kind"] == "Job":
            pods = children.all("Pod")
            for pod in pods:
                yield f"│   {'└' if pod is pods[-1] else '├'}── Pod {pod['metadata']['name']}{_say(pod)}"


def _progress(status: Object) -> str:
    parts = [status["size"]] if "size" in status else []
    if "iteration" in status:
        parts.append(f"iteration {status['iteration']}")
    if "exploitability" in status:
        parts.append(f"exploitability {status['exploitability']}")
    if "iterationsPerSecond" in status:
        parts.append(f"{status['iterationsPerSecond']} iterations/s")
    if "etaSeconds" in status:
        parts.append(f"about {status['etaSeconds']} s left")
    return f"  ({', '.join(parts)})" if parts else ""


def _say(child: Object) -> str:
    if child["kind"] == "Pod":
        return f"  {_pod(child)}"
    if child["kind"] == "Job":
        status = child.get("status", {})
        counts = [f"{status[name]} {name}" for name in ("active", "succeeded", "failed") if status.get(name)]
        return f"  {', '.join(counts) or 'no pods yet'}"
    if child["kind"] == "ResourceClaim":
        users = [user["name"] for user in child.get("status", {}).get("reservedFor", [])]
        return f"  used by {', '.join(users)}" if users else "  not in use"
    if child["kind"] == "PersistentVolumeClaim":
        return f"  {child.get('status', {}).get('phase', 'Pending')}"
    return ""


def _pod(pod: Object) -> str:
    words = phase(pod)
    if pod["metadata"].get("deletionTimestamp"):
        words += ", ending"
    if node := pod["spec"].get("nodeName"):
        words += f" on {node}"
    if found := disrupted(pod):
        return f"{words}, disrupted: {found.get('reason')}"
    if found := waiting(pod):
        return f"{words}, {found['reason']}: {found.get('message', '')}"
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled["status"] == "False":
        return f"{words}, not scheduled: {scheduled.get('message', '')}"
    return words
