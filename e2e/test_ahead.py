import os
import subprocess
import sys
from pathlib import Path

from e2e.cluster.layout import CHECKOUT
from e2e.cluster.processes import Process


def run(*commands: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`-S`: without any package, as on the machine of somebody who has just cloned this."""
    argv = [sys.executable, "-S", "-m", "e2e.ahead", *commands]
    inherited = {k: v for k, v in os.environ.items() if k not in ("KUBECONFIG", "CLUSTER")}
    return subprocess.run(argv, cwd=CHECKOUT, env=inherited | env, capture_output=True, text=True, timeout=60)


def test_it_needs_no_package_and_ends_as_its_commands_do(tmp_path: Path) -> None:
    done = run(f"echo first > {tmp_path}/said", "exit 7", f"echo more >> {tmp_path}/said", CLUSTER="kind")
    assert (done.returncode, done.stderr) == (7, "")
    assert (tmp_path / "said").read_text() == "first\n"
    assert run("true", CLUSTER="kind").stdout.endswith(" s in all\n")


def test_a_build_ends_with_what_it_runs_beside(tmp_path: Path) -> None:
    """The programs take minutes, and are not built here: they are started, and must not outlive the command."""
    go = tmp_path / "go"
    go.write_text(
        f"#!/bin/sh\n[ $1 = version ] && exec echo go version go9.9.9 x/y\necho $$ > {tmp_path}/pid\nexec sleep 600\n"
    )
    go.chmod(0o755)
    wait = f"until [ -s {tmp_path}/pid ]; do sleep 0.05; done"
    done = run(wait, PATH=f"{tmp_path}:{os.environ['PATH']}", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    pid = int((tmp_path / "pid").read_text())
    assert Process.of(pid) is None
