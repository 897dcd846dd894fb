"""What the API server would refuse, found without one: an object against a structural schema and its CEL rules.

Only what our schemas use is known here. Rules run on the object with its defaults, as on the server; transition rules
(`oldSelf`) are left out, since an object in a file has no past.
"""

import difflib
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import cel

Schema = dict[str, Any]
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
BOUNDS = (("minimum", "at least", operator.ge), ("maximum", "at most", operator.le))
SIZES: tuple[tuple[str, type, str, Callable[[int, int], bool]], ...] = (
    ("minLength", str, "{} characters, but needs at least {}", operator.ge),
    ("maxLength", str, "{} characters, but may have at most {}", operator.le),
    ("maxItems", list, "{} entries, but may have at most {}", operator.le),
    ("maxProperties", dict, "{} entries, but may have at most {}", operator.le),
)


def with_defaults(value: Any, schema: Schema) -> Any:
    """A copy of value in which every absent member that has a default has it, as the API server stores it."""
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    members = schema.get("properties", {})
    defaults = {key: member["default"] for key, member in members.items() if "default" in member}
    rest = schema.get("additionalProperties", {})
    return {key: with_defaults(inner, members.get(key, rest)) for key, inner in (defaults | value).items()}


def faults(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """A sentence for everything that the schema does not allow; path is where the value stands."""
    if not typed(value, schema):
        yield f"{path} must be {article(schema)}, not {value!r}"
        return
    yield from bounds(value, schema, path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        yield from members(value, schema, path)


def members(value: Schema, schema: Schema, path: str) -> Iterator[str]:
    """Faults of an object's members: unknown, absent, and their own."""
    known, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for key in schema.get("required", []):
        if key not in value:
            yield f"{path}.{key} is required; add it"
    for key, inner in value.items():
        if key in known or rest is not None:
            yield from faults(inner, known.get(key, rest), f"{path}.{key}")
        else:
            near = difflib.get_close_matches(key, known, n=1)
            yield f"{path}.{key} is not a field; " + (f"did you mean {near[0]}?" if near else "remove it")


def bounds(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Faults of a single value: choice, pattern, size, range."""
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is {value!r}, which is none of {', '.join(schema['enum'])}"
    if "pattern" in schema and isinstance(value, str) and not matches(schema["pattern"], value):
        yield f"{path} is {value!r}, which does not match {schema['pattern']}"
    for key, kind, words, holds in SIZES:
        size = len(value) if isinstance(value, str | list | dict) and isinstance(value, kind) else None
        if size is not None and key in schema and not holds(size, schema[key]):
            yield f"{path} has {words.format(size, schema[key])}"
    for key, words, holds in BOUNDS:
        if key in schema and isinstance(value, int) and not holds(value, schema[key]):
            yield f"{path} is {value}, but must be {words} {schema[key]}"


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches as on the server, where `$` is the very end; in Python a line feed may follow it."""
    return re.search(re.sub(r"\$$", r"\\Z", pattern), text) is not None


def typed(value: Any, schema: Schema) -> bool:
    """Whether a value has the schema's type. bool is an int in Python, but not in JSON."""
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = TYPES[schema["type"]]
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def article(schema: Schema) -> str:
    """The type in words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "a whole number or a text with a unit"
    names = {"object": "an object", "array": "a list", "integer": "a whole number", "boolean": "true or false"}
    return names.get(schema["type"], f"a {schema['type']}")


def broken_rules(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """The sentence of every CEL rule that does not hold. The value must have no other fault."""
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" not in rule["rule"] and not cel.evaluate(rule["rule"], {"self": value}):
            yield f"{path}{rule.get('fieldPath', '')}: {rule['message']}"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from broken_rules(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
        for key, inner in value.items():
            yield from broken_rules(inner, known.get(key, rest), f"{path}.{key}")
