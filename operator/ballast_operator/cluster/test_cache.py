"""The cache agrees with what it was told, whatever came late, twice or never."""

from hypothesis import given
from hypothesis import strategies as st

from ballast_operator.cluster.cache import Cache
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Key, Object
from ballast_operator.resources import CONFIG_MAP

OWNER = Key("CFRSolve", "team-a", "leduc")


def config_map(name: str, version: int, uid: str = "u", owned: bool = True) -> Object:
    labels = {OWNER_KIND: "CFRSolve", OWNER_NAME: "leduc"} if owned else {}
    meta = {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"version": str(version)}}


def test_an_older_version_that_arrives_late_is_not_news() -> None:
    cache = Cache()
    assert cache.put(config_map("a", 5))
    assert not cache.put(config_map("a", 4))
    assert not cache.put(config_map("a", 5))
    assert cache.children(OWNER)[0]["data"] == {"version": "5"}


def test_a_late_deletion_does_not_take_a_younger_namesake() -> None:
    cache = Cache()
    cache.put(config_map("a", 5, uid="young"))
    assert not cache.drop(config_map("a", 9, uid="old"))
    assert cache.children(OWNER)


def test_a_list_takes_out_what_no_watch_event_told() -> None:
    cache = Cache()
    cache.put(config_map("gone", 1))
    cache.put(config_map("kept", 2))
    changed = cache.replace(CONFIG_MAP, None, [config_map("kept", 2), config_map("new", 3)])
    assert sorted(obj["metadata"]["name"] for obj in changed) == ["gone", "new"]
    assert [obj["metadata"]["name"] for obj in cache.children(OWNER)] == ["kept", "new"]


def test_a_child_that_loses_its_label_is_nobodys_child() -> None:
    cache = Cache()
    cache.put(config_map("a", 1))
    cache.put(config_map("a", 2, owned=False))
    assert cache.children(OWNER) == []


EVENTS = st.lists(st.tuples(st.sampled_from(["put", "drop"]), st.sampled_from("abc"), st.integers(1, 30)), max_size=40)


@given(EVENTS)
def test_a_full_list_always_brings_the_truth(events: list[tuple[str, str, int]]) -> None:
    cache, truth = Cache(), [config_map("a", 31), config_map("c", 32)]
    for what, name, version in events:
        (cache.put if what == "put" else cache.drop)(config_map(name, version))
    cache.replace(CONFIG_MAP, "team-a", truth)
    assert [obj["data"] for obj in cache.children(OWNER)] == [obj["data"] for obj in truth]
    assert len(cache) == 2
