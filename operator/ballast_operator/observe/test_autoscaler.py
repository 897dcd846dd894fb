"""Replicas follow the load, from and to zero, without flapping and without guessing where nothing answers."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_api.moeserving import MoEServing
from ballast_operator.kind import Observation
from ballast_operator.objects import Object
from ballast_operator.observe import moeserving
from ballast_operator.observe.moeserving.vllm import EngineMetrics
from ballast_operator.testing import NOW
from ballast_operator.testing_serving import INSTALLATION, answers, deployment, metrics, pod, serving, situation

POLL = 5


class Run:
    """A serving under the autoscaler: each look is one poll later, and what it writes to /scale comes true."""

    def __init__(self, replicas: int = 1, **scaling: Any) -> None:
        self.scaling = {"maxReplicas": 5, "scaleDown": {"stabilizationSeconds": 30}} | scaling
        self.replicas = replicas
        self.seconds = 0
        self.remembered: Any = None
        self.status: Object = {}
        self.told: list[str] = []

    def look(self, *engines: EngineMetrics | None, **router: Any) -> Observation:
        """One look, at which so many engines are ready and say this; None for one that does not answer."""
        self.seconds += POLL
        ready = [pod(name=f"e{n}", address=f"10.0.0.{n}") for n in range(len(engines))]
        said = answers({f"10.0.0.{n}": engine for n, engine in enumerate(engines)}, **router)
        seen = moeserving.observe(
            situation(
                self.serving,
                deployment(replicas=self.replicas, available=len(engines)),
                deployment("router"),
                pod("router", address="10.0.1.1"),
                *ready,
                gathered=said,
                previous=self.status,
                remembered=self.remembered,
                now=NOW + timedelta(seconds=self.seconds),
            ),
            INSTALLATION,
        )
        self.remembered, self.status = seen.remember, seen.status
        if seen.replicas is not None:
            self.replicas = seen.replicas
        if seen.scaled:
            self.told.append(seen.scaled.reason)
        return seen

    @property
    def serving(self) -> MoEServing:
        return serving(replicas=self.replicas, autoscaling=self.scaling)

    def reason(self) -> str:
        found = [c["reason"] for c in self.status["conditions"] if c["type"] == "Autoscaling"]
        return str(found[0])


def test_a_queue_adds_replicas_and_says_why() -> None:
    run = Run()
    run.look(metrics(waiting=12, running=4))
    assert run.replicas == 3
    assert run.told == ["ScaledUp"]
    assert run.status["autoscaling"] == {
        "desiredReplicas": 3,
        "lastScaleTime": "2026-01-02T03:04:10Z",
        "metrics": [{"type": "WaitingRequests", "current": "12", "target": "4"}],
    }


def test_replicas_on_their_way_are_not_asked_for_again() -> None:
    run = Run()
    for _ in range(5):
        run.look(metrics(waiting=12, running=4))
    assert run.replicas == 3


def test_an_empty_queue_takes_replicas_away_after_the_window_and_not_before() -> None:
    run = Run(replicas=3)
    for _ in range(6):
        run.look(metrics(), metrics(), metrics(), ago=1)
    assert run.replicas == 3
    for _ in range(2):
        run.look(metrics(), metrics(), metrics(), ago=1)
    assert run.replicas == 1
    assert run.told == ["ScaledDown"]


def test_replicas_that_run_what_others_could_not_stay() -> None:
    run = Run()
    run.look(metrics(waiting=8, running=4))  # four at once are what one can run
    assert run.replicas == 2
    for _ in range(20):
        run.look(metrics(running=4), metrics(running=4))
    assert run.replicas == 2
    for _ in range(20):
        run.look(metrics(running=3), metrics())
    assert run.replicas == 1
    assert run.told == ["ScaledUp", "ScaledDown"]


def test_limits_hold_although_nothing_is_measured() -> None:
    few, many = Run(minReplicas=2), Run(replicas=9)
    few.look()
    many.look()
    assert (few.replicas, many.replicas) == (2, 5)


def test_a_full_cache_adds_replicas() -> None:
    run = Run(metrics=[{"type": "KVCacheUsage", "averageUtilization": 40}])
    run.look(metrics(kv_cache=0.8, running=1))
    assert run.replicas == 2


def test_slow_first_tokens_add_replicas() -> None:
    run = Run(metrics=[{"type": "TTFT", "averageMilliseconds": 500}])
    run.look(metrics(first_token_seconds=10, first_tokens=10))
    assert run.replicas == 1
    run.look(metrics(first_token_seconds=20, first_tokens=20))
    assert run.replicas == 2
    assert run.status["autoscaling"]["metrics"][0]["current"] == "1e+03ms"


def test_idleness_goes_to_zero_after_its_time_and_a_held_request_brings_one_back() -> None:
    run = Run(minReplicas=0, scaleToZeroAfterSeconds=30)
    run.look(metrics(running=1), in_flight=1)
    for _ in range(5):
        run.look(metrics(), ago=run.seconds)
        assert run.replicas == 1
    run.look(metrics(), ago=run.seconds)
    run.look(metrics(), ago=run.seconds)
    assert run.replicas == 0
    for _ in range(3):
        run.look(ago=run.seconds)
        assert run.replicas == 0
    run.look(held=1, in_flight=1, ago=0.0)
    assert run.replicas == 1
    assert run.told == ["ScaledToZero", "ScaledUp"]
    run.look(held=1, in_flight=1, ago=0.0)
    assert run.replicas == 1


def test_the_time_that_a_model_takes_to_load_is_no_idleness() -> None:
    run = Run(minReplicas=0, scaleToZeroAfterSeconds=30)
    for _ in range(20):
        run.look()
        assert run.replicas == 1
    for _ in range(5):
        run.look(metrics())
        assert run.replicas == 1
    for _ in range(2):
        run.look(metrics())
    assert run.replicas == 0


def test_a_router_that_does_not_answer_keeps_the_last_replica() -> None:
    run = Run(minReplicas=0, scaleToZeroAfterSeconds=30)
    for _ in range(20):
        run.seconds += POLL
        seen = moeserving.observe(
            situation(
                run.serving,
                deployment(),
                deployment("router"),
                pod("router", address="10.0.1.1"),
                pod(),
                gathered={"http://10.0.0.9:8080/metrics": metrics()},
                remembered=run.remembered,
                now=NOW + timedelta(seconds=run.seconds),
            ),
            INSTALLATION,
        )
        run.remembered = seen.remember
        assert seen.replicas is None


def test_a_router_on_its_way_out_does_not_answer_for_one_that_is_silent() -> None:
    going, mute = pod("router", name="a", address="10.0.1.1"), pod("router", name="b", address="10.0.1.2")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:00Z"
    run = Run(minReplicas=0, scaleToZeroAfterSeconds=30)
    run.look(metrics(), ago=1)
    said = answers({"10.0.0.9": metrics()}, ago=1000)
    late = NOW + timedelta(seconds=1000)
    children = (deployment(), deployment("router"), going, mute, pod())
    seen = moeserving.observe(
        situation(run.serving, *children, gathered=said, remembered=run.remembered, now=late), INSTALLATION
    )
    assert seen.replicas is None


def test_an_engine_that_misses_a_look_does_not_bring_its_whole_past_with_it() -> None:
    run = Run(replicas=2, metrics=[{"type": "TTFT", "averageMilliseconds": 500}])
    slow, quick = metrics(first_token_seconds=900, first_tokens=900), metrics(first_token_seconds=1, first_tokens=10)
    run.look(slow, quick)
    run.look(None, quick)
    run.look(slow, quick)
    assert run.replicas == 2


def test_engines_that_do_not_answer_are_told_and_nothing_is_taken_away() -> None:
    run = Run(replicas=3)
    for _ in range(20):
        run.look(metrics(), None, None, ago=1)
    assert run.reason() == "MetricsUnavailable"
    run.look(metrics(), metrics(), metrics(), ago=1)
    assert run.reason() == "FollowingLoad"


def test_engines_that_miss_one_look_are_not_told() -> None:
    run = Run(replicas=2)
    run.look(metrics(), None)
    assert run.reason() == "FollowingLoad"


def test_a_restart_of_the_operator_takes_nothing_away_at_once() -> None:
    run = Run(replicas=3)
    for _ in range(3):
        run.look(metrics(waiting=12), metrics(waiting=12), metrics(waiting=12))
    run.remembered = None
    high = run.replicas
    run.look(*[metrics()] * high, ago=1)
    assert run.replicas == high


LOADS = st.lists(st.integers(0, 40), min_size=1, max_size=4)


@settings(deadline=None, max_examples=25)
@given(LOADS)
def test_a_load_step_turns_the_number_of_replicas_at_most_once(loads: list[int]) -> None:
    """Replicas that run four requests at once each, and start one poll after they were asked for."""
    run = Run(minReplicas=1)
    up = 1
    for load in loads:
        counts = []
        for _ in range(40):
            running = min(load, 4 * up)
            spread = [running // up + (n < running % up) for n in range(up)]
            queue = load - running
            run.look(*[metrics(waiting=queue / up, running=count) for count in spread], in_flight=load)
            up = max(run.replicas, 1)
            counts.append(run.replicas)
        steps = [b - a for a, b in pairwise(counts) if a != b]
        turns = sum((a > 0) != (b > 0) for a, b in pairwise(steps))
        assert turns <= 1, (loads, counts)
        assert len(set(counts[-10:])) == 1, "it never comes to rest"
