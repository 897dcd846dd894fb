"""Go programs, each built once and kept in the user's cache under a key of its sources, versions and flags."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster import cache, shell, tools
from e2e.cluster.steps import Step, Steps
from e2e.cluster.versions import GO_SOURCES, Component

# GOGC: the compiler ends before it needs its memory back, so it need not collect as often.
ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOFLAGS": "-trimpath -mod=readonly", "GOWORK": "off", "GOGC": "400"}


def path(component: Component) -> Path:
    """Where the program lies once built. The name ends in the key, so another version is another file."""
    sources = sorted(p for p in (GO_SOURCES / component.module).iterdir() if p.suffix in {".go", ".mod", ".sum"})
    words = [component.package, *_flags(component), platform.machine()]
    return cache.folder("bin") / f"{component.name}-{cache.content_key(words, sources)}"


def built(component: Component) -> bool:
    return path(component).exists()


def ensure(components: Iterable[Component], steps: Steps) -> None:
    """Build what is not in the cache, one after the other: each build uses all cores by itself."""
    for component in components:
        if built(component):
            cache.used(path(component))
            continue
        with cache.lock(component.name):
            if not built(component):
                _build(component, tools.go(steps), steps)


def sources(component: Component) -> Path:
    """The Go module that a program is of, as a folder: what else its release is made of lies beside the code."""
    argv = [tools.go(Steps()), "mod", "download", "-json", component.requires]
    said = json.loads(shell.run(*argv, cwd=GO_SOURCES / component.module, env=ENVIRONMENT))
    return Path(said["Dir"])


def link(components: Iterable[Component], folder: Path) -> None:
    """Give programs their plain names in a folder: containerd looks for its shim by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for component in components:
        name = folder / component.name
        name.unlink(missing_ok=True)
        name.symlink_to(path(component))


def _flags(component: Component) -> list[str]:
    link = ["-s", "-w", *(f"-X {stamp}" for stamp in component.stamp)]
    if component.link:
        link.append(f"-extldflags={component.link}")
    return ["-ldflags", " ".join(link), *(["-tags", component.tags] if component.tags else [])]


def _environment(component: Component) -> dict[str, str]:
    return {**ENVIRONMENT, "CGO_ENABLED": "1" if component.cgo else "0"}


def _build(component: Component, go: str, steps: Steps) -> None:
    target = path(component)
    made = target.with_suffix(".new")
    where = GO_SOURCES / component.module
    title = f"build {component.name} {component.version}".strip()
    with steps.step(title) as step:
        step.note("fetching modules")
        environment = _environment(component)
        total = len(shell.run(go, "list", "-deps", component.package, cwd=where, env=environment).splitlines())
        # `nice`, since a build takes every core for minutes and people go on working meanwhile.
        argv = ["nice", go, "build", "-v", *_flags(component), "-o", str(made), component.package]
        _watch(argv, where, environment, total, step)
        made.rename(target)
        step.result = f"{target.stat().st_size / 1e6:.0f} MB"


def _watch(argv: list[str], where: Path, environment: dict[str, str], total: int, step: Step) -> None:
    """`go build -v` names each package as it compiles it: that is the progress."""
    last: deque[str] = deque(maxlen=20)
    env = {**os.environ, **environment}
    with subprocess.Popen(argv, cwd=where, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for count, line in enumerate(process.stderr, start=1):
            last.append(line)
            step.note(f"{count} of at most {total} packages")
    if process.returncode:
        raise shell.failed(argv, process.returncode, "".join(last))
