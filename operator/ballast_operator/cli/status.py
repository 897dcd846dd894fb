"""`kubectl ballast status`: the object and everything made for it, as a tree with one line each."""

import argparse
from collections.abc import Iterator

from ballast_operator.cli.target import Target
from ballast_operator.cluster.client import Client
from ballast_operator.kind import Children
from ballast_operator.objects import Object, controller_uid
from ballast_operator.observe.pods import condition, disrupted, phase, waiting


async def run(client: Client, chosen: argparse.Namespace) -> int:
    target: Target = chosen.target
    obj = await target.fetch(client)
    children = await target.children(client)
    print("\n".join(lines(target, obj, children)))
    return 0


def lines(target: Target, obj: Object, children: Children) -> Iterator[str]:
    """The tree: the object, its conditions, its children, and pods under what runs them."""
    status = obj.get("status", {})
    yield f"{target}  {_state(status)}{_progress(status)}"
    for found in status.get("conditions", []):
        yield f"  {found['type']}={found['status']} {found['reason']}: {found['message']}"
    for found in status.get("problems", []):
        yield f"  pod {found['pod']} {found['reason']}: {found['message']}"
    for row in status.get("attachments", []):
        yield f"  on {row['node']}: {', '.join(row[key] for key in ('state', 'port', 'device') if key in row)}"
    others = [child for child in children.objects if child["kind"] != "Pod" and not _of_a_child(child, obj)]
    for child in others:
        last, pods = child is others[-1], _run_by(child, children)
        yield f"{'└' if last else '├'}── {child['kind']} {child['metadata']['name']}{_say(child)}"
        for pod in pods:
            stem, branch = " " if last else "│", "└" if pod is pods[-1] else "├"
            yield f"{stem}   {branch}── Pod {pod['metadata']['name']}{_say(pod)}"


def _of_a_child(child: Object, obj: Object) -> bool:
    """Whether it is a StatefulSet's revision, to which the labels of its pods were copied."""
    return bool(child["kind"] == "ControllerRevision" and controller_uid(child) != obj["metadata"]["uid"])


def _state(status: Object) -> str:
    ready = condition({"status": status}, "Ready")
    serving = {"True": "Ready", "False": "not Ready"}.get(ready["status"]) if ready else None
    return str(status.get("phase") or serving or "Unknown")


def _run_by(child: Object, children: Children) -> list[Object]:
    """The pods that a child runs: all of a Job's, those of its selector of a Deployment's, of its name of a group's."""
    if child["kind"] == "Job":
        return children.all("Pod")
    selector = {
        "Deployment": child.get("spec", {}).get("selector", {}).get("matchLabels"),
        "LeaderWorkerSet": {"leaderworkerset.sigs.k8s.io/name": child["metadata"]["name"]},
    }.get(child["kind"])
    if not selector:
        return []
    return [pod for pod in children.all("Pod") if selector.items() <= (pod["metadata"].get("labels") or {}).items()]


def _progress(status: Object) -> str:
    parts = [status["size"]] if "size" in status else []
    if "iteration" in status:
        parts.append(f"iteration {status['iteration']}")
    if "exploitability" in status:
        parts.append(f"exploitability {status['exploitability']}")
    if "iterationsPerSecond" in status:
        parts.append(f"{status['iterationsPerSecond']} iterations/s")
    if "availableReplicas" in status:
        parts.append(f"{status['availableReplicas']} of {status.get('replicas', 0)} replicas serve")
    if status.get("heldRequests"):
        parts.append(f"{status['heldRequests']} requests held")
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
    if child["kind"] in ("Deployment", "LeaderWorkerSet"):
        ready, wanted = child.get("status", {}).get("readyReplicas", 0), child["spec"].get("replicas", 1)
        return f"  {ready} of {wanted} ready"
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
