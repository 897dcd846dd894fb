"""Who may have which region: the admission policy says no, the ledger says no without it, and a grant lets in."""

import json
from collections.abc import Iterator

import pytest

from e2e.support import cxl
from e2e.support.cxl_fixtures import SECRET, Fabric
from e2e.support.fixtures import Namespaces
from e2e.support.kube import Kube, Object, Refused, eventually
from e2e.support.operator import SYSTEM

pytestmark = pytest.mark.e2e

FOREIGN = "may not use the CXLRegion that the claim selects"
FORM = "a claim for a CXLRegion has exactly one selector"


def selector(namespace: str, name: str) -> str:
    of = 'device.attributes["cxl.ballast.dev"]'
    return f'{of}.namespace == "{namespace}" && {of}.name == "{name}"'


def claim(name: str, *expressions: str) -> Object:
    exactly: Object = {"deviceClassName": "region.cxl.ballast.dev"}
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": text}} for text in expressions]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "region", "exactly": exactly}]}},
    }


def pod(name: str, claimed: str) -> Object:
    spec = cxl.pod_spec([{"name": "kv", "resourceClaimName": claimed}], "sleep 3600")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def other(fabric: Fabric, namespaces: Namespaces) -> Iterator[Kube]:
    """Another one; its pods end with the test, since a region stays while somebody uses it."""
    made = namespaces.new()
    yield made
    namespaces.drop(made)


@pytest.fixture
def kv(space: Kube) -> Kube:
    """A namespace with a region."""
    space.apply(cxl.region("kv", "256Mi"))
    space.until("cxlr", "kv", cxl.is_ready, 90)
    return space


def test_another_namespace_is_refused_by_the_policy_until_it_is_granted(kv: Kube, other: Kube) -> None:
    foreign = claim("theirs", selector(kv.namespace, "kv"))
    # The API server begins to watch a policy's parameters when the policy comes; until it has them it lets claims pass.
    eventually(lambda: refused(other, foreign, "--dry-run=server"), 30, lambda: "the policy never took effect")
    with pytest.raises(Refused, match=FOREIGN):
        other.apply(foreign)
    kv.patch("cxlr", "kv", {"spec": {"sharing": "Explicit", "allowedNamespaces": [other.namespace]}})

    def let_in() -> bool:
        try:
            other.apply(foreign)
        except Refused:
            return False
        return True

    eventually(let_in, 60, lambda: "the grant has no effect")
    other.apply(pod("guest", "theirs"))
    other.until("pod", "guest", lambda p: p.get("status", {}).get("phase") == "Running", 120)


@pytest.mark.parametrize(
    "expressions",
    [
        [],
        ['device.driver == "cxl.ballast.dev"'],
        [selector("x", "y") + " || true"],
        [selector("x", "y"), selector("x", "y")],
    ],
    ids=["none", "of its own", "with more", "twice"],
)
def test_a_claim_without_the_documented_selector_is_refused(
    fabric: Fabric, other: Kube, expressions: list[str]
) -> None:
    with pytest.raises(Refused, match=FORM):
        other.apply(claim("any", *expressions))


def test_without_the_policy_the_node_refuses_another_namespace(fabric: Fabric, kv: Kube, other: Kube) -> None:
    binding = "validatingadmissionpolicybinding"
    kept = fabric.admin.get(binding, "ballast-cxl-regions")
    assert kept
    fabric.admin.delete(binding, "ballast-cxl-regions")
    try:
        eventually(lambda: not refused(other, claim("theirs", selector(kv.namespace, "kv"))), 60, lambda: "refused")
        other.apply(pod("intruder", "theirs"))
        said = f"is not for namespace {other.namespace}"

        def told() -> bool:
            return any(said in event["message"] for event in other.list("events"))

        eventually(told, 120, lambda: "the node did not refuse")
        assert (other.get("pod", "intruder") or {})["status"]["phase"] == "Pending"
    finally:
        meta = {key: kept["metadata"][key] for key in ("name", "labels", "annotations")}
        fabric.admin.apply(kept | {"metadata": meta})


def refused(kube: Kube, obj: Object, *options: str) -> bool:
    try:
        kube.run("apply", *options, "-f", "-", text=json.dumps(obj))
    except Refused:
        return True
    return False


def test_a_quota_lets_in_what_it_says_and_says_what_is_in_the_way(fabric: Fabric, space: Kube) -> None:
    quota = {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CXLTenantQuota",
        "metadata": {"name": space.namespace},
        "spec": {"namespace": space.namespace, "maxBytes": "512Mi"},
    }
    fabric.admin.apply(quota)
    space.apply(*(cxl.region(f"r{number}", "256Mi") for number in range(3)))
    eventually(lambda: sum(cxl.is_ready(r) for r in space.list("cxlr")) == 2, 90, lambda: "not two are ready")
    (waiting,) = [r for r in space.list("cxlr") if not cxl.is_ready(r)]
    (ready,) = [c for c in waiting["status"]["conditions"] if c["type"] == "Ready"]
    assert ready["reason"] == "QuotaExceeded"
    assert "lets namespace" in ready["message"] and "512Mi" in ready["message"]
    first = next(r["metadata"]["name"] for r in space.list("cxlr") if cxl.is_ready(r))
    space.run("delete", "cxlr", first, "--wait=false")
    space.until("cxlr", waiting["metadata"]["name"], cxl.is_ready, 120)
    assert (fabric.admin.get("cxltenantquota", space.namespace) or {})["status"]["used"]["bytes"] == "512Mi"


def test_only_the_controller_can_read_the_appliances_credentials(fabric: Fabric) -> None:
    def may(account: str) -> str:
        try:
            return (
                fabric.admin.inside(SYSTEM).run("auth", "can-i", "get", f"secrets/{SECRET}", f"--as={account}").strip()
            )
        except Refused:
            return "no"

    answers = {
        name: may(f"system:serviceaccount:{namespace}:{name}")
        for namespace, name in (
            (SYSTEM, "ballast-cxl"),
            (SYSTEM, "ballast-operator"),
            ("ballast-drivers", "ballast-cxl-node"),
            ("default", "default"),
        )
    }
    assert answers == {"ballast-cxl": "yes", "ballast-operator": "no", "ballast-cxl-node": "no", "default": "no"}
