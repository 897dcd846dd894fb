"""Whether VAMP works in a serving's replicas, as each of them says on its own metrics page.

Two conditions that say the same from both sides, so that either can be waited for: VampActive is True only when every
replica that serves may move memory; VampDisabled is True as soon as one may not, with that replica's reason. A serving
with VAMP off serves as well as one without: neither condition touches Ready.
"""

from ballast_api.conditions import Reason, Type
from ballast_operator.observe.conditions import Answer
from ballast_operator.observe.moeserving.view import View, ready
from ballast_operator.observe.moeserving.vllm import VampState

LOOK_SECONDS = 10.0
TYPES = (Type.VAMP_ACTIVE, Type.VAMP_DISABLED)
_KNOWN = frozenset(Reason)


def answers(view: View) -> list[Answer]:
    """Both conditions, or none where the spec does not ask for VAMP."""
    if view.serving.spec.vamp is None:
        return []
    serving = [pod for pod in view.engines if ready(pod)]
    if not serving:
        return _both(None, None, Reason.PODS_NOT_READY, "no replica serves that could say")
    measured = {pod["metadata"]["name"]: view.measured(pod) for pod in serving}
    silent = sorted(name for name, numbers in measured.items() if numbers is None)
    states = {name: numbers.vamp for name, numbers in sorted(measured.items()) if numbers is not None}
    for pod, state in states.items():
        if told := _off(state):
            return _both(False, True, told[0], f"pod {pod}: {told[1]}; it serves without VAMP")
    if silent:
        return _both(None, None, Reason.METRICS_UNAVAILABLE, f"no metrics of {', '.join(silent[:3])}")
    many = f"{len(states)} of {len(states)} replicas"
    if not all(state and state.active for state in states.values()):
        return _both(False, False, Reason.DRY_RUN, f"{many} decide and move nothing, as vamp.mode DryRun asks")
    apart = sorted(pod for pod, state in states.items() if state and state.degraded)
    if apart:
        message = f"pod {apart[0]}: a move succeeded on some of its devices only; it goes on with what all of them have"
        return _both(True, False, Reason.RANKS_DISAGREE, message)
    return _both(True, False, Reason.BALANCING, f"{many} move memory between experts and KV cache as the load asks")


def _off(state: VampState | None) -> tuple[Reason, str] | None:
    """Why a replica moves nothing, though it should; a dry run does what it was asked for."""
    if state is None:
        return Reason.PLUGIN_MISSING, "its image has no VAMP plugin; a change of the spec brings this release's image"
    if state.active or state.reason == Reason.DRY_RUN:
        return None
    if state.reason in _KNOWN:
        return Reason(state.reason), state.message or state.reason
    return Reason.UNKNOWN_REASON, f"{state.reason or 'it gives no reason'}: {state.message}"


def _both(active: bool | None, disabled: bool | None, reason: Reason, message: str) -> list[Answer]:
    return [Answer(Type.VAMP_ACTIVE, active, reason, message), Answer(Type.VAMP_DISABLED, disabled, reason, message)]
