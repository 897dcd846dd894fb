"""What the CDI specification asks of a file, and a little more of ours; and the oldest version that can say it.

The published JSON schema lets pass what every runtime refuses (empty edits, unknown versions, variables without `=`),
and a runtime answers a bad file only with `unresolvable CDI devices`. So every file is judged here before it is
written. The shape is a table: members of each object, with their types and the version that brought them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

KNOWN_VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_NAME_TAIL = r"(?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VENDOR = re.compile(rf"[A-Za-z]{_NAME_TAIL}")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_ANNOTATION = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_LARGEST_ANNOTATIONS = 256 * 1024


@dataclass(frozen=True)
class Member:
    """One member of an object: the shape of its value, whether it must be there, and the version that brought it."""

    shape: Any  # a type, a list of one shape, or the name of an object in SHAPES
    required: bool = False
    since: str = KNOWN_VERSIONS[0]


SHAPES: Mapping[str, Mapping[str, Member]] = {
    "document": {
        "cdiVersion": Member(str, required=True),
        "kind": Member(str, required=True),
        "annotations": Member("annotations", since="0.6.0"),
        "devices": Member(["device"], required=True),
        "containerEdits": Member("edits"),
    },
    "device": {
        "name": Member(str, required=True),
        "annotations": Member("annotations", since="0.6.0"),
        "containerEdits": Member("edits", required=True),
    },
    "edits": {
        "env": Member([str]),
        "deviceNodes": Member(["node"]),
        "netDevices": Member(["netDevice"], since="1.1.0"),
        "hooks": Member(["hook"]),
        "mounts": Member(["mount"]),
        "intelRdt": Member("rdt", since="0.7.0"),
        "additionalGids": Member([int], since="0.7.0"),
    },
    "node": {
        "path": Member(str, required=True),
        "hostPath": Member(str, since="0.5.0"),
        "type": Member(str),
        "major": Member(int),
        "minor": Member(int),
        "fileMode": Member(int),
        "permissions": Member(str),
        "uid": Member(int),
        "gid": Member(int),
    },
    "mount": {
        "hostPath": Member(str, required=True),
        "containerPath": Member(str, required=True),
        "options": Member([str]),
        "type": Member(str, since="0.4.0"),
    },
    "hook": {
        "hookName": Member(str, required=True),
        "path": Member(str, required=True),
        "args": Member([str]),
        "env": Member([str]),
        "timeout": Member(int),
    },
    "rdt": {
        "closID": Member(str),
        "l3CacheSchema": Member(str),
        "memBwSchema": Member(str),
        "schemata": Member([str], since="1.1.0"),
        "enableMonitoring": Member(bool, since="1.1.0"),
    },
    "netDevice": {"hostInterfaceName": Member(str, required=True), "name": Member(str, required=True)},
}


def check(document: Any) -> list[str]:
    """Everything that is wrong with a document, one sentence a fault; empty for a good one."""
    faults = list(_shape("the file", document, "document"))
    if faults:  # the rules below may then rely on types
        return faults
    return [*_version(document), *_kind(document["kind"]), *_devices(document)]


def minimum_version(document: Mapping[str, Any]) -> str:
    """The oldest version that has every member in use, names that begin with a digit, and kinds with a dot."""
    needed = [since for _, since in _used(document, "document")]
    if any(device["name"][:1].isdigit() for device in document["devices"]):
        needed.append("0.5.0")
    if "." in document["kind"].partition("/")[2]:
        needed.append("0.6.0")
    return max(needed, key=KNOWN_VERSIONS.index, default=KNOWN_VERSIONS[0])


def _used(value: Any, shape: Any) -> Iterator[tuple[str, str]]:
    """Every member in use with the version that brought it; an empty value counts as not used, as in the runtimes."""
    if isinstance(shape, list):
        for item in value:
            yield from _used(item, shape[0])
    elif isinstance(shape, str) and shape in SHAPES:
        for name, member in SHAPES[shape].items():
            if value.get(name):
                yield name, member.since
                yield from _used(value[name], member.shape)


def _shape(where: str, value: Any, shape: Any) -> Iterator[str]:
    """Types, unknown members, missing members."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where} must be a list, not {value!r}"
            return
        for index, item in enumerate(value):
            yield from _shape(f"{where}[{index}]", item, shape[0])
    elif shape == "annotations":
        yield from _annotations(where, value)
    elif isinstance(shape, str):
        yield from _object(where, value, SHAPES[shape])
    elif not isinstance(value, shape) or (shape is int and isinstance(value, bool)):
        yield f"{where} must be {shape.__name__}, not {value!r}"


def _object(where: str, value: Any, members: Mapping[str, Member]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} must be an object, not {value!r}"
        return
    for name in value.keys() - members.keys():
        yield f"{where} has a member {name!r}, which the specification does not know"
    for name, member in members.items():
        if name in value:
            yield from _shape(f"{where}.{name}", value[name], member.shape)
        elif member.required:
            yield f"{where} lacks the member {name!r}"


