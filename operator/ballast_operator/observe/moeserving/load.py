"""How much there is to do: the metrics of an object's autoscaling, measured over its engines and routers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ballast_api.autoscaling import Autoscaling, Metric, MetricType, PolicyType
from ballast_api.autoscaling import Policy as AskedPolicy
from ballast_operator.desired.moeserving.scaling import DOWN, UP
from ballast_operator.objects import Object
from ballast_operator.observe.moeserving.view import View, ready, status_url
from ballast_operator.observe.moeserving.vllm import EngineMetrics
from ballast_operator.observe.scaling import Direction, History, Limits, Policy, Reading, proposal

TOLERANCE_PERCENT = 10
FIRST_TOKEN_SECONDS = 60.0  # over which the time to the first token is averaged


@dataclass(frozen=True)
class Memory:
    """What the autoscaler remembers from look to look. active: when somebody last asked; blind: since when engines do
    not answer; busiest: requests that one engine ran while others waited; first_tokens: (time, seconds, count)."""

    active: float
    blind: float | None = None
    busiest: float = 0.0
    history: History = field(default_factory=History)
    first_tokens: tuple[tuple[float, float, float], ...] = ()

    def with_history(self, history: History) -> "Memory":
        return replace(self, history=history)

    def scaled(self, delta: int, now: float) -> "Memory":
        """After a step from or to zero, which no window holds back: what was recommended before counts no more."""
        if delta == 0:
            return self
        return replace(self, history=History(changed=(*self.history.changed, (now, delta))), active=now)


@dataclass(frozen=True)
class Measured:
    """One metric: its reading, and how people read it."""

    metric: Metric
    reading: Reading

    @property
    def current(self) -> str | None:
        average = self.reading.average
        return None if average is None else f"{average:.3g}{target(self.metric)[1]}"

    def status(self) -> Object:
        found: Object = {"type": self.metric.type.value, "target": text(self.metric)}
        return found if self.current is None else found | {"current": self.current}


@dataclass(frozen=True)
class Load:
    """Everything measured at one look. complete: every router and engine answered; silent: names of those engines that
    did not; needed: replicas that the requests which run now take."""

    metrics: tuple[Measured, ...]
    limits: Limits
    held: int
    needed: int
    complete: bool
    silent: str

    def words(self) -> str:
        """What was measured, for people."""
        return ", ".join(
            f"{m.metric.type.value} {m.current or 'unknown'} a replica, target {text(m.metric)}" for m in self.metrics
        )


def measure(view: View, scaling: Autoscaling) -> tuple[Load, Memory]:
    """Read every engine and router that answered; also the memory with this look in it."""
    answers = {pod["metadata"]["name"]: view.measured(pod) for pod in view.engines if ready(pod)}
    known = [answer for answer in answers.values() if answer]
    silent = ", ".join(sorted(name for name, answer in answers.items() if answer is None))
    memory = _remember(view, known, bool(silent))
    routers = [pod for pod in view.routers if not pod["metadata"].get("deletionTimestamp")]
    heard = [isinstance(view.situation.gathered.get(status_url(pod, "status")), dict) for pod in routers]
    load = Load(
        metrics=tuple(Measured(metric, _reading(view, metric, known, memory)) for metric in scaling.measured),
        limits=_limits(scaling),
        held=view.held,
        needed=_needed(view, known, memory),
        complete=not silent and any(heard) and all(heard),
        silent=silent,
    )
    return load, memory


def propose(view: View, load: Load) -> int | None:
    """The largest proposal of the metrics; None if none could be measured.

    Beyond the algorithm: queues are empty as long as there are enough replicas, so an empty queue alone must not take
    away a replica that the running requests need. And without all metrics nothing is taken away.
    """
    found = [proposal(measured.reading, view.wanted, load.limits.tolerance) for measured in load.metrics]
    known = [count for count in found if count is not None]
    if not known:
        return None
    return max(*known, load.needed, 0 if len(known) == len(found) else view.wanted)


def target(metric: Metric) -> tuple[float, str]:
    """Target of a metric for one replica, and its unit."""
    if metric.average_milliseconds is not None:
        return float(metric.average_milliseconds), "ms"
    if metric.average_utilization is not None:
        return float(metric.average_utilization), "%"
    return float(metric.average_value or 1), ""


def text(metric: Metric) -> str:
    """The target as people write it."""
    value, unit = target(metric)
    return f"{value:g}{unit}"


def _remember(view: View, known: Sequence[EngineMetrics], silent: bool) -> Memory:
    now = view.now.timestamp()
    memory = view.seen.memory or Memory(active=now)
    return replace(
        memory,
        active=max(memory.active, _last_asked(view, known, now)),
        blind=(memory.blind or now) if silent else None,
        busiest=max([memory.busiest, *(answer.running for answer in known if answer.waiting > 0)]),
        first_tokens=memory.first_tokens if silent else _first_tokens(memory, known, now),
    )


def _last_asked(view: View, known: Sequence[EngineMetrics], now: float) -> float:
    """When somebody last wanted something: now, if a request is under way anywhere, or the first replica is, whose time
    to load would else count as idleness and end it before it serves."""
    if view.wanted > 0 and not any(ready(pod) for pod in view.engines):
        return now
    under_way = sum(answer.running + answer.waiting for answer in known)
    under_way += sum(_number(answer, "inFlight") + _number(answer, "held") for answer in view.holding)
    if under_way > 0:
        return now
    ago = [answer.get("lastRequestSecondsAgo") for answer in view.holding]
    return max((now - seconds for seconds in ago if isinstance(seconds, int | float)), default=0.0)


def _first_tokens(memory: Memory, known: Sequence[EngineMetrics], now: float) -> tuple[tuple[float, float, float], ...]:
    if not known:
        return memory.first_tokens
    total = (now, sum(a.first_token_seconds for a in known), sum(a.first_tokens for a in known))
    kept = tuple(seen for seen in memory.first_tokens if seen[0] > now - FIRST_TOKEN_SECONDS)
    begun_anew = bool(kept) and total[2] < kept[-1][2]  # an engine started again, or went
    return (total,) if begun_anew else (*kept, total)


def _reading(view: View, metric: Metric, known: Sequence[EngineMetrics], memory: Memory) -> Reading:
    """A reading over the replicas there are; requests held by routers wait for all of them."""
    values: list[float]
    if metric.type is MetricType.KV_CACHE_USAGE:
        values = [100 * answer.kv_cache for answer in known]
    elif metric.type is MetricType.TTFT:
        values = [_first_token(memory)] * len(known)
    else:
        values = [answer.waiting for answer in known]
        if view.held:
            values = [value + view.held / len(values) for value in values] or [float(view.held)]
    return Reading(values, max(view.wanted - len(values), 0), target(metric)[0])


def _first_token(memory: Memory) -> float:
    """Mean milliseconds to the first token of the requests since the oldest look remembered; without any, 0."""
    if len(memory.first_tokens) < 2:
        return 0.0
    (_, before, earlier), (_, after, later) = memory.first_tokens[0], memory.first_tokens[-1]
    return 1000 * (after - before) / (later - earlier) if later > earlier else 0.0


def _needed(view: View, known: Sequence[EngineMetrics], memory: Memory) -> int:
    """Replicas for what runs now. How much one can run is seen when others wait, or asked for as engine.maxNumSeqs."""
    capacity = memory.busiest or float(view.serving.spec.engine.max_num_seqs or 0)
    running = sum(answer.running for answer in known)
    return min(math.ceil(running / capacity), view.wanted) if capacity else 0


def _limits(scaling: Autoscaling) -> Limits:
    """What bounds a decision. Zero is reached by idleness alone, never by a metric."""
    percent = TOLERANCE_PERCENT if scaling.tolerance_percent is None else scaling.tolerance_percent
    up, down = scaling.scale_up, scaling.scale_down
    return Limits(
        fewest=max(scaling.min_replicas, 1),
        most=scaling.max_replicas,
        tolerance=percent / 100,
        up=Direction(up.stabilization_seconds, [_policy(p) for p in up.policies or UP]),
        down=Direction(down.stabilization_seconds, [_policy(p) for p in down.policies or DOWN]),
    )


def _policy(asked: AskedPolicy) -> Policy:
    return Policy(asked.value, asked.period_seconds, asked.type is PolicyType.PERCENT)


def _number(answer: dict[str, Any], name: str) -> float:
    found = answer.get(name)
    return float(found) if isinstance(found, int | float) else 0.0
