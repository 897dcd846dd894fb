"""The last words of a pod: one JSON object that the kubelet keeps for the operator."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

LIMIT = 4096

_WHY = {
    "TargetReached": "the target exploitability was reached",
    "IterationLimit": "the iteration limit was reached",
    "TimeLimit": "the time limit was reached",
}


def sentence(facts: Mapping[str, Any]) -> str:
    """How a solve ended, for people."""
    return (
        f"{_WHY[facts['reason']]} at iteration {facts['iteration']}: exploitability {facts['exploitability']:.4g}, "
        f"value {facts['value']:.6g} for the first player, {facts['seconds']:.1f} s of solving"
    )


def sentence_of_batch(reasons: Sequence[str], facts: Mapping[str, Any]) -> str:
    """How a batch ended, for people. reasons: one for each instance."""
    counted = [f"{reasons.count(reason)} times {why}" for reason, why in _WHY.items() if reason in reasons]
    return (
        f"{len(reasons)} instances: {', '.join(counted)}; exploitability {facts['exploitability']:.4g} at most, "
        f"{facts['iteration']} iterations at most, {facts['elapsedSeconds']:.1f} s of solving"
    )


def fit(message: dict[str, Any]) -> bytes:
    """The message as JSON within what the kubelet keeps; only its sentence is ever shortened."""
    whole = json.dumps(message).encode()
    while len(whole) > LIMIT:
        text = message["message"]
        message = {**message, "message": text[: len(text) * 3 // 4] + "..."}
        whole = json.dumps(message).encode()
    return whole
