"""What people read of VAMP in a serving: which replicas use it, and why one does not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_api.conditions import Reason, readable
from ballast_operator.kind import Children, Observation
from ballast_operator.objects import Object
from ballast_operator.observe import moeserving
from ballast_operator.observe.moeserving import needs, probes, vllm
from ballast_operator.observe.moeserving.vllm import VampState
from ballast_operator.testing_serving import INSTALLATION, deployment, metrics, pod, serving, situation

VAMP: Object = {"maxOffload": "1Gi"}
ROUTER = deployment("router", replicas=2)
NO_CUDA = VampState(reason="NoCuda", message="the engine runs on CPUs")
DRY = VampState(reason="DryRun", message="memory stays where it is")
ACTIVE = VampState(active=True)


def seen(*states: VampState | str | None, previous: Object | None = None, **spec: Any) -> Observation:
    """The observation of a serving whose replicas say this; None: without the plugin; a text: that one is silent."""
    asked = serving(replicas=len(states) or 1, vamp=VAMP, **spec)
    found = [pod(name=f"p{n}", address=f"10.0.0.{n + 1}", model=asked) for n, _ in enumerate(states)]
    answers = {
        f"http://10.0.0.{n + 1}:8080/metrics": None if isinstance(state, str) else metrics(vamp=state)
        for n, state in enumerate(states)
    }
    whole = deployment(replicas=len(states) or 1, available=len(states))
    asked_about = situation(asked, whole, ROUTER, *found, gathered=answers, previous=previous or {})
    return moeserving.observe(asked_about, INSTALLATION)


def both(observed: Observation) -> dict[str, tuple[str, str]]:
    found = {c["type"]: (c["status"], c["reason"]) for c in observed.status["conditions"]}
    return {name: found[name] for name in ("VampActive", "VampDisabled") if name in found}


def message(observed: Observation) -> str:
    return next(str(c["message"]) for c in observed.status["conditions"] if c["type"] == "VampDisabled")


@pytest.mark.parametrize(
    ("states", "active", "disabled", "reason", "words"),
    [
        ((ACTIVE, ACTIVE), "True", "False", "Balancing", "2 of 2 replicas move memory"),
        ((ACTIVE, NO_CUDA), "False", "True", "NoCuda", "pod p1: the engine runs on CPUs; it serves without VAMP"),
        ((None,), "False", "True", "PluginMissing", "its image has no VAMP plugin"),
        ((DRY, DRY), "False", "False", "DryRun", "decide and move nothing"),
        ((VampState(True, degraded=True),), "True", "False", "RanksDisagree", "pod p0"),
        ((VampState(reason="FromTheFuture", message="new"),), "False", "True", "UnknownReason", "FromTheFuture: new"),
        ((VampState(),), "False", "True", "UnknownReason", "it gives no reason"),
        ((ACTIVE, "silent"), "Unknown", "Unknown", "MetricsUnavailable", "no metrics of p1"),
        ((), "Unknown", "Unknown", "PodsNotReady", "no replica serves"),
    ],
)
def test_both_conditions_say_what_the_replicas_say(
    states: tuple[Any, ...], active: str, disabled: str, reason: str, words: str
) -> None:
    observed = seen(*states)
    assert both(observed) == {"VampActive": (active, reason), "VampDisabled": (disabled, reason)}
    assert words in message(observed)


def test_a_serving_that_does_not_ask_has_neither_and_loses_what_it_had() -> None:
    before = seen(ACTIVE).status
    asked = situation(serving(), deployment(), ROUTER, pod(), previous=before)
    assert both(moeserving.observe(asked, INSTALLATION)) == {}


def test_ready_does_not_depend_on_vamp() -> None:
    found = {c["type"]: c["status"] for c in seen(NO_CUDA).status["conditions"]}
    assert (found["Ready"], found["VampDisabled"]) == ("True", "True")


def test_engines_are_asked_and_looked_at_again_only_where_vamp_is_wanted() -> None:
    assert [probe.url for probe in probes(serving(vamp=VAMP), Children([pod()]))] == ["http://10.0.0.9:8080/metrics"]
    assert probes(serving(), Children([pod()])) == []
    assert seen(ACTIVE).again == 10.0
    assert moeserving.observe(situation(serving(), deployment(), ROUTER, pod()), INSTALLATION).again is None


def test_a_profile_that_is_missing_is_named() -> None:
    asked = serving(vamp=VAMP | {"profileConfigMapRef": {"name": "hot", "key": "qwen.json"}})
    (need,) = needs(asked, Children())
    assert (need.resource.kind, need.name, need.key, need.field) == (
        "ConfigMap",
        "hot",
        "qwen.json",
        "vamp.profileConfigMapRef",
    )
    assert not needs(asked, Children([pod()]))


PAGE = """\
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="q"} 1.0
vllm:num_requests_waiting{engine="0",model_name="q"} 2.0
"""


def test_the_plugins_words_are_read_from_the_metrics_page() -> None:
    page = PAGE + (
        "vamp:active 0.0\nvamp:degraded 0.0\n"
        'vamp:disabled_info{message="no device: \\"cuda\\" is {not} there, at all",reason="NoCuda"} 1.0\n'
    )
    assert vllm.read(page.encode()).vamp == VampState(
        reason="NoCuda", message='no device: "cuda" is {not} there, at all'
    )
    assert vllm.read(PAGE.encode()).vamp is None
    assert vllm.read((PAGE + "vamp:active 1.0\nvamp:degraded 1.0\n").encode()).vamp == VampState(True, True)


def test_a_pod_with_several_engines_is_active_only_if_all_are() -> None:
    page = PAGE + 'vamp:active{engine="0"} 1.0\nvamp:active{engine="1"} 0.0\nvamp:disabled_info{reason="NoVmm"} 1\n'
    found = vllm.read(page.encode()).vamp
    assert found is not None
    assert (found.active, found.reason) == (False, "NoVmm")


STATES = (
    st.none()
    | st.just("silent")
    | st.builds(
        VampState,
        st.booleans(),
        st.booleans(),
        st.sampled_from(["", "NoCuda", "DryRun", "RoutingTooFlat", "Whatever"]),
        st.text(max_size=40),
    )
)


@settings(deadline=None)
@given(st.lists(STATES, max_size=4))
def test_the_two_conditions_never_contradict_each_other(states: list[Any]) -> None:
    observed = seen(*states)
    (active, reason), (disabled, same) = both(observed).values()
    assert (active, disabled) != ("True", "True")
    assert (active == "Unknown") == (disabled == "Unknown")
    assert reason == same
    assert reason in set(Reason)
    assert (active == "True") == (bool(states) and all(isinstance(s, VampState) and s.active for s in states))
    kept = readable(observed.status["conditions"])
    assert len(kept) == len(observed.status["conditions"])
