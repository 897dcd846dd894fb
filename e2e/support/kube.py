"""The cluster as a user sees it: kubectl, and patience."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e.cluster.tools import kubectl

Object = dict[str, Any]
POLL_SECONDS = 0.25


class Refused(AssertionError):
    """kubectl ended with an error; the text is what it said."""


@dataclass(frozen=True)
class Kube:
    """One kubeconfig and one namespace."""

    kubeconfig: Path
    namespace: str = "default"

    def inside(self, namespace: str) -> "Kube":
        return replace(self, namespace=namespace)

    def run(self, *arguments: str, text: str | None = None, seconds: float = 60) -> str:
        """Standard output of kubectl. Raises Refused with what it said otherwise."""
        command = [kubectl(), "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *arguments]
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=seconds, check=False)
        if done.returncode:
            raise Refused(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def shell(self) -> dict[str, str]:
        """The environment of a user's shell with this cluster, our kubectl and our plugin in it."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def plugin(self, *words: str, seconds: float = 120) -> str:
        """Standard output of `kubectl ballast`. Raises Refused with what it said otherwise."""
        command = [kubectl(), "ballast", *words, "-n", self.namespace]
        done = subprocess.run(command, env=self.shell(), text=True, capture_output=True, timeout=seconds, check=False)
        if done.returncode:
            raise Refused(f"kubectl ballast {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects: Object, server_side: bool = False) -> str:
        """Apply objects as a user would; answers what kubectl says."""
        extra = ["--server-side"] if server_side else []
        return self.run("apply", *extra, "-f", "-", text="\n---\n".join(json.dumps(obj) for obj in objects))

    def get(self, kind: str, name: str) -> Object | None:
        """The object, or None."""
        found: Object | None = json.loads(self.run("get", kind, name, "-o", "json", "--ignore-not-found") or "null")
        return found

    def everywhere(self, kind: str) -> list[Object]:
        """Objects of one kind in all namespaces."""
        items: list[Object] = json.loads(self.run("get", kind, "-A", "-o", "json"))["items"]
        return items

    def list(self, kind: str, selector: str = "") -> list[Object]:
        items: list[Object] = json.loads(self.run("get", kind, "-l", selector, "-o", "json"))["items"]
        return items

    def patch(self, kind: str, name: str, change: Object, *extra: str) -> None:
        self.run("patch", kind, name, "--type=merge", "-p", json.dumps(change), *extra)

    def delete(self, kind: str, name: str, *extra: str) -> None:
        self.run("delete", kind, name, "--ignore-not-found", *extra, seconds=180)

    def until(
        self, kind: str, name: str, holds: Callable[[Object], Any], seconds: float, what: str | None = None
    ) -> Object:
        """The object once `holds` is true of it; fails with the last state after so many seconds."""
        seen: Object | None = None

        def check() -> Any:
            nonlocal seen
            seen = self.get(kind, name)
            return seen is not None and holds(seen)

        eventually(check, seconds, lambda: f"{kind}/{name}: {what or 'the awaited state'}; last seen: {brief(seen)}")
        assert seen is not None
        return seen

    def gone(self, kind: str, name: str, seconds: float) -> None:
        eventually(lambda: self.get(kind, name) is None, seconds, lambda: f"{kind}/{name} is still there")


def eventually(holds: Callable[[], Any], seconds: float, what: Callable[[], str]) -> float:
    """Poll until it holds; seconds that it took."""
    start = time.monotonic()
    while not holds():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what()}")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - start


def condition(obj: Mapping[str, Any], name: str) -> Object:
    """The condition of this type; {} if there is none."""
    found = [c for c in obj.get("status", {}).get("conditions") or [] if c["type"] == name]
    return found[0] if found else {}


def is_true(name: str) -> Callable[[Object], bool]:
    """A question for `until`: this condition is True."""
    return lambda obj: condition(obj, name).get("status") == "True"


def reason(name: str, *words: str) -> Callable[[Object], bool]:
    """A question for `until`: this condition has one of these reasons."""
    return lambda obj: condition(obj, name).get("reason") in words


def brief(obj: Mapping[str, Any] | None) -> str:
    """Status of an object in a line or two, for messages of failed tests."""
    return "nothing" if obj is None else json.dumps(obj.get("status", obj.get("data", {})))[:1500]


def solve(name: str, **spec: Any) -> Object:
    """A CFRSolve of leduc unless the spec says otherwise."""
    base: Object = {"game": {"builtin": {"name": "leduc"}}, "stop": {"exploitability": "1e-3"}}
    return {
        "apiVersion": "ballast.dev/v1alpha1",
        "kind": "CFRSolve",
        "metadata": {"name": name},
        "spec": {**base, **spec},
    }


def current_kubeconfig() -> Path | None:
    """What KUBECONFIG names, if it is set."""
    named = os.environ.get("KUBECONFIG")
    return Path(named) if named else None
