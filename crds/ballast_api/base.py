"""What every model of the API is made of: `Model`, `field`, `Rule`, and two marks for types (`OpenAPI`, `Core`).

A model is its own documentation: `kubectl explain` prints its docstring and the description of each field, and the
generator (`schema/`) reads types, defaults, bounds and rules from here, so none of them is repeated elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """A CEL rule on the object that carries it, and the sentence a user reads when it does not hold.

    expression: CEL over `self` (and `oldSelf`, which makes it a transition rule). message: lower case, names the field,
    the rule and the way out. path: CEL field path such as `.stop` that the API server names in its answer.
    Only CEL's own functions are used, none of Kubernetes' libraries, so that rules can be checked without a server.
    """

    expression: str
    message: str
    path: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`. path: JSONPath. priority 0 is always shown, 1 only with `-o wide`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    format: str | None = None


@dataclass(frozen=True, eq=False)
class OpenAPI:
    """Marks a type in `Annotated` whose schema is not the one that its Python type implies."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Core:
    """Marks a type in `Annotated` as one of core/v1: its schema is the API server's own (`schema/core.json`)."""

    name: str


class Model(BaseModel):
    """Base of every API type: camelCase outside, snake_case inside, frozen, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    rules: ClassVar[Sequence[Rule]] = ()
    exactly_one_of: ClassVar[Sequence[str]] = ()  # names of fields (camelCase) of which exactly one must be set
    at_most_one_of: ClassVar[Sequence[str]] = ()
    immutable_but_for: ClassVar[Sequence[str] | None] = None  # fields that may change; all others may not


class Kind(Model):
    """Base of what has its own URL on the API server. Its docstring is what `kubectl explain KIND` opens with."""

    model_config = ConfigDict(extra="ignore")

    kind: ClassVar[str]
    plural: ClassVar[str]
    short_names: ClassVar[Sequence[str]] = ()
    namespaced: ClassVar[bool] = True
    columns: ClassVar[Sequence[Column]] = ()
    selectable: ClassVar[Sequence[str]] = ()  # JSONPaths that lists and watches can be limited by (field selectors)
    child_suffixes: ClassVar[Sequence[str]] = ("",)  # children are called NAME + suffix, and must fit a label value
    scaled: ClassVar[bool] = False  # has /scale over spec.replicas, status.replicas and status.selector


def field(description: str = "", /, **limits: Any) -> Any:
    """One field of a model. description: what it is, its unit and meaning when unset, as `kubectl explain` prints it.

    Without a description, the docstring of the field's own model serves. The generator adds the default and examples.
    Accepts what `pydantic.Field` accepts (default, ge, gt, le, pattern, min_length, max_length, examples). A field
    without a default is required, one with `absent=None` may be left out. `list_map_keys` names the keys of a list
    that is a map; `max_items` bounds a list or map that a rule walks; `shown=False` keeps the server from filling in a
    member that the user left out, where its defaults mean something only beside what only a user can say.
    """
    extra: dict[str, Any] = {key: limits.pop(key) for key in ("list_map_keys", "max_items", "shown") if key in limits}
    if "default" not in limits and "default_factory" not in limits:
        limits["default"] = limits.pop("absent", ...)
    return Field(description=description or None, json_schema_extra={"ballast": extra} if extra else None, **limits)
