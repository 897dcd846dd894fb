"""What the API server, kubectl and its readers demand of every CRD, checked over all of its fields."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ballast_api.base import Kind
from ballast_api.schema import KINDS
from ballast_api.schema.crd import crd, longest_name

Schema = dict[str, Any]
FORBIDDEN = {"$ref", "anyOf", "oneOf", "allOf", "not", "title", "const", "examples"}


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema in a schema, with its path."""
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from nodes(member, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.kind)
def kind(request: pytest.FixtureRequest) -> type[Kind]:
    found: type[Kind] = request.param
    return found


@pytest.fixture
def found(kind: type[Kind]) -> list[tuple[str, Schema]]:
    return list(nodes(crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))


def test_every_node_is_structural(found: list[tuple[str, Schema]]) -> None:
    for path, schema in found:
        assert ("type" in schema) != ("x-kubernetes-int-or-string" in schema), path
        assert not FORBIDDEN & schema.keys(), path
        assert schema.get("additionalProperties") is not False, path


def test_every_field_is_described(found: list[tuple[str, Schema]]) -> None:
    bare = [
        f"{path}.{name}"
        for path, schema in found
        for name, member in schema.get("properties", {}).items()
        if not member.get("description", "").endswith((".", "…", "?", "`")) and f"{path}.{name}" != ".metadata"
    ]
    assert bare == [".metadata.name"]  # the server describes metadata itself


def test_no_default_is_empty_text(found: list[tuple[str, Schema]]) -> None:
    assert [path for path, schema in found if schema.get("default") == ""] == []


def test_keys_of_lists_that_are_maps_are_required(found: list[tuple[str, Schema]]) -> None:
    for path, schema in found:
        keys = set(schema.get("x-kubernetes-list-map-keys", []))
        assert keys <= set(schema.get("items", {}).get("required", [])), path


def test_every_list_says_how_it_merges(found: list[tuple[str, Schema]]) -> None:
    assert [path for path, schema in found if "items" in schema and "x-kubernetes-list-type" not in schema] == []


def test_every_rule_has_a_sentence_with_a_way_out(found: list[tuple[str, Schema]]) -> None:
    messages = [rule["message"] for _, schema in found for rule in schema.get("x-kubernetes-validations", [])]
    assert messages
    for message in messages:
        assert message[0].islower(), message
        assert ";" in message, message
        assert not message.endswith("."), message


def test_a_crd_is_under_200_kb(kind: type[Kind]) -> None:
    size = len(json.dumps(crd(kind), separators=(",", ":")).encode())
    print(f"{kind.kind}: {size} bytes of compact JSON")
    assert size < 200_000


def test_the_longest_name_leaves_room_for_every_child(kind: type[Kind]) -> None:
    assert all(len("x" * longest_name(kind) + suffix) <= 63 for suffix in kind.child_suffixes)
    assert any(len("x" * longest_name(kind) + suffix) == 63 for suffix in kind.child_suffixes)


def test_every_template_takes_the_nine_volumes_and_no_others() -> None:
    volumes = {
        frozenset(schema["items"]["properties"]) - {"name"}
        for kind in KINDS
        for path, schema in nodes(crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        if path.endswith("template.volumes")
    }
    usual = "configMap csi emptyDir hostPath image iscsi nfs persistentVolumeClaim secret"
    assert volumes == {frozenset(usual.split())}
