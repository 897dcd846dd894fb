"""Every file that we emit is good by the schema and by the published rules, and a broken one is refused."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_cxl.cdi import KIND, rules
from ballast_cxl.cdi.edits import Share, container_path, document, variable
from ballast_cxl.cdi.store import BadDocument, Store
from ballast_cxl.host import Device

SCHEMA = json.loads(Path(__file__).with_name("schema.json").read_text())
UID = "0c5b7a52-11d3-4c1c-9a3c-8f0e7b7a1d11"

names = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?\Z")
uids = st.uuids().map(str)
devices = st.one_of(
    st.builds(Device, path=st.just("/run/emulated/ports/p0/0x1"), size=st.integers(1, 2**50)),
    st.builds(
        Device,
        path=st.from_regex(r"\A/dev/dax[0-9]\.[0-9]\Z"),
        size=st.integers(1, 2**50),
        numbers=st.tuples(st.integers(1, 4095), st.integers(0, 255)),
    ),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    claim, uid = draw(names), draw(uids)
    requests = draw(st.lists(names, max_size=3, unique=True))
    words = [(claim,)] if len(requests) < 2 else [(claim, request) for request in requests]
    return document(
        [
            (
                Share("-".join([uid, *w[1:]]), container_path(*w), variable(*w), uid, 2**30, draw(st.booleans())),
                draw(devices),
            )
            for w in words
        ]
    )


def faults(found: Any) -> tuple[bool, bool]:
    """Whether the schema and our rules refuse it."""
    schema = not jsonschema.Draft7Validator(SCHEMA).is_valid(found)
    return schema, bool(rules.check(found))


@given(documents())
def test_every_document_that_we_make_is_good_by_schema_and_rules(found: dict[str, Any]) -> None:
    assert faults(found) == (False, False)


@given(documents())
def test_a_document_is_in_the_oldest_version_that_can_say_it(found: dict[str, Any]) -> None:
    index = rules.KNOWN_VERSIONS.index(found["cdiVersion"])
    assert index <= rules.KNOWN_VERSIONS.index("0.5.0"), "runtimes of 2023 still resolve it"
    for older in rules.KNOWN_VERSIONS[:index]:
        assert rules.check(found | {"cdiVersion": older}) != []


def test_a_claim_whose_uid_begins_with_a_letter_needs_no_more_than_the_first_version() -> None:
    share = Share(f"a{UID[1:]}", "/dev/ballast/kv", "KV", UID, 1, False)
    assert document([(share, Device("/x", 1))])["cdiVersion"] == "0.3.0"


def test_a_real_device_is_known_by_its_numbers_and_writable_only_where_asked() -> None:
    share = Share(UID, "/dev/ballast/kv", "KV", "r-1", 2**30, True)
    (device,) = document([(share, Device("/dev/dax1.0", 2**30, (252, 1)))])["devices"]
    assert device["containerEdits"] == {
        "env": [
            "BALLAST_REGION_KV_PATH=/dev/ballast/kv",
            f"BALLAST_REGION_KV_SIZE={2**30}",
            "BALLAST_REGION_KV_UID=r-1",
        ],
        "deviceNodes": [
            {
                "path": "/dev/ballast/kv",
                "hostPath": "/dev/dax1.0",
                "type": "c",
                "major": 252,
                "minor": 1,
                "fileMode": 0o660,
                "permissions": "r",
            }
        ],
    }


# What a runtime refuses, as changes of a good document; `schema` says whether the schema alone would see it.
GOOD: dict[str, Any] = document([(Share(UID, "/dev/ballast/kv", "KV", "r-1", 2**30, False), Device("/x", 2**30))])
EDITS = ("devices", 0, "containerEdits")
NODE = {"path": "/dev/x", "hostPath": "/dev/x"}
BROKEN: list[tuple[tuple[Any, ...], Any, bool]] = [
    (("cdiVersion",), "9.0.0", False),
    (("cdiVersion",), "0.3.0", False),
    (("cdiVersion",), 5, True),
    (("kind",), "ballast.dev", True),
    (("kind",), "ballast.dev/", True),
    (("kind",), "ballast.dev/cxl/x", True),
    (("kind",), "ballast.dev/cxl-", False),
    (("kind",), "9allast.dev/cxl", True),
    (("kind",), f"ballast.dev/{'x' * 64}", False),
    (("surprise",), 1, True),
    (("devices",), [], True),
    (("devices",), {}, True),
    (("devices", 0, "name"), "", True),
    (("devices", 0, "name"), "-x", True),
    (("devices", 0, "name"), "x/y", True),
    (("devices", 0, "name"), "x-", False),
    (("devices", 0, "surprise"), 1, True),
    (EDITS, {}, False),
    ((*EDITS, "surprise"), 1, True),
    ((*EDITS, "env"), ["NOVALUE"], True),
    ((*EDITS, "env"), ["=x"], True),
    ((*EDITS, "env"), [1], True),
    ((*EDITS, "mounts", 0, "hostPath"), "", True),
    ((*EDITS, "mounts", 0, "containerPath"), "", True),
    ((*EDITS, "mounts", 0, "options"), "ro", True),
    ((*EDITS, "deviceNodes"), [NODE | {"path": ""}], True),
    ((*EDITS, "deviceNodes"), [NODE | {"type": "x"}], True),
    ((*EDITS, "deviceNodes"), [NODE | {"permissions": "rx"}], True),
    ((*EDITS, "deviceNodes"), [NODE | {"uid": -1}], True),
    ((*EDITS, "deviceNodes"), [NODE | {"major": "252"}], True),
    ((*EDITS, "hooks"), [{"hookName": "later", "path": "/bin/x"}], True),
    ((*EDITS, "hooks"), [{"hookName": "prestart", "path": ""}], True),
    ((*EDITS, "additionalGids"), [-1], True),
    ((*EDITS, "netDevices"), [{"hostInterfaceName": "a", "name": "x"}, {"hostInterfaceName": "b", "name": "x"}], False),
    (("annotations",), {"-x": "y"}, False),
]


def change(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The good document with one member replaced."""
    found: Any = copy.deepcopy(GOOD)
    place = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    if path != ("cdiVersion",):
        found["cdiVersion"] = "1.1.0"  # so that a newer member is not what it is refused for
    return found if isinstance(found, dict) else GOOD


