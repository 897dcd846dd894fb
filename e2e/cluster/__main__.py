"""`python -m e2e.cluster`: parse, call, print."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.cluster import images, status
from e2e.cluster.addons import table
from e2e.cluster.down import down
from e2e.cluster.errors import ClusterError
from e2e.cluster.local import LocalCluster
from e2e.cluster.steps import Steps
from e2e.cluster.up import up


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options) or 0)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it was", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    bring = commands.add_parser("up", help="start the cluster, or what is missing of it")
    names = ", ".join(table.KNOWN)
    bring.add_argument(
        "--with",
        dest="addons",
        default=",".join(table.DEFAULT),
        metavar="ADDONS",
        help=f"add-ons, separated by commas: {names}, none, or all but {', '.join(table.ON_REQUEST)} as all "
        "(default: %(default)s)",
    )
    bring.set_defaults(run=_up)
    commands.add_parser("down", help="end it and leave nothing behind").set_defaults(run=_down)
    commands.add_parser("status", help="what runs, and where its logs are").set_defaults(run=_status)
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig").set_defaults(run=_kubeconfig)

    log = commands.add_parser("logs", help="the end of a daemon's log; without a name, which there are")
    log.add_argument("name", nargs="?")
    log.add_argument("-n", dest="lines", type=int, default=50, help="how many lines (default: 50)")
    log.set_defaults(run=_logs)

    load = commands.add_parser("load-image", help="import an image archive into every node")
    load.add_argument("archive", type=Path, nargs="+")
    load.set_defaults(run=_load)

    build = commands.add_parser("images", help="build the project's images and load them into the nodes")
    build.add_argument(
        "target",
        nargs="*",
        default=list(images.DEFAULT),
        help=f"{', '.join(images.SOURCES)} (default: {', '.join(images.DEFAULT)})",
    )
    build.add_argument("--build-only", action="store_true", help="load them into no node")
    build.set_defaults(run=_images)

    node = commands.add_parser("node", help="make a node fail, and come back")
    node.add_argument("action", choices=["restart", "stop", "start", "reboot"], help="restart is kubelet's")
    node.add_argument("name")
    node.set_defaults(run=_node)
    return parser


def _up(options: argparse.Namespace) -> None:
    steps = Steps()
    cluster = up(options.addons.split(","), steps)
    steps.say(f"  {len(cluster.nodes)} nodes Ready, {steps.seconds():.1f} s in all")
    print(f"export KUBECONFIG={cluster.layout.kubeconfig}")


def _down(_: argparse.Namespace) -> None:
    if not down(Steps()):
        print("there is no cluster of this checkout")


def _status(_: argparse.Namespace) -> int:
    return status.show(LocalCluster.find())


def _kubeconfig(_: argparse.Namespace) -> None:
    print(_cluster().layout.kubeconfig)


def _logs(options: argparse.Namespace) -> None:
    cluster = _cluster()
    if options.name is None:
        for path in sorted(cluster.layout.logs.glob("*.log")):
            print(f"{path.stem:<28} {path}")
        return
    path = cluster.daemons.log(options.name)
    if not path.exists():
        raise ClusterError(f"there is no log {path}; `python -m e2e.cluster logs` lists them")
    print(*path.read_text(errors="replace").splitlines()[-options.lines :], sep="\n")


def _load(options: argparse.Namespace) -> None:
    steps, cluster = Steps(), _cluster()
    for archive in options.archive:
        with steps.step(f"{archive.name} into {len(cluster.nodes)} nodes"):
            cluster.load(archive)


def _images(options: argparse.Namespace) -> None:
    steps = Steps()
    built = images.build(steps, [target for target in options.target if target not in images.LAYERED])
    cluster = None if options.build_only else LocalCluster.find()
    if cluster:
        images.loaded(cluster, built, steps)
    for target in (target for target in options.target if target in images.LAYERED):
        large = images.build_layered(target, steps)
        if cluster:
            images.loaded_layered(cluster, large, steps)
        print(f"{large.name}  {large.size / 1e6:.0f} MB  {large.layout}")
    for image in built:
        print(f"{image.name}  {image.archive.stat().st_size / 1e6:.0f} MB  {image.archive}")


def _node(options: argparse.Namespace) -> None:
    steps, node = Steps(), _cluster().node(options.name)
    action = {
        "restart": node.restart_kubelet,
        "stop": node.stop,
        "start": node.start,
        "reboot": node.reboot,
    }[options.action]
    with steps.step(f"{options.action} {node.name}"):
        action()


def _cluster() -> LocalCluster:
    cluster = LocalCluster.find()
    if cluster is None:
        raise ClusterError("there is no cluster of this checkout; start one with `python -m e2e.cluster up`")
    return cluster


if __name__ == "__main__":
    sys.exit(main())
