"""Rules that follow from what a model declares, evaluated as the API server would."""

from collections.abc import Sequence
from typing import Any, ClassVar

import cel
import pytest

from ballast_api.base import Model, field
from ballast_api.schema.rules import of_model


class Source(Model):
    """One of three."""

    exactly_one_of: ClassVar[Sequence[str]] = ("a", "b", "c")

    a: str | None = field("A.", absent=None)
    b: str | None = field("B.", absent=None)
    c: str | None = field("C.", absent=None)


class Place(Source):
    """At most one of two."""

    exactly_one_of: ClassVar[Sequence[str]] = ()
    at_most_one_of: ClassVar = ("a", "b")


class Fixed(Model):
    """Nothing may change but `pause`."""

    immutable_but_for: ClassVar = ("pause",)

    size: int = field("Size.")
    queue: str | None = field("Queue.", absent=None)
    pause: bool = field("Pause.", default=False)


def broken(model: type[Model], new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    context = {"self": new, "oldSelf": old}
    return [r["message"] for r in of_model(model, "source", "Thing") if not cel.evaluate(r["rule"], context)]


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        ({}, ["source needs exactly one of a, b or c; add one"]),
        ({"a": "x"}, []),
        ({"c": "x"}, []),
        ({"a": "x", "c": "x"}, ["source takes exactly one of a, b or c; keep only one"]),
    ],
)
def test_exactly_one_of_says_whether_to_add_or_to_remove(value: dict[str, Any], sentences: list[str]) -> None:
    assert broken(Source, value) == sentences


@pytest.mark.parametrize(
    ("value", "count"), [({}, 0), ({"a": "x"}, 0), ({"c": "x"}, 0), ({"a": "x", "b": "x", "c": "x"}, 1)]
)
def test_at_most_one_of_lets_none_pass(value: dict[str, Any], count: int) -> None:
    assert len(broken(Place, value)) == count


@pytest.mark.parametrize(
    ("new", "sentences"),
    [
        ({"size": 1, "queue": "q"}, []),
        ({"size": 1, "queue": "q", "pause": True}, []),
        ({"size": 2, "queue": "q"}, ["size is immutable; create a new Thing"]),
        ({"size": 1, "queue": "p"}, ["queue is immutable; create a new Thing"]),
        ({"size": 1}, ["queue is immutable; create a new Thing"]),
    ],
)
def test_only_what_is_named_may_change(new: dict[str, Any], sentences: list[str]) -> None:
    assert broken(Fixed, new, {"size": 1, "queue": "q"}) == sentences


def test_adding_an_optional_field_is_a_change_too() -> None:
    assert broken(Fixed, {"size": 1, "queue": "q"}, {"size": 1}) == ["queue is immutable; create a new Thing"]


def test_a_member_named_like_a_word_of_cel_is_escaped() -> None:
    class Fenced(Model):
        """Of one namespace for ever."""

        immutable_but_for: ClassVar = ()

        namespace: str = field("Namespace.")

    (rule,) = of_model(Fenced, "fenced", "Thing")
    assert rule["rule"] == "self.__namespace__ == oldSelf.__namespace__"
    assert rule["message"] == "namespace is immutable; create a new Thing"