def _annotations(where: str, value: Any) -> Iterator[str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        yield f"{where} must be an object of texts, not {value!r}"
        return
    for name in value:
        if not _ANNOTATION.fullmatch(name):
            yield f"{where} has the key {name!r}, which is not a qualified name such as example.com/note"
    if sum(len(k) + len(v) for k, v in value.items()) > _LARGEST_ANNOTATIONS:
        yield f"{where} has more than {_LARGEST_ANNOTATIONS} bytes"


def _version(document: Mapping[str, Any]) -> Iterator[str]:
    said = document["cdiVersion"]
    if said not in KNOWN_VERSIONS:
        yield f"cdiVersion {said!r} is none of {', '.join(KNOWN_VERSIONS)}"
    elif KNOWN_VERSIONS.index(said) < KNOWN_VERSIONS.index(needed := minimum_version(document)):
        yield f"cdiVersion {said!r} is too old for what the file says; it needs {needed}"


def _kind(kind: str) -> Iterator[str]:
    vendor, slash, name = kind.partition("/")
    if not slash or not _VENDOR.fullmatch(vendor) or not _VENDOR.fullmatch(name):
        yield f"kind {kind!r} must be VENDOR/CLASS, each beginning with a letter and ending with a letter or digit"
    elif len(vendor) > 253 or len(name) > 63:
        yield f"kind {kind!r} is too long: the vendor may have 253 characters, the class 63"


def _devices(document: Mapping[str, Any]) -> Iterator[str]:
    names = [device["name"] for device in document["devices"]]
    if not names:
        yield "the file has no devices"
    for name in names:
        if not _DEVICE.fullmatch(name):
            yield f"device name {name!r} must begin and end with a letter or digit, with only -_.: between"
        if names.count(name) > 1:
            yield f"device name {name!r} is there twice"
    for device in document["devices"]:
        where = f"device {device['name']!r}"
        if not any(device["containerEdits"].values()):
            yield f"{where} has empty containerEdits"
        yield from _edits(where, device["containerEdits"])
    yield from _edits("the file", document.get("containerEdits", {}))


def _edits(where: str, edits: Mapping[str, Any]) -> Iterator[str]:
    yield from _env(where, edits.get("env", []))
    for member, judge in _JUDGES.items():
        for item in edits.get(member, []):
            yield from judge(where, item)
    seen: dict[str, set[str]] = {"hostInterfaceName": set(), "name": set()}
    for item in edits.get("netDevices", []):
        for member, known in seen.items():
            if item[member] in known:
                yield f"{where} has two netDevices with the {member} {item[member]!r}"
            known.add(item[member])
    if not all(0 <= gid < 2**32 for gid in edits.get("additionalGids", [])):
        yield f"{where} has additionalGids outside 0 to {2**32 - 1}"
    closid = edits.get("intelRdt", {}).get("closID", "")
    if closid != "/" and (len(closid) >= 4096 or closid in (".", "..") or re.search(r"[/\n]", closid)):
        yield f"{where} has the intelRdt.closID {closid[:40]!r}, which is not a file name"


def _env(where: str, env: list[str]) -> Iterator[str]:
    for entry in env:
        if entry.find("=") <= 0:
            yield f"{where} has the env entry {entry!r}, which is not NAME=VALUE"


def _node(where: str, node: Mapping[str, Any]) -> Iterator[str]:
    if not node["path"]:
        yield f"{where} has a device node without a path"
    if node.get("type", "") not in ("", "b", "c", "u", "p"):
        yield f"{where} has a device node of type {node['type']!r}; types are b, c, u and p"
    permissions = node.get("permissions", "")
    if permissions != "none" and set(permissions) - set("rwm"):
        yield f"{where} has a device node with the permissions {permissions!r}; letters are r, w and m"
    for number in ("uid", "gid"):
        if not 0 <= node.get(number, 0) < 2**32:
            yield f"{where} has a device node with {number} {node[number]}, outside 0 to {2**32 - 1}"


def _mount(where: str, mount: Mapping[str, Any]) -> Iterator[str]:
    for member in ("hostPath", "containerPath"):
        if not mount[member]:
            yield f"{where} has a mount with an empty {member}"


def _hook(where: str, hook: Mapping[str, Any]) -> Iterator[str]:
    if hook["hookName"] not in HOOKS:
        yield f"{where} has a hook named {hook['hookName']!r}; names are {', '.join(HOOKS)}"
    if not hook["path"]:
        yield f"{where} has a hook without a path"
    yield from _env(where, hook.get("env", []))


def _net_device(where: str, device: Mapping[str, Any]) -> Iterator[str]:
    for member in ("hostInterfaceName", "name"):
        if not device[member]:
            yield f"{where} has a net device with an empty {member}"


_JUDGES: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[str]]] = {
    "deviceNodes": _node,
    "mounts": _mount,
    "hooks": _hook,
    "netDevices": _net_device,
}
