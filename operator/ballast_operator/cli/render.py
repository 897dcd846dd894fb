"""`kubectl ballast render`: what the operator would make of a file, by the same code and without a cluster."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ballast_api.faults import faults
from ballast_api.yamltext import dump, load_all
from ballast_operator.kind import Children
from ballast_operator.kinds import kinds
from ballast_operator.objects import Object, describe
from ballast_operator.reconciler import parse
from ballast_operator.settings import Settings


def render_file(file: str, settings: Settings, out: TextIO) -> int:
    """Print the children of every object of ours in the file; 1 if one of them cannot be read."""
    status = 0
    for obj in read(file):
        wanted, faults = render(obj, settings)
        for fault in faults:
            print(f"error: {fault}", file=sys.stderr)
            status = 1
        for child in wanted:
            out.write("---\n")
            out.write(dump(child))
    return status


def read(file: str) -> Iterator[Object]:
    """The YAML documents of a file, empty ones left out; `-` is standard input."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text()
    yield from load_all(text)


def render(obj: Object, settings: Settings) -> tuple[list[Object], list[str]]:
    """The children, or what is wrong with the object. Objects of other kinds have none."""
    if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("metadata", {}).get("name"):
        return [], ["a document is not a Kubernetes object; it needs apiVersion, kind and metadata.name"]
    kind = kinds(settings).get(obj["kind"])
    if kind is None:
        return [], [f"{describe(obj)} is not of a kind of ours; render knows {', '.join(kinds(settings))}"]
    if refused := faults(obj):
        return [], [f"{describe(obj)}: {fault}" for fault in refused]
    obj["metadata"].setdefault("namespace", "default")
    model, unread = parse(kind.model, obj)
    if model is None:
        return [], unread
    wanted: list[Any] = kind.desired(model, Children()) or []
    return wanted, []
