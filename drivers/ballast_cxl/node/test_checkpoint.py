"""The checkpoint is whole or refused, and two plugins that share it lose nothing."""

import multiprocessing
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_cxl.cdi.edits import Share
from ballast_cxl.host import Slot
from ballast_cxl.node.checkpoint import (
    Checkpoint,
    CheckpointError,
    Entries,
    Entry,
    Region,
    Use,
    parse,
    render,
    users_of,
    with_slot,
)

words = st.text("abcdefghij-0123456789é", min_size=1, max_size=12)
slots = st.builds(Slot, port=words, serial=words, size=st.integers(1, 2**50))
shares = st.builds(
    Share, name=words, path=words, variable=words, uid=words, size=st.integers(0, 2**50), read_only=st.booleans()
)
regions = st.builds(Region, namespace=words, name=words, uid=words)
uses = st.builds(
    Use,
    request=words,
    pool=words,
    device=words,
    share_id=st.none() | words,
    region=regions,
    share=shares,
    slot=st.none() | slots,
)
entries = st.dictionaries(
    words,
    st.builds(
        Entry,
        uid=words,
        namespace=words,
        name=words,
        uses=st.lists(uses, max_size=3).map(tuple),
        prepared=st.booleans(),
    ),
    max_size=4,
)


def entry(uid: str, region: str = "r") -> Entry:
    share = Share(uid, "/dev/ballast/kv", "KV", region, 1, False)
    return Entry(uid, "team-a", "kv", (Use("r", "regions", "region-1", None, Region("team-a", "kv", region), share),))


@given(entries)
def test_what_is_written_is_read_back(found: Entries) -> None:
    assert parse(render(found)) == found


@given(entries, st.data())
def test_a_file_with_one_character_changed_is_refused_or_says_the_same(found: Entries, data: st.DataObject) -> None:
    text = render(found)
    at = data.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + data.draw(st.sampled_from('x0"{ ')) + text[at + 1 :]
    with suppress(CheckpointError):
        assert parse(broken) == found


@given(entries, st.data())
def test_a_file_cut_short_is_refused(found: Entries, data: st.DataObject) -> None:
    text = render(found)
    with pytest.raises(CheckpointError):
        parse(text[: data.draw(st.integers(0, len(text) - 2))])


def test_a_file_of_a_newer_plugin_is_refused_with_a_way_out() -> None:
    newer = render({}).replace('"version": 1', '"version": 2')
    with pytest.raises(CheckpointError, match="has version 2, this plugin knows 1; use the plugin that wrote it"):
        parse(newer)


def test_a_damaged_file_is_never_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_text("")
    with pytest.raises(CheckpointError, match="drain the node, remove the file"):
        Checkpoint(tmp_path).read()
    with pytest.raises(CheckpointError), Checkpoint(tmp_path).change() as found:
        found["x"] = entry("x")
    assert (tmp_path / "checkpoint.json").read_text() == ""


def test_a_change_that_fails_is_not_stored(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(RuntimeError), checkpoint.change() as found:
        found["x"] = entry("x")
        raise RuntimeError
    assert checkpoint.read() == {}


def test_a_region_is_used_by_every_claim_that_names_it(tmp_path: Path) -> None:
    found = {"a": entry("a", "r1"), "b": entry("b", "r1"), "c": entry("c", "r2")}
    assert [e.uid for e in users_of(found, "r1")] == ["a", "b"]
    placed = with_slot(found["a"], "r1", Slot("p0", "0x1", 5))
    assert placed.uses[0].slot == Slot("p0", "0x1", 5)
    assert with_slot(found["c"], "r1", Slot("p0", "0x1", 5)) == found["c"]


def _add(folder: Path, first: int, count: int) -> None:
    checkpoint = Checkpoint(folder)
    for number in range(first, first + count):
        with checkpoint.change() as found:
            found[str(number)] = entry(str(number))


def test_two_plugins_at_once_lose_no_claim(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(tmp_path, first, 20)) for first in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert {int(uid) for uid in Checkpoint(tmp_path).read()} == {*range(20), *range(100, 120)}
