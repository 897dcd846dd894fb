"""The commands of the serving image."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from ballast_serving import arguments, launch, message, tiny
from ballast_serving.message import Failure


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        code: int = options.run(options)
        return code
    except Failure as failure:
        print(failure, file=sys.stderr)
        log = getattr(options, "termination_log", None)
        if log is not None:
            message.write(log, failure)
        return failure.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ballast_serving", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve(commands.add_parser("serve", help="start vLLM, answer probes, drain on SIGTERM", allow_abbrev=False))
    _hold(commands.add_parser("hold", help="forward requests to engines, hold them while none is ready"))
    check = commands.add_parser("check", help="engine arguments against vLLM's own parser")
    check.add_argument("flags", nargs="*", metavar="--name=value", help="after a lone --")
    check.set_defaults(run=_run_check)
    small = commands.add_parser("tiny-model", help="write a tiny model that any machine can serve")
    small.add_argument("--out", type=Path, required=True, metavar="DIR")
    small.set_defaults(run=_run_tiny)
    return parser


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, metavar="PATH|ID|tiny", help="folder, Hugging Face id, or 'tiny'")
    parser.add_argument("--served-name", required=True, help="the name clients ask for")
    parser.add_argument("--revision", default="")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--status-port", type=int, default=8080)
    parser.add_argument("--startup-timeout", type=float, default=900, metavar="SECONDS")
    parser.add_argument("--drain-timeout", type=float, default=120, metavar="SECONDS")
    parser.add_argument("--propagation-seconds", type=float, default=5, help="how long routers may still send requests")
    parser.add_argument("--peer", action="append", default=[], metavar="HOST:PORT", help="status port of another rank")
    parser.add_argument(
        "--leader", default="", metavar="HOST:PORT", help="of a rank without an API: its leader's status"
    )
    parser.add_argument("--termination-log", type=Path, default=Path("/dev/termination-log"))
    parser.add_argument("flags", nargs="*", metavar="--name=value", help="vLLM's own, after a lone --")
    parser.set_defaults(run=_run_serve)


def _run_serve(options: argparse.Namespace) -> int:
    arguments.refuse_ours(options.flags)
    model, flags = options.model, options.flags
    if model == "tiny":
        model = str(Path(os.environ.get("TMPDIR", "/tmp")) / "tiny-model")
        tiny.write(Path(model))
        flags = ["--load-format=dummy", "--enforce-eager", *flags]
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    # Threads beyond the container's share spin against each other: a hundred times slower was seen.
    os.environ.setdefault("OMP_NUM_THREADS", str(cpus()))
    if not compiles():
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    plan = launch.Plan(
        model=model,
        served_name=options.served_name,
        port=options.port,
        revision=options.revision,
        flags=flags,
        leader=options.leader,
        peers=options.peer,
        startup_timeout=options.startup_timeout,
        drain_timeout=options.drain_timeout,
        propagation=options.propagation_seconds,
    )
    asyncio.run(launch.serve(plan, options.status_port))
    return 0


def compiles() -> bool:
    """Whether torch can compile what vLLM asks it to, some of it even with `enforce-eager`: a layer that is divided
    among devices ends at its first token otherwise. For CPUs that takes a C++ compiler, which our image has not."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return not metadata.version("vllm").endswith("+cpu") or shutil.which(os.environ.get("CXX", "g++")) is not None
    return True


def cpus(root: Path = Path("/sys/fs/cgroup")) -> int:
    """CPUs that this container may use at a time: its limit in cgroup v2 or v1, else the machine's; at least 1."""
    machine = len(os.sched_getaffinity(0))
    v2, v1 = root / "cpu.max", root / "cpu"
    if v2.exists():
        quota, period = v2.read_text().split()
    elif (v1 / "cpu.cfs_quota_us").exists():
        quota = (v1 / "cpu.cfs_quota_us").read_text().strip()
        period = (v1 / "cpu.cfs_period_us").read_text().strip()
    else:
        return machine
    return machine if quota in ("max", "-1") else max(1, min(machine, int(quota) // int(period)))


def _hold(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engines", required=True, metavar="HOST:PORT", help="headless Service of the engines")
    parser.add_argument("--service", default="", metavar="HOST:PORT", help="routers that take over what is held")
    parser.add_argument("--policy", default="PrefixAware", help="PrefixAware, SessionAware, LeastLoaded or RoundRobin")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--status-port", type=int, default=8080)
    parser.add_argument("--engine-status-port", type=int, default=8080)
    parser.add_argument("--max-held", type=int, default=1024, metavar="REQUESTS")
    parser.add_argument("--hold-timeout", type=float, default=900, metavar="SECONDS")
    parser.add_argument("--drain-timeout", type=float, default=120, metavar="SECONDS")
    parser.add_argument("--propagation-seconds", type=float, default=5)
    parser.set_defaults(run=_run_hold)


def _run_hold(options: argparse.Namespace) -> int:
    # Not needed by an engine pod.
    from ballast_serving.hold.balancer import Policy
    from ballast_serving.hold.proxy import Limits
    from ballast_serving.hold.server import Plan, hold

    plan = Plan(
        engines=options.engines,
        service=options.service,
        policy=Policy(options.policy),
        port=options.port,
        status_port=options.status_port,
        engine_status_port=options.engine_status_port,
        limits=Limits(held=options.max_held, timeout=options.hold_timeout),
        drain_timeout=options.drain_timeout,
        propagation=options.propagation_seconds,
        api_key=os.environ.get("VLLM_API_KEY", ""),
    )
    asyncio.run(hold(plan))
    return 0


def _run_tiny(options: argparse.Namespace) -> int:
    tiny.write(options.out)
    return 0


def _run_check(options: argparse.Namespace) -> int:
    arguments.check(options.flags)
    return 0
