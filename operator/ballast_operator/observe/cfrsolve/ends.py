"""How a solve ended: what the Job's condition says, in the words of the solver that knows why."""

from dataclasses import dataclass, field
from typing import Any

from ballast_api.conditions import Reason, Type
from ballast_operator.desired.cfrsolve.job import BAD_INPUT, CHECKPOINT_MISMATCH
from ballast_operator.desired.cfrsolve.volumes import CHECKPOINT, OUTPUT
from ballast_operator.objects import Object
from ballast_operator.observe.cfrsolve.checks import how_it_ended
from ballast_operator.observe.cfrsolve.view import View


@dataclass(frozen=True)
class End:
    """A final answer, with what the solver said at the end."""

    type: Type
    reason: Reason
    message: str
    summary: dict[str, Any] = field(default_factory=dict)
    result: Object = field(default_factory=dict)


def end(view: View) -> End | None:
    """The end, or None while the solve goes on."""
    if view.job_condition("Complete") or view.job_condition("SuccessCriteriaMet"):
        return _complete(view)
    if failed := view.job_condition("Failed"):
        return _failed(view, failed)
    return None


def _complete(view: View) -> End:
    finished = view.ending(view.succeeded)
    said = finished.said if finished else {}
    reason = _reason(said, Reason.TARGET_REACHED if said else Reason.JOB_COMPLETE)
    message = str(said.get("message") or "the solver finished; its pod is gone, and its last words with it")
    if said and not said.get("configMap", True):
        reason, message = Reason.RESULT_TOO_LARGE, f"{message}; {said.get('configMapMessage')}"
    return End(Type.COMPLETE, reason, message, said, _result(view, said))


def _failed(view: View, failed: Object) -> End:
    finished = view.ending(view.last_ended)
    if finished and finished.exit_code in (BAD_INPUT, CHECKPOINT_MISMATCH):
        usual = Reason.INVALID_GAME if finished.exit_code == BAD_INPUT else Reason.CHECKPOINT_MISMATCH
        text = str(finished.said.get("message") or finished.message)
        return End(Type.FAILED, _reason(finished.said, usual), text)
    if failed["reason"] == "DeadlineExceeded":
        limit = view.solve.spec.active_deadline_seconds
        return End(Type.FAILED, Reason.DEADLINE_EXCEEDED, f"ran longer than activeDeadlineSeconds, {limit} s")
    if finished and finished.reason == "OOMKilled":
        return End(Type.FAILED, Reason.OUT_OF_MEMORY, f"the last pod {how_it_ended(view)}")
    limit = view.solve.spec.backoff_limit
    text = f"more pods failed than backoffLimit, {limit}, allows; the last one {how_it_ended(view)}"
    return End(Type.FAILED, Reason.BACKOFF_LIMIT_EXCEEDED, text)


def _reason(said: dict[str, Any], usual: Reason) -> Reason:
    try:
        return Reason(said["reason"])
    except (KeyError, ValueError):
        return usual


def _result(view: View, said: dict[str, Any]) -> Object:
    """Where the strategy lies: the ConfigMap when it fits, and the volume that has the whole."""
    found: Object = {}
    if said.get("configMap", True):
        found["configMapRef"] = {"name": view.names.child("strategy")}
    output, checkpoint = view.solve.spec.output.persistent_volume_claim, view.solve.spec.checkpoint
    file = str(said.get("file") or "")
    if output and file.startswith(OUTPUT):
        found["persistentVolumeClaim"] = {"claimName": output.claim_name, "path": output.path}
    elif file.startswith(CHECKPOINT) and checkpoint.ephemeral is None:
        users, inner = checkpoint.persistent_volume_claim, file.removeprefix(CHECKPOINT + "/")
        found["persistentVolumeClaim"] = {
            "claimName": users.claim_name if users else view.names.child("checkpoint"),
            "path": f"{users.path}/{inner}" if users else inner,
        }
    return found
