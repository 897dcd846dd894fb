"""What a claim asks for is read from its allocation alone, and what does not fit is refused with a sentence."""

from typing import Any

import pytest

from ballast_cxl.node.claims import CONFIG_API, Refused, wishes

UID = "0c5b7a52-11d3-4c1c-9a3c-8f0e7b7a1d11"


def claim(*results: dict[str, Any], config: list[Any] | None = None, **meta: Any) -> dict[str, Any]:
    base = {"request": "r", "driver": "cxl.ballast.dev", "pool": "regions", "device": "region-1"}
    devices = {"results": [base | result for result in results], "config": config or []}
    metadata = {"name": "kv", "namespace": "team-a", "uid": UID} | meta
    return {"metadata": metadata, "status": {"allocation": {"devices": devices}}}


def config(read_only: Any, source: str = "FromClaim", **extra: Any) -> dict[str, Any]:
    parameters = {"apiVersion": CONFIG_API, "kind": "AttachConfig", "readOnly": read_only}
    return {"source": source, "opaque": {"driver": "cxl.ballast.dev", "parameters": parameters}} | extra


def test_one_region_is_found_under_the_claims_name() -> None:
    (wish,) = wishes(claim({}), UID)
    assert (wish.path, wish.variable, wish.cdi_name, wish.read_only) == ("/dev/ballast/kv", "KV", UID, False)


def test_several_regions_are_found_under_their_requests() -> None:
    found = wishes(claim({"request": "hot.tier"}, {"request": "cold"}), UID)
    assert [wish.path for wish in found] == ["/dev/ballast/kv/hot.tier", "/dev/ballast/kv/cold"]
    assert [wish.variable for wish in found] == ["KV_HOT_TIER", "KV_COLD"]
    assert [wish.cdi_name for wish in found] == [f"{UID}-hot.tier", f"{UID}-cold"]


def test_a_generated_claim_is_called_as_the_pod_calls_it() -> None:
    made = claim({}, name="worker-0-kv-x7h2p", annotations={"resource.kubernetes.io/pod-claim-name": "kv"})
    assert wishes(made, UID)[0].path == "/dev/ballast/kv"


def test_devices_of_other_drivers_are_left_to_them() -> None:
    found = wishes(claim({"request": "gpu", "driver": "gpu.example.com"}, {"request": "kv"}), UID)
    assert [(wish.request, wish.path) for wish in found] == [("kv", "/dev/ballast/kv")]


def test_an_alternative_of_a_list_goes_by_its_requests_name() -> None:
    (wish,) = wishes(claim({"request": "kv/large"}, config=[config(True, requests=["kv/large"])]), UID)
    assert (wish.request, wish.read_only) == ("kv", True)


def test_the_share_that_the_scheduler_gave_is_handed_on() -> None:
    assert wishes(claim({"shareID": "s-1"}), UID)[0].share_id == "s-1"


@pytest.mark.parametrize(
    ("configs", "read_only"),
    [
        ([config(True)], True),
        ([config(True, requests=["other"])], False),
        ([config(False, "FromClass"), config(True)], True),
        ([config(True, "FromClass"), config(False)], False),
        ([{"opaque": {"driver": "gpu.example.com", "parameters": {"readOnly": True}}}], False),
    ],
)
def test_the_claims_own_word_on_writing_wins(configs: list[Any], read_only: bool) -> None:
    assert wishes(claim({}, config=configs), UID)[0].read_only is read_only


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (claim({}, uid="another"), "is another one by now"),
        ({"metadata": {"name": "kv", "namespace": "team-a", "uid": UID}}, "has no allocation"),
        (claim({"driver": "gpu.example.com"}), "has no device of the driver cxl.ballast.dev"),
        (claim({}, {}), "request r was given 2 regions; ask for each in a request of its own"),
        (claim({}, config=[config("yes")]), "AttachConfig has the one member readOnly, true or false"),
        (claim({}, config=[config(True) | {"opaque": {"driver": "cxl.ballast.dev"}}]), "configuration None None"),
    ],
)
def test_what_does_not_fit_is_refused(made: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        wishes(made, UID)