@pytest.mark.parametrize(("path", "value", "schema"), BROKEN, ids=lambda value: str(value)[:40])
def test_a_mutated_document_is_refused(path: tuple[Any, ...], value: Any, schema: bool) -> None:
    seen = faults(change(path, value))
    assert seen[1], "our rules let it pass"
    assert seen[0] == schema, "the schema judges otherwise than this table says"


@given(documents(), st.data())
def test_nothing_but_a_dropped_optional_part_survives_a_cut(found: dict[str, Any], data: st.DataObject) -> None:
    """Remove any one member anywhere: the document is refused, or it is still good by the schema too."""
    places = list(_members(found))
    place, key = data.draw(st.sampled_from(places))
    del place[key]
    schema, ours = faults(found)
    assert ours or not schema, "our rules are not weaker than the schema"


def _members(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _members(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _members(item)


def test_a_member_newer_than_the_file_says_is_refused() -> None:
    assert rules.check(GOOD | {"annotations": {"example.com/note": "x"}}) == [
        "cdiVersion '0.5.0' is too old for what the file says; it needs 0.6.0"
    ]


def test_a_bad_document_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(BadDocument, match=f"CDI file of claim {UID}: device .* has empty containerEdits"):
        Store(tmp_path).write(UID, change(EDITS, {}))
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_named_after_kind_and_claim_and_readable_by_all(tmp_path: Path) -> None:
    store = Store(tmp_path / "cdi")
    store.write(UID, GOOD)
    (file,) = (tmp_path / "cdi").iterdir()
    assert file.name == f"ballast.dev-cxl_{UID}.json"
    assert file.stat().st_mode & 0o777 == 0o644
    assert json.loads(file.read_text())["kind"] == KIND
    assert store.claims() == {UID}


def test_a_file_that_is_right_is_not_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(UID, GOOD)
    before = store.path(UID).stat()
    store.write(UID, GOOD)
    assert store.path(UID).stat().st_ino == before.st_ino


def test_a_file_that_somebody_cut_short_is_put_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(UID, GOOD)
    store.path(UID).write_text(store.path(UID).read_text()[:40])
    assert store.read(UID) is None
    store.write(UID, GOOD)
    assert store.read(UID) == GOOD


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.write(UID, GOOD)

    def fail(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", fail)
    newer = change((*EDITS, "mounts", 0, "hostPath"), "/y") | {"cdiVersion": "0.5.0"}
    with pytest.raises(OSError, match="no space"):
        store.write(UID, newer)
    assert store.read(UID) == GOOD
    assert len(list(tmp_path.iterdir())) == 1


def test_a_sweep_removes_strangers_claims_and_halves_of_files(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(UID, GOOD)
    store.write("gone", GOOD)
    (tmp_path / ".ballast-x.tmp").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    assert store.sweep({UID}) == {"gone"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [store.path(UID).name, "other.json"]
