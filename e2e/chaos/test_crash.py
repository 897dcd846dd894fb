"""A crash after any write leaves nothing that the next start does not put right."""

import signal
from collections.abc import Callable

import pytest

from e2e.chaos.state import end_state
from e2e.support.fixtures import Namespaces, OperatorHere
from e2e.support.kube import Kube, Object, eventually, is_true, reason, solve
from e2e.support.serving import moe

CRASHED = 137
MOST = 45  # far more writes than it takes; the matrix ends at the first one that is not reached


def settle(kube: Kube) -> list[Object]:
    """The end state once the running solve runs, the suspended one is, and the broken one says why."""
    kube.until("cfr", "runs", reason("Progressing", "Running"), 90)
    kube.until("cfr", "waits", is_true("Suspended"), 30)
    kube.until("cfr", "stuck", reason("Progressing", "InsufficientCapacity"), 60)
    return end_state(kube)


def ask(kube: Kube) -> None:
    kube.apply(
        solve("runs", stop={"maxSeconds": 3600}),
        solve("waits", suspend=True),
        solve("stuck", template={"nodeSelector": {"disk": "none-such"}}),
    )


def settle_servings(kube: Kube) -> list[Object]:
    """The end state once every serving says why it waits."""
    for name in ("plain", "scaled"):
        kube.until("moe", name, reason("Ready", "InsufficientCapacity"), 90)
        kube.until("moe", name, reason("Progressing", "RolledOut"), 30)
    kube.until("moe", "scaled", lambda obj: obj["spec"]["replicas"] == 2, 60)
    kube.until("deployment", "scaled-engine", lambda obj: obj["spec"]["replicas"] == 2, 30)
    return end_state(kube)


def ask_servings(kube: Kube) -> None:
    """No node takes their pods, so no image is needed. One has an autoscaler, which writes to /scale."""
    nowhere = {"template": {"nodeSelector": {"disk": "none-such"}}}
    kube.apply(
        moe("plain", router=nowhere, **nowhere),
        moe("scaled", router=nowhere, autoscaling={"minReplicas": 2, "maxReplicas": 3}, **nowhere),
    )


CASES: dict[str, tuple[Callable[[Kube], None], Callable[[Kube], list[Object]]]] = {
    "solves": (ask, settle),
    "servings": (ask_servings, settle_servings),
}


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_a_crash_after_any_write_ends_in_the_same_state(
    case: str, namespaces: Namespaces, operator_here: OperatorHere
) -> None:
    ask, settle = CASES[case]
    calm = namespaces.new()
    ask(calm)
    with operator_here(calm.namespace):
        expected = settle(calm)
    namespaces.drop(calm)
    for write in range(1, MOST + 1):
        kube = namespaces.new()
        ask(kube)
        operator = operator_here(kube.namespace)
        operator.start(BALLAST_CRASH_AFTER_WRITES=str(write))
        try:
            eventually(lambda: operator.exit_code() is not None, 20, lambda: "no crash")  # noqa: B023
        except AssertionError:
            operator.kill()  # all writes were made: a kill at rest is the last case
        code = operator.exit_code()
        crashed = code == CRASHED
        assert crashed or code == -signal.SIGKILL, f"it ended by itself with {code} before write {write}"
        with operator:
            assert settle(kube) == expected, f"after a crash at write {write}"
        namespaces.drop(kube)
        if not crashed:
            break
    print(f"crashed after each of {write - 1} writes, and killed at rest; the same end state each time")
    assert 15 <= write - 1 < MOST
