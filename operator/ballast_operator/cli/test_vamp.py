"""What people are told of VAMP: by `kubectl ballast`, and by Events."""

from typing import Any

from ballast_operator.cli import status as status_command
from ballast_operator.cli.target import Target
from ballast_operator.cli.why import lines
from ballast_operator.kind import Children
from ballast_operator.objects import Object
from ballast_operator.observe import moeserving
from ballast_operator.observe.moeserving.vllm import VampState
from ballast_operator.reconciler import notices
from ballast_operator.testing_serving import INSTALLATION, deployment, metrics, pod, serving, serving_object, situation

VAMP: Object = {"maxOffload": "1Gi"}
QWEN = Target.parse("moe/qwen", "team-a")
NO_CUDA = VampState(reason="NoCuda", message="the engine runs on CPUs")


def told(state: VampState) -> Object:
    """The status of a serving whose one replica says this."""
    asked = serving(vamp=VAMP)
    gathered: dict[str, Any] = {"http://10.0.0.9:8080/metrics": metrics(vamp=state)}
    children = (deployment(), deployment("router", replicas=2), pod(model=asked))
    return moeserving.observe(situation(asked, *children, gathered=gathered), INSTALLATION).status


def why(state: VampState) -> str:
    return "\n".join(lines(QWEN, serving_object(status=told(state), vamp=VAMP)))


def test_why_names_a_replica_without_vamp_although_all_is_ready() -> None:
    said = why(NO_CUDA)
    assert "is Ready (NoCuda): pod qwen-engine-x: the engine runs on CPUs; it serves without VAMP" in said
    assert "cause: the pods have no GPU" in said
    assert "is Ready (AllReplicasReady)" in why(VampState(active=True))
    assert "is Ready (AllReplicasReady)" in why(VampState(reason="DryRun"))


def test_status_shows_both_conditions() -> None:
    obj = serving_object(status=told(NO_CUDA), vamp=VAMP)
    shown = "\n".join(status_command.lines(QWEN, obj, Children()))
    assert "VampActive=False NoCuda" in shown
    assert "VampDisabled=True NoCuda" in shown


def test_one_step_is_one_event_and_being_off_is_a_warning() -> None:
    step = [n for n in notices(told(VampState(active=True)), told(NO_CUDA)) if n.reason == "NoCuda"]
    assert len({(n.message, n.warning) for n in step}) == 1
    assert step[0].warning
    for quiet, reason in ((VampState(active=True), "Balancing"), (VampState(reason="DryRun"), "DryRun")):
        found = [n for n in notices({}, told(quiet)) if n.reason == reason]
        assert found
        assert not any(n.warning for n in found)
