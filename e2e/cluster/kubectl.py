"""kubectl, for one cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from e2e.cluster import shell, tools


class Kubectl:
    """Runs kubectl as the admin. What it caches goes with the cluster, not into the user's home."""

    def __init__(self, kubeconfig: Path, state: Path) -> None:
        self.kubeconfig = kubeconfig
        self.program = tools.kubectl()
        self.env = {"KUBECACHEDIR": str(state / "kubectl-cache")}

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        return shell.run(*self._argv(arguments), env=self.env, stdin=stdin)

    def attempt(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return shell.attempt(*self._argv(arguments), env=self.env, stdin=stdin)

    def get(self, *arguments: str) -> Any:
        """`kubectl get ARGUMENTS` as parsed JSON."""
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Server-side apply, as field manager `ballast-cluster`."""
        bundle = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self("apply", "--server-side", "--force-conflicts", "--field-manager=ballast-cluster", "-f", "-",
             stdin=json.dumps(bundle))  # fmt: skip

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        return [self.program, "--kubeconfig", str(self.kubeconfig), *arguments]
