"""An operator run on this machine, with exactly the rights that the chart gives it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import yaml

from e2e.support.kube import Kube

ACCOUNT = "ballast-operator"
SYSTEM = "ballast-system"


def account_kubeconfig(admin: Kube, path: Path, *, server: str | None = None, account: str = ACCOUNT) -> Path:
    """A kubeconfig that is this service account and nobody else; server: another address, such as a proxy's."""
    config = yaml.safe_load(admin.kubeconfig.read_text())
    token = admin.inside(SYSTEM).run("create", "token", account, "--duration=4h").strip()
    cluster = config["clusters"][0]["cluster"]
    if authority := cluster.pop("certificate-authority", None):
        cluster["certificate-authority"] = str((admin.kubeconfig.parent / authority).resolve())
    if server:
        cluster = {"server": server}
    config["clusters"][0]["cluster"] = cluster
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


class OperatorProcess:
    """`python -m ballast_operator run`, or another of our processes, as a child; ends with the block around it."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        module: str = "ballast_operator",
        arguments: tuple[str, ...] = ("run",),
    ) -> None:
        self.log = log
        self._command = [sys.executable, "-m", module, *arguments]
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BALLAST_")},
            "KUBECONFIG": str(kubeconfig),
            "BALLAST_METRICS_PORT": "0",
            "BALLAST_HEALTH_PORT": "0",
            "BALLAST_LEASE_NAME": "",
            "POD_NAMESPACE": SYSTEM,
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.restarts = 0

    def __enter__(self) -> "OperatorProcess":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self, **environment: str) -> None:
        """Start it; keyword arguments are further environment variables for this run only."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment | environment, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def exit_code(self) -> int | None:
        """Exit code, or None while it runs."""
        return self._process.poll() if self._process else None

    @contextmanager
    def kept_running(self, **environment: str) -> Iterator[None]:
        """Start it, and start it again whenever it ends, as a kubelet does; `restarts` counts.

        Keyword arguments are further environment variables for the first run only."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.5):
                if self.exit_code() is not None:
                    self.restarts += 1
                    self.start()

        self.start(**environment)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self.stop()

    def stop(self) -> None:
        """Ask it to end; kill it if it does not."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        self._process = None

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)

    def entries(self) -> list[dict[str, str]]:
        """Its log, line by line; a line that is not JSON fails the test that reads it."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]
