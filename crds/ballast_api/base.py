"""What every model of the API is made of: `Model`, `field` and `Rule`.

A model is its own documentation: `kubectl explain` prints its docstring and the description of each field, and the
generator reads types, defaults, bounds and rules from here, so none of them is repeated elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """A CEL rule on the object that carries it, and the sentence a user reads when it does not hold.

    expression: CEL over `self` (and `oldSelf`, which makes it a transition rule). message: lower case, names the field,
    the rule and the way out. path: CEL field path such as `.stop` that the API server names in its answer.
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


class Model(BaseModel):
    """Base of every API type: camelCase outside, snake_case inside, frozen, unknown fields refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    rules: ClassVar[Sequence[Rule]] = ()
    exactly_one_of: ClassVar[Sequence[str]] = ()  # names of fields (camelCase) of which exactly one must be set
    at_most_one_of: ClassVar[Sequence[str]] = ()


def field(description: str, /, **limits: Any) -> Any:
    """One field of a model. description: what it is, its unit and default, as `kubectl explain` prints it.

    Accepts what `pydantic.Field` accepts (default, ge, gt, le, pattern, min_length, max_length, examples). Without a
    default the field is required when its type has no None, and absent (None) otherwise. Two further keys:
    `schema` replaces the generated OpenAPI schema, `list_map_keys` names the keys of a list that is a map.
    """
    extra: dict[str, Any] = {}
    if "schema" in limits:
        extra["schema"] = limits.pop("schema")
    if "list_map_keys" in limits:
        extra["list_map_keys"] = limits.pop("list_map_keys")
    if "default" not in limits and "default_factory" not in limits:
        limits["default"] = limits.pop("absent", ...)
    return Field(description=description, json_schema_extra={"ballast": extra} if extra else None, **limits)
