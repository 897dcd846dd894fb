"""A GPU node for real: `pack` where there is a network, `unpack` and `run` on the machine with the GPU.

python -m e2e.gpu pack DIR                 # programs and packages, in parts that travel one by one
python -m e2e.gpu unpack PART --home DIR   # over there, once for each part
python -m e2e.gpu run --home DIR -- -k cfrsolve
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.steps import Steps

SOURCES = ("crds", "operator", "drivers", "workloads")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.gpu", description=__doc__)
    commands = parser.add_subparsers(required=True)
    pack = commands.add_parser("pack", help="build and download everything, into parts")
    pack.add_argument("out", type=Path)
    pack.add_argument("--python", default="3.12", help="Python of the machine with the GPU (default: %(default)s)")
    pack.set_defaults(run=_pack)
    unpack = commands.add_parser("unpack", help="one part, on the machine with the GPU")
    unpack.add_argument("part", type=Path)
    unpack.add_argument("--home", type=Path, required=True)
    unpack.set_defaults(run=_unpack)
    run = commands.add_parser("run", help="bring the node up and run scenarios against it")
    run.add_argument("--home", type=Path, required=True)
    run.add_argument("pytest", nargs="*", help="arguments of pytest, such as -k cfrsolve")
    run.set_defaults(run=_run)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
        return code
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _pack(options: argparse.Namespace) -> int:
    from e2e.gpu.pack import pack

    for part in pack(options.out, options.python, Steps()):
        print(part)
    return 0


def _unpack(options: argparse.Namespace) -> int:
    from e2e.gpu.pack import unpack

    unpack(options.part, options.home)
    return 0


def _run(options: argparse.Namespace) -> int:
    """In a second Python, which finds the unpacked packages and programs."""
    if os.environ.get("BALLAST_GPU_HOME") != str(options.home):
        paths = [str(CHECKOUT), *(str(CHECKOUT / source) for source in SOURCES), str(options.home / "site")]
        environment = os.environ | {
            "BALLAST_GPU_HOME": str(options.home),
            "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
            "XDG_CACHE_HOME": str(options.home / "cache"),
            "PATH": f"{options.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        os.execve(sys.executable, [sys.executable, "-m", "e2e.gpu", *sys.argv[1:]], environment)
    from e2e.gpu.node import GpuNode

    node = GpuNode(options.home / "node")
    try:
        node.up(Steps())
        environment = os.environ | {"KUBECONFIG": str(node.layout.kubeconfig)}
        where = str(CHECKOUT / "e2e" / "gpu" / "scenarios")
        command = [sys.executable, "-m", "pytest", "-rP", "-m", "gpu", "-p", "no:cacheprovider", where, *options.pytest]
        return subprocess.run(command, env=environment, cwd=CHECKOUT, check=False).returncode
    finally:
        node.down()


if __name__ == "__main__":
    sys.exit(main())
