"""`make deploy`: the chart, with the images of this checkout, into the cluster that KUBECONFIG names."""

import sys

from e2e.cluster.errors import ClusterError
from e2e.cluster.images import names
from e2e.support.chart import ChartError, deploy
from e2e.support.kube import Kube, Refused, current_kubeconfig


def main() -> int:
    kubeconfig = current_kubeconfig()
    if kubeconfig is None:
        print("error: KUBECONFIG is not set; `make cluster-up` starts a cluster and prints the line", file=sys.stderr)
        return 2
    try:
        print(deploy(Kube(kubeconfig), names()))
    except (ChartError, ClusterError, Refused) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
