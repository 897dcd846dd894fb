"""A crash after any write leaves nothing that the next start does not put right."""

import pytest

from e2e.chaos.state import end_state
from e2e.support.fixtures import Namespaces, OperatorHere
from e2e.support.kube import Kube, Object, eventually, is_true, reason, solve

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


@pytest.mark.e2e
def test_a_crash_after_any_write_ends_in_the_same_state(namespaces: Namespaces, operator_here: OperatorHere) -> None:
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
        crashed = operator.exit_code() == 137
        with operator:
            assert settle(kube) == expected, f"after a crash at write {write}"
        namespaces.drop(kube)
        if not crashed:
            break
    print(f"crashed after each of {write - 1} writes, and killed at rest; the same end state each time")
    assert 15 <= write - 1 < MOST
