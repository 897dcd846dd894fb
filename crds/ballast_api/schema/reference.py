"""docs/reference.md: every field of every kind, as a table. Generated, so that it cannot lag behind the models."""

from collections.abc import Iterator, Sequence
from typing import Any

from ballast_api import GROUP, VERSION
from ballast_api.base import Kind
from ballast_api.schema.crd import LABEL_VALUE, longest_name, root
from ballast_api.schema.extract import VOLUME_KINDS
from ballast_api.schema.structural import spelled

Schema = dict[str, Any]
INTRODUCTION = f"""# API reference

Every field of every kind in `{GROUP}/{VERSION}`. `kubectl explain` prints the same words.
This page is generated from the models in `crds/ballast_api` by `make crds`; do not edit it.

Decimals are text and need quotes (`"1e-3"`), durations are integers with the unit in the name, sizes are quantities
(`64Gi`). An object without a default of its own has those of its members.
Fields of a pod `template` keep the meaning and the members that they have in Kubernetes' own
[PodSpec](https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec); the volumes taken are
{", ".join(f"`{kind}`" for kind in sorted(VOLUME_KINDS))}.
"""


def page(kinds: Sequence[type[Kind]]) -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(section(kind) for kind in kinds)])


def section(kind: type[Kind]) -> str:
    """One kind: what it is, its name, its fields, its rules."""
    schema = root(kind)
    scope = "" if kind.namespaced else "It is in no namespace. "
    limit = f"Names have at most {longest_name(kind)} characters and no dots"
    if any(kind.child_suffixes):
        limit += f", since children are called NAME{', NAME'.join(kind.child_suffixes)} and must fit {LABEL_VALUE}"
    lines = [
        f"## {kind.kind}\n",
        f"{schema['description']}\n",
        f"Short name `{kind.short_names[0]}`. {scope}{limit}.\n",
    ]
    for part in ("spec", "status"):
        lines += [f"### {part}\n", schema["properties"][part]["description"] + "\n"]
        lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
        lines += [row(*found) for found in walk(schema["properties"][part])]
        lines.append("")
    lines += ["### Rules\n", "What the API server answers when an object breaks one:\n"]
    lines += [f"- {message}" for message in messages(schema)]
    return "\n".join([*lines, ""])


def walk(schema: Schema, path: str = "", deep: bool = True) -> Iterator[tuple[str, Schema, bool]]:
    """(path, schema, required) of every member, depth first; a pod's own types are not entered."""
    for name, member in schema.get("properties", {}).items():
        yield path + name, member, name in schema.get("required", [])
        if deep:
            many = "items" in member
            yield from walk(
                member["items"] if many else member, f"{path}{name}{'[]' if many else ''}.", name != "template"
            )


def row(path: str, schema: Schema, required: bool) -> str:
    """One line of the table."""
    default = "required" if required else default_text(schema)
    return f"| `{path}` | {type_text(schema)} | {default} | {schema['description'].replace('|', '&#124;')} |"


def default_text(schema: Schema) -> str:
    """The default, or nothing: that of an object is the sum of its members'."""
    default = schema.get("default")
    return "" if default in (None, {}) else f"`{spelled(default)}`"


def type_text(schema: Schema) -> str:
    """The type in the words that users know."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "items" in schema:
        return f"list of {type_text(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {type_text(schema['additionalProperties'])}"
    return str("time" if schema.get("format") == "date-time" else schema["type"])


def messages(schema: Schema) -> Iterator[str]:
    """Every rule's sentence, in the order of the fields, once."""
    seen: dict[str, None] = {}

    def collect(node: Schema) -> None:
        for rule in node.get("x-kubernetes-validations", []):
            seen.setdefault(rule["message"])
        for member in node.get("properties", {}).values():
            collect(member)

    collect(schema)
    yield from seen
