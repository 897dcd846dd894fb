"""Five hundred solves at once: time, memory and writes, printed for docs/performance/operator.md."""

import re
import time
import urllib.request
from pathlib import Path

import pytest

from e2e.support.audit import Audit, writes
from e2e.support.fixtures import Namespaces, OperatorHere
from e2e.support.kube import Kube, solve
from e2e.support.operator import ACCOUNT, SYSTEM

PORT = 18970
GOAL_SECONDS_PER_THOUSAND = 20.0
GOAL_MEBIBYTES = 150


@pytest.mark.long
@pytest.mark.timeout(960)
@pytest.mark.parametrize("many", [500])
@pytest.mark.parametrize("suspended", [True, False], ids=["suspended", "pending"])
def test_many_solves_converge(
    many: int, suspended: bool, namespaces: Namespaces, operator_here: OperatorHere, audit: Audit
) -> None:
    kube = namespaces.new()
    spec = {"suspend": True} if suspended else {"template": {"nodeSelector": {"disk": "none-such"}}}
    kube.apply(*(solve(f"s{number}", **spec) for number in range(many)))
    operator = operator_here(kube.namespace, BALLAST_METRICS_PORT=str(PORT))
    position, started = audit.now(), time.monotonic()
    with operator:
        while settled(kube) < many:
            assert time.monotonic() - started < 600, f"{settled(kube)} of {many} after 600 s"
            time.sleep(1)
        took = time.monotonic() - started
        ours = writes(audit.by(f"system:serviceaccount:{SYSTEM}:{ACCOUNT}", position))
        status = Path(f"/proc/{operator.pid}/status").read_text()
        memory = max(int(kib) // 1024 for kib in re.findall(r"VmHWM:\s+(\d+)", status))
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
            cpu = re.search(r"process_cpu_seconds_total ([0-9.]+)", answer.read().decode())
        assert cpu
    print(
        f"{many} {'suspended' if suspended else 'pending'} solves: {took:.0f} s "
        f"({took / many * 1000:.0f} s a thousand, goal {GOAL_SECONDS_PER_THOUSAND:.0f}), {len(ours)} writes "
        f"({len(ours) / many:.1f} a solve), {float(cpu[1]):.0f} s of the operator's CPU, "
        f"{memory} MiB at most (goal {GOAL_MEBIBYTES})"
    )
    namespaces.drop(kube)
    # an operator that comes back meanwhile would look at all of them before it sees what the next test asks
    kube.gone("namespace", kube.namespace, 300)
    assert memory < 2 * GOAL_MEBIBYTES


def settled(kube: Kube) -> int:
    """Solves whose status says where they stand."""
    text = kube.run("get", "cfr", "-o", r'jsonpath={range .items[*]}{.status.phase}{"\n"}{end}')
    return sum(line in ("Suspended", "Pending") for line in text.splitlines())
