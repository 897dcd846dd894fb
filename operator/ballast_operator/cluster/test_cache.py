"""The cache agrees with what it was told, whatever came late, twice or never."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_operator.cluster import cache as module
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
    changed = cache.replace(cache.all(CONFIG_MAP), [config_map("kept", 2), config_map("new", 3)])
    assert sorted(obj["metadata"]["name"] for obj in changed) == ["gone", "new"]
    assert [obj["metadata"]["name"] for obj in cache.children(OWNER)] == ["kept", "new"]


def test_a_list_does_not_take_out_what_came_while_it_was_on_its_way() -> None:
    cache = Cache()
    cache.put(config_map("gone", 1))
    cache.put(config_map("again", 2, uid="old"))
    before = cache.all(CONFIG_MAP)
    cache.put(config_map("new", 3))
    cache.drop(config_map("again", 4, uid="old"))
    cache.put(config_map("again", 5, uid="young"))
    assert [obj["metadata"]["name"] for obj in cache.replace(before, [])] == ["gone"]
    assert [obj["metadata"]["name"] for obj in cache.children(OWNER)] == ["again", "new"]


def test_news_of_an_object_that_is_gone_does_not_bring_it_back() -> None:
    cache = Cache()
    cache.put(config_map("a", 5))
    cache.drop(config_map("a", 7))
    cache.drop(config_map("b", 8, uid="unheard"))
    assert not cache.put(config_map("a", 6))
    assert not cache.put(config_map("b", 3, uid="unheard"))
    assert len(cache) == 0
    assert cache.put(config_map("a", 9)), "it lost the label that is watched, and got it back"


def test_so_many_are_remembered_as_gone_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GONE", 2)
    cache = Cache()
    for number in range(3):
        cache.drop(config_map("a", 10, uid=str(number)))
    assert [cache.put(config_map(uid, 1, uid=uid)) for uid in ("0", "1", "2")] == [True, False, False]


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
    cache.replace(cache.all(CONFIG_MAP), truth)
    assert [obj["data"] for obj in cache.children(OWNER)] == [obj["data"] for obj in truth]
    assert len(cache) == 2
