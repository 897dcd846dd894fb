"""Models to structural schemas: the subset of OpenAPI v3 that apiextensions.k8s.io/v1 accepts.

Structural means that every field has one type, stated where it stands: no `$ref`, no `anyOf` of types, and no
`additionalProperties: false` (the API server drops or refuses unknown fields by itself). So this walks the models'
own annotations instead of rewriting pydantic's JSON schema, which is built of the things that are not allowed.
"""

import inspect
import json
from collections.abc import Iterable
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ballast_api.base import Core, Model, OpenAPI
from ballast_api.schema import coretypes, rules

Schema = dict[str, Any]
SCALARS: dict[type, str] = {str: "string", bool: "boolean"}


def of_model(model: type[Model], name: str, kind: str) -> Schema:
    """Schema of a model. name: what its rules' messages call it. kind: of which kind it is a part."""
    fields = model.model_fields
    schema: Schema = {"type": "object", "description": words(model)}
    required = [alias(info) for info in fields.values() if info.is_required()]
    if required:
        schema["required"] = required
    if fields:
        schema["properties"] = {alias(info): of_field(info, kind) for info in fields.values()}
    found = rules.of_model(model, name, kind)
    if found:
        schema["x-kubernetes-validations"] = found
    return schema


def of_field(info: FieldInfo, kind: str) -> Schema:
    """Schema of one field, with its description, default and bounds."""
    schema = marked(info.annotation, info.metadata, alias(info), kind)
    schema |= list_marks(info)
    default = default_of(info, schema)
    if default is not None:
        schema["default"] = default
    text = [info.description or schema.get("description", "")]
    if default is not None and not isinstance(default, dict):
        text.append(f"Default: {spelled(default)}.")
    if info.examples:
        text.append(f"Example: {', '.join(json.dumps(example) for example in info.examples)}.")
    return {"description": " ".join(text)} | {key: value for key, value in schema.items() if key != "description"}


def of_type(annotation: Any, name: str, kind: str) -> Schema:
    """Schema of a type, whatever it is made of. Types that no schema is known for are a TypeError."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return marked(args[0], args[1:], name, kind)
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return of_type(inner, name, kind)
    if origin is list:
        items = of_type(args[0], name, kind)
        items.pop("description", None)  # kubectl explain would print it after the list's own
        return {"type": "array", "items": items}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(args[1], name, kind)}
    if annotation is int:
        return {"type": "integer", "format": "int64"}
    if annotation in SCALARS:
        return {"type": SCALARS[annotation]}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return {"type": "string", "enum": [str(member) for member in annotation]}
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return of_model(annotation, name, kind)
    raise TypeError(f"{kind}: field {name} has type {annotation}, for which there is no structural schema")


def marked(annotation: Any, marks: Iterable[Any], name: str, kind: str) -> Schema:
    """Schema of a type with marks, as in `Annotated`: one replaces the type's own schema, or each bounds it."""
    flat = [single for mark in marks for single in getattr(mark, "metadata", [mark])]  # a FieldInfo holds several
    for mark in flat:
        if isinstance(mark, OpenAPI):
            return dict(mark.schema)
        if isinstance(mark, Core):
            return coretypes.schema(mark.name)
    schema = of_type(annotation, name, kind)
    for mark in flat:
        schema |= bounds(mark)
    return schema


def bounds(mark: Any) -> Schema:
    """What one constraint of pydantic's means in OpenAPI v3, where an exclusive bound is a flag beside the bound."""
    match mark:
        case Ge(ge=low):
            return {"minimum": low}
        case Gt(gt=low):
            return {"minimum": low, "exclusiveMinimum": True}
        case Le(le=high):
            return {"maximum": high}
        case Lt(lt=high):
            return {"maximum": high, "exclusiveMaximum": True}
        case MinLen(min_length=low):
            return {"minLength": low}
        case MaxLen(max_length=high):
            return {"maxLength": high}
    pattern = getattr(mark, "pattern", None)
    return {"pattern": pattern} if pattern else {}


def list_marks(info: FieldInfo) -> Schema:
    """How server-side apply merges a list, and how long a list or map may be."""
    marks, found = marks_of(info), Schema()
    is_list = get_origin(info.annotation) is list
    if "list_map_keys" in marks:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": marks["list_map_keys"]}
    elif is_list:
        found |= {"x-kubernetes-list-type": "atomic"}
    if "max_items" in marks:
        found |= {"maxItems" if is_list else "maxProperties": marks["max_items"]}
    return found


def marks_of(info: FieldInfo) -> dict[str, Any]:
    """What `field` noted for the generator alone."""
    extra = info.json_schema_extra
    marks: Any = extra.get("ballast", {}) if isinstance(extra, dict) else {}
    return dict(marks)


def default_of(info: FieldInfo, schema: Schema) -> Any:
    """The default as the API server fills it in, or None. `{}` for a model whose members have defaults of their own.

    Empty lists and maps are no defaults: an absent one means the same, and users would see them in every object.
    """
    if isinstance(info.default_factory, type) and issubclass(info.default_factory, Model):
        return {} if has_defaults(schema) and marks_of(info).get("shown", True) else None
    if info.default is PydanticUndefined or info.default is None:
        return None
    return str(info.default) if isinstance(info.default, StrEnum) else info.default


def has_defaults(schema: Schema) -> bool:
    """Whether any member has a default."""
    return any("default" in member for member in schema.get("properties", {}).values())


def alias(info: FieldInfo) -> str:
    """Name of a field as users write it."""
    return info.alias or ""


def words(model: type[Model]) -> str:
    """A model's docstring as one paragraph."""
    return " ".join((inspect.getdoc(model) or "").split())


def spelled(value: Any) -> str:
    """A value as it is written in YAML."""
    return value if isinstance(value, str) else json.dumps(value)
