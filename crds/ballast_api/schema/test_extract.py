"""What is kept of a server's OpenAPI document, and how."""

from typing import Any

import pytest

from ballast_api.schema.extract import AMOUNT, CORE, LONGEST, QUANTITY, resolved, sentence

REF = "#/components/schemas/"
NAMED: dict[str, Any] = {
    QUANTITY: {"type": "string", "description": "Quantity is long."},
    CORE + "Key": {
        "type": "object",
        "description": "Key is a key.",
        "properties": {
            "name": {
                "type": "string",
                "default": "",
                "description": "Name of it. This field is effectively required, but may be empty.",
            },
            "effect": {"type": "string", "default": "", "enum": ["A", "B"], "description": "Effect. More words."},
        },
    },
    CORE + "Volume": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "emptyDir": {"allOf": [{"$ref": REF + CORE + "Key"}], "description": "An empty folder. Really."},
            "gcePersistentDisk": {"$ref": REF + CORE + "Key"},
            "projected": {"$ref": REF + CORE + "Key"},
        },
    },
}


def of(name: str) -> dict[str, Any]:
    return resolved({"$ref": REF + name}, NAMED)


def test_no_reference_and_no_default_is_left() -> None:
    assert of(CORE + "Key") == {
        "description": "Key is a key.",
        "type": "object",
        "properties": {
            "effect": {"description": "Effect.", "type": "string", "enum": ["A", "B"]},
            "name": {"description": "Name of it.", "type": "string"},
        },
        "required": ["name"],
    }


def test_a_volume_keeps_the_usual_kinds_with_the_words_of_the_member() -> None:
    found = of(CORE + "Volume")
    assert list(found["properties"]) == ["emptyDir", "name"]
    assert found["properties"]["emptyDir"]["description"] == "An empty folder."


def test_a_quantity_is_a_number_or_text_and_never_negative() -> None:
    assert of(QUANTITY) == {"x-kubernetes-int-or-string": True, "pattern": AMOUNT}


def test_keys_of_a_list_that_is_a_map_are_required() -> None:
    items = {"type": "object", "properties": {"effect": {"type": "string"}}}
    found = resolved(
        {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["effect"], "items": items},
        NAMED,
    )
    assert found["items"]["required"] == ["effect"]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One. Two.", "One."),
        ("No stop", "No stop."),
        ("e.g. this one is kept whole", "e.g. this one is kept whole."),
        ("A list:\n- a\n- b", "A list."),
        ("", ""),
    ],
)
def test_of_a_description_the_first_sentence_stays(text: str, kept: str) -> None:
    assert sentence(text) == kept


def test_a_long_sentence_is_cut_between_words() -> None:
    found = sentence("word " * 40)
    assert len(found) <= LONGEST
    assert found.endswith("word…")


def test_what_stands_in_brackets_goes_first() -> None:
    assert sentence(f"It holds ({'x' * 80}) water") == "It holds water."
