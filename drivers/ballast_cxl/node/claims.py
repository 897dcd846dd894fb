"""What a ResourceClaim asks of this driver: which of its devices are ours, and what containers are to see of each.

Pure: claim in, wishes out. The claim is the API server's own, read after kubelet's call; nothing in it was checked by
us before, so whatever does not fit is refused with a sentence.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ballast_cxl.cdi.edits import container_path, variable
from ballast_cxl.names import DRIVER

CONFIG_API = "ballast.dev/v1alpha1"
CONFIG_KIND = "AttachConfig"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

Object = Mapping[str, Any]


class Refused(Exception):
    """This claim cannot be prepared as it is; the text is for the pod's events."""


@dataclass(frozen=True)
class Wish:
    """One device of a claim, and how containers are to see it."""

    request: str
    pool: str
    device: str
    share_id: str | None
    read_only: bool
    cdi_name: str
    path: str
    variable: str


def wishes(claim: Object, uid: str) -> list[Wish]:
    """Our devices of a claim, in the order of its allocation. uid: what kubelet asked for. Raises Refused."""
    meta, what = claim["metadata"], f"ResourceClaim {claim['metadata']['namespace']}/{claim['metadata']['name']}"
    if meta["uid"] != uid:
        raise Refused(f"{what} is another one by now (uid {meta['uid']}, asked for {uid}); the pod must be made anew")
    allocation = claim.get("status", {}).get("allocation")
    if not allocation:
        raise Refused(f"{what} has no allocation; wait until the scheduler has placed a pod that uses it")
    results = [result for result in allocation["devices"].get("results", []) if result["driver"] == DRIVER]
    if not results:
        raise Refused(f"{what} has no device of the driver {DRIVER}; it needs no preparation by it")
    several = len(results) > 1
    _refuse_counts(what, results)
    name = meta.get("annotations", {}).get(POD_CLAIM_NAME) or meta["name"]
    return [_wish(claim, result, name, uid, several) for result in results]


def base_name(request: str) -> str:
    """The request of the claim's spec; one alternative of a prioritised list is written `request/alternative`."""
    return request.partition("/")[0]


def _wish(claim: Object, result: Object, name: str, uid: str, several: bool) -> Wish:
    request = base_name(result["request"])
    words = [name, request] if several else [name]
    return Wish(
        request=request,
        pool=result["pool"],
        device=result["device"],
        share_id=result.get("shareID"),
        read_only=_read_only(claim, result["request"]),
        cdi_name=f"{uid}-{request}" if several else uid,
        path=container_path(*words),
        variable=variable(*words),
    )


def _refuse_counts(what: str, results: list[Object]) -> None:
    """Two regions under one request have no names of their own that would be the same on every node."""
    for request, count in Counter(base_name(result["request"]) for result in results).items():
        if count > 1:
            raise Refused(f"{what}: request {request} was given {count} regions; ask for each in a request of its own")


def _read_only(claim: Object, request: str) -> bool:
    """What the configuration for this request says; the claim's own word comes after its class's, and wins."""
    chosen = False
    for config in claim["status"]["allocation"]["devices"].get("config", []):
        opaque = config.get("opaque", {})
        requests = config.get("requests") or [request]
        if opaque.get("driver") == DRIVER and {request, base_name(request)} & set(requests):
            chosen = _parse(opaque.get("parameters") or {}, chosen)
    return chosen


def _parse(parameters: Object, default: bool) -> bool:
    kind = (parameters.get("apiVersion"), parameters.get("kind"))
    if kind != (CONFIG_API, CONFIG_KIND):
        raise Refused(f"configuration {kind[0]} {kind[1]} is not known; {DRIVER} takes {CONFIG_API} {CONFIG_KIND}")
    unknown = parameters.keys() - {"apiVersion", "kind", "readOnly"}
    value = parameters.get("readOnly", default)
    if unknown or not isinstance(value, bool):
        raise Refused(f"{CONFIG_KIND} has the one member readOnly, true or false; found {dict(parameters)}")
    return value
