"""The chart into a cluster, as `make deploy` and the scenarios do it."""

import subprocess
from pathlib import Path

from e2e.cluster.tools import helm
from e2e.support.kube import Kube
from e2e.support.operator import SYSTEM

CHART = Path(__file__).parents[2] / "charts" / "ballast"
RELEASE = "ballast"


class ChartError(RuntimeError):
    """helm said no; the text is what it said."""


def _camel(target: str) -> str:
    """A target's name in values: cfr-gpu is images.cfrGpu."""
    first, *others = target.split("-")
    return first + "".join(word.capitalize() for word in others)


def run_helm(kube: Kube, *arguments: str, seconds: float = 180) -> str:
    """Standard output of helm against this cluster. Raises ChartError."""
    command = [str(helm()), "--kubeconfig", str(kube.kubeconfig), *arguments]
    done = subprocess.run(command, text=True, capture_output=True, timeout=seconds, check=False)
    if done.returncode:
        raise ChartError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def deploy(kube: Kube, images: dict[str, str], *values: str, chart: Path = CHART) -> str:
    """Install or upgrade the chart with these images and further `--set` values; returns when it is rolled out."""
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": SYSTEM, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }
    )
    settings = [f"images.{_camel(name)}={image}" for name, image in images.items()] + list(values)
    flags = [part for setting in settings for part in ("--set", setting)]
    return run_helm(
        kube, "upgrade", "--install", RELEASE, str(chart), "-n", SYSTEM, "--wait", "--timeout", "120s", *flags
    )
