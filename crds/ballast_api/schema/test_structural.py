"""From a Python type to its schema."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pytest

from ballast_api.base import Model, OpenAPI, Rule, field
from ballast_api.schema.structural import of_model


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


class Leaf(Model):
    """A leaf
    of two lines."""

    width: int = field("Width in mm.", default=3, ge=1, le=9)


class Whole(Model):
    """All that a model may hold."""

    rules: ClassVar = (Rule("self.text != ''", "text is empty; fill it", ".text"),)

    text: str = field("Some text.", pattern="^a", max_length=5, examples=["ab"])
    maybe: int | None = field("Maybe a number.", absent=None, gt=0)
    colour: Colour = field("Its colour.", default=Colour.BLUE)
    leaf: Leaf = field(default_factory=Leaf)
    quiet: Leaf = field(default_factory=Leaf, shown=False)
    leaves: list[Leaf] = field("Leaves.", default_factory=list, list_map_keys=["width"], max_items=4)
    names: dict[str, str] = field("Names.", default_factory=dict)
    day: Annotated[str, OpenAPI({"type": "string", "format": "date"})] = field("A day.")


def member(name: str) -> dict[str, Any]:
    found: dict[str, Any] = of_model(Whole, "whole", "Thing")["properties"][name]
    return found


def test_a_field_has_its_type_its_bounds_and_its_words() -> None:
    assert member("text") == {
        "description": 'Some text. Example: "ab".',
        "type": "string",
        "pattern": "^a",
        "maxLength": 5,
    }


def test_what_may_be_none_is_optional_and_has_one_type() -> None:
    assert member("maybe") == {
        "description": "Maybe a number.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "exclusiveMinimum": True,
    }
    assert of_model(Whole, "whole", "Thing")["required"] == ["text", "day"]


def test_a_default_stands_in_the_schema_and_in_the_words() -> None:
    assert member("colour") == {
        "description": "Its colour. Default: Blue.",
        "type": "string",
        "enum": ["Red", "Blue"],
        "default": "Blue",
    }


def test_a_model_with_defaults_is_filled_in_by_the_server_though_absent() -> None:
    assert member("leaf")["default"] == {}
    assert member("leaf")["description"] == "A leaf of two lines."
    assert member("leaf")["properties"]["width"]["default"] == 3


def test_a_member_that_is_not_shown_is_left_out_until_a_user_names_it() -> None:
    assert "default" not in member("quiet")
    assert member("quiet")["properties"]["width"]["default"] == 3


def test_an_empty_map_or_list_is_no_default() -> None:
    assert "default" not in member("names")
    assert "default" not in member("leaves")


def test_a_list_says_how_it_merges_and_how_long_it_may_be() -> None:
    assert member("leaves")["x-kubernetes-list-type"] == "map"
    assert member("leaves")["x-kubernetes-list-map-keys"] == ["width"]
    assert member("leaves")["maxItems"] == 4


def test_a_marked_type_has_the_schema_of_its_mark() -> None:
    assert member("day") == {"description": "A day.", "type": "string", "format": "date"}


def test_rules_come_with_the_path_that_the_server_names() -> None:
    assert of_model(Whole, "whole", "Thing")["x-kubernetes-validations"] == [
        {"rule": "self.text != ''", "message": "text is empty; fill it", "fieldPath": ".text"}
    ]


def test_a_type_without_a_structural_schema_is_an_error_with_its_place() -> None:
    class Odd(Model):
        """Odd."""

        ratio: float = field("A ratio.")

    with pytest.raises(TypeError, match="Thing: field ratio has type <class 'float'>"):
        of_model(Odd, "odd", "Thing")
