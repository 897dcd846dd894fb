"""`make demo`: a CFRSolve from applied to Complete on a real Kubernetes, for somebody who has never seen either."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from e2e.cluster import api
from e2e.cluster.errors import ClusterError
from e2e.cluster.steps import Steps
from e2e.support.chart import ChartError, deploy
from e2e.support.kube import Kube, Refused, condition

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "cfrsolve-leduc.yaml"
IMAGES = ("operator", "cfr")  # of those that the chart installs by default
WATCH_SECONDS = 180

NEXT = """
What to try next:
  export KUBECONFIG={kubeconfig} PATH={bin}:$PATH
  kubectl explain cfr.spec.stop
  kubectl ballast status cfr/leduc
  kubectl apply -f docs/examples/cfrsolve-template.yaml && kubectl get cfr -w
  make cluster-down                                  # end the cluster; nothing stays
"""


def main() -> int:
    try:
        kube = bring_up()
        solve(kube)
        show(kube)
    except (ClusterError, ChartError, Refused, AssertionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it was", file=sys.stderr)
        return 130
    print(NEXT.format(kubeconfig=kube.kubeconfig, bin=Path(sys.executable).parent))
    return 0


def bring_up() -> Kube:
    """The cluster, the images in its nodes, and the operator."""
    steps = Steps()
    with _images_beside():
        cluster = api.ensure(addons=("local-path",), steps=steps)  # checkpoints ask for a volume
    images = cluster.ensure_images(steps, IMAGES)
    kube = Kube(cluster.kubeconfig)
    with steps.step("the operator, from its chart"):
        deploy(kube, images)
    return kube


@contextmanager
def _images_beside() -> Iterator[None]:
    """Build what the local cluster's nodes will run while Kubernetes is built: one waits for the network, the other for
    the processor. A build that fails tells why when the images are asked for."""
    if api.given() is not None or api.uses_kind():
        yield
        return
    command = [sys.executable, "-m", "e2e.cluster", "images", "--build-only", *IMAGES]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    teller = threading.Thread(target=_tell, args=(process.stderr,))
    teller.start()
    try:
        yield
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        teller.join()


def _tell(lines: TextIO) -> None:
    """Whole lines of the other process, between those of this one."""
    for line in lines:
        sys.stderr.write(("\r\033[K" if sys.stderr.isatty() else "") + line)
        sys.stderr.flush()


def solve(kube: Kube) -> None:
    """Apply the example anew and say what its status says until it ends."""
    kube.delete("cfr", "leduc")
    print(f"\n$ kubectl apply -f {EXAMPLE.relative_to(EXAMPLE.parents[2])}")
    print(kube.run("apply", "-f", str(EXAMPLE)).strip(), flush=True)
    said, until = "", time.monotonic() + WATCH_SECONDS
    while time.monotonic() < until:
        obj = kube.get("cfr", "leduc") or {}
        now = _line(obj)
        if now != said:
            print(f"  {now}", flush=True)
            said = now
        if condition(obj, "Complete").get("status") == "True":
            return
        if condition(obj, "Failed").get("status") == "True":
            raise AssertionError(condition(obj, "Failed")["message"])
        time.sleep(0.5)
    raise AssertionError(f"CFRSolve leduc did not end within {WATCH_SECONDS} s; last: {said}")


def _line(obj: dict[str, object]) -> str:
    for name in ("Failed", "Complete", "Progressing"):
        if (found := condition(obj, name)) and (name == "Progressing" or found["status"] == "True"):
            return f"{found['reason']}: {found['message']}"
    return "applied"


def show(kube: Kube) -> None:
    """What a user would look at."""
    print("\n$ kubectl get cfr")
    print(kube.run("get", "cfr"), end="")
    print("\n$ kubectl get configmap leduc-strategy -o jsonpath='{.data.strategy\\.csv}' | head -8")
    text = kube.run("get", "configmap", "leduc-strategy", "-o", r"jsonpath={.data.strategy\.csv}")
    print("\n".join(text.splitlines()[:8]))


if __name__ == "__main__":
    sys.exit(main())
