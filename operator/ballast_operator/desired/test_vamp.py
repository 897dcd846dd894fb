"""What VAMP adds to a serving's pods: settings, memory, a profile; and nothing that a restricted namespace refuses."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_operator.desired.moeserving import objects
from ballast_operator.desired.moeserving.revision import engine_revision
from ballast_operator.desired.quantity import to_bytes
from ballast_operator.kind import Children
from ballast_operator.objects import Object
from ballast_operator.testing_serving import INSTALLATION, serving

SMALLEST: Object = {"maxOffload": "8Gi"}
GPU = {"nvidia.com/gpu": 1}


def pod(role: str = "engine", **spec: Any) -> Object:
    """The pod of a role, as its Deployment has it."""
    made = objects(serving(**spec), Children(), INSTALLATION)
    found = [o for o in made if (o["kind"], o["metadata"]["name"]) == ("Deployment", f"qwen-{role}")]
    template: Object = found[0]["spec"]["template"]["spec"]
    return template


def container(**spec: Any) -> Object:
    (found,) = pod(**spec)["containers"]
    return dict(found)


def env(**spec: Any) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container(**spec)["env"] if e["name"].startswith(("VAMP_", "BALLAST_"))}


def test_the_smallest_block_sets_everything_that_the_plugin_reads() -> None:
    assert env(vamp=SMALLEST) == {
        "VAMP_ENABLE": "1",
        "VAMP_MODE": "Auto",
        "VAMP_MAX_OFFLOAD_BYTES": str(8 << 30),
        "VAMP_HOST_BYTES": str(8 << 30),
        "VAMP_MIN_RESIDENT_FRACTION": "0.5",
        "VAMP_CHUNK_BYTES": str(256 << 20),
        "VAMP_PROFILE": "/ballast/cache/vamp/team-a/qwen.json",
    }


def test_without_the_block_nothing_is_set_and_no_pod_changes() -> None:
    assert env() == {}
    assert engine_revision(serving()) != engine_revision(serving(vamp=SMALLEST))
    assert "vamp" not in str(pod())


def test_a_change_of_the_block_rolls_engines_and_not_routers() -> None:
    one, other = SMALLEST | {"mode": "Auto"}, SMALLEST | {"mode": "DryRun"}
    assert pod(vamp=one) != pod(vamp=other)
    assert pod("router", vamp=one) == pod("router", vamp=other) == pod("router")


def test_memory_for_copies_is_asked_for_on_top_for_every_device_of_the_pod() -> None:
    asked = {"limits": {**GPU, "memory": "64Gi"}, "requests": {"cpu": 4, "memory": "32Gi"}}
    found = container(resources=asked, parallelism={"tensor": 2}, vamp=SMALLEST | {"hostMemory": "12Gi"})["resources"]
    assert found["limits"] == {**GPU, "memory": "88Gi"}
    assert found["requests"] == {"cpu": 4, "memory": "56Gi"}


def test_a_limit_alone_is_the_request_too() -> None:
    found = container(resources={"limits": {"memory": "4Gi"}}, vamp=SMALLEST)["resources"]
    assert found == {"limits": {"memory": "12Gi"}}


def test_without_any_memory_asked_for_the_copies_are() -> None:
    assert container(resources={"limits": GPU}, vamp=SMALLEST)["resources"]["requests"] == {"memory": "8Gi"}
    assert container(vamp=SMALLEST)["resources"] == {"requests": {"memory": "8Gi"}}


def test_a_profile_of_a_config_map_is_where_an_engine_with_an_empty_cache_begins() -> None:
    found = pod(vamp=SMALLEST | {"profileConfigMapRef": {"name": "hot", "key": "qwen.json"}})
    (volume,) = [v for v in found["volumes"] if v["name"] == "vamp-profile"]
    assert volume["configMap"] == {"name": "hot", "items": [{"key": "qwen.json", "path": "qwen.json"}]}
    (main,) = found["containers"]
    assert {"name": "vamp-profile", "mountPath": "/ballast/vamp-profile", "readOnly": True} in main["volumeMounts"]
    assert {"name": "BALLAST_VAMP_SEED", "value": "/ballast/vamp-profile/qwen.json"} in main["env"]


SIZES = st.sampled_from(["1Gi", "512Mi", "3G", 1 << 30, "1.5Gi"])
MEMORY = st.none() | st.sampled_from(["64Gi", "1e9", 123456789, "0.5Ti"])


def _part(memory: object) -> Object:
    return {} if memory is None else {"memory": memory}


@settings(deadline=None)
@given(SIZES, st.none() | SIZES, MEMORY, MEMORY, st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 2, 2), (8, 1, 4)]))
def test_no_pod_is_promised_less_memory_than_it_asked_for_and_its_copies(
    offload: object, host: object, request: object, limit: object, shape: tuple[int, int, int]
) -> None:
    tensor, pipeline, nodes = shape
    vamp = {"maxOffload": offload} | ({} if host is None else {"hostMemory": host})
    parallelism = {"tensor": tensor, "pipeline": pipeline, "nodes": nodes}
    asked = {"requests": _part(request), "limits": _part(limit)}
    made = objects(serving(vamp=vamp, parallelism=parallelism, resources=asked), Children(), INSTALLATION)
    copies = to_bytes(str(host or offload)) * tensor * pipeline // nodes
    for template in _engines(made):
        (main,) = template["spec"]["containers"]
        assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        found = main["resources"]
        promised = found.get("requests", {}).get("memory") or found["limits"]["memory"]
        assert to_bytes(promised) == to_bytes(str(request or limit or 0)) + copies
        if limit is not None:
            assert to_bytes(found["limits"]["memory"]) == to_bytes(str(limit)) + copies


def _engines(made: list[Object]) -> list[Object]:
    found = [o["spec"]["template"] for o in made if o["kind"] == "Deployment" and "engine" in o["metadata"]["name"]]
    for obj in made:
        if obj["kind"] == "LeaderWorkerSet":
            group = obj["spec"]["leaderWorkerTemplate"]
            found += [group["leaderTemplate"], group["workerTemplate"]]
    assert found
    return found
