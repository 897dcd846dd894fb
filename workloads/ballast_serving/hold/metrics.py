"""What a router pod counts, for people as Prometheus metrics and for the operator as one JSON object."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

HOLD_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 900)


@dataclass
class Counts:
    """Live numbers of one router pod."""

    held: int = 0
    in_flight: int = 0
    requests: int = 0
    failed: int = 0
    longest_hold: float = 0.0
    last_request: float | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        own = self.registry
        gauge = Gauge("ballast_serving_held_requests", "Requests waiting for an engine.", registry=own)
        gauge.set_function(lambda: self.held)
        gauge = Gauge("ballast_serving_in_flight_requests", "Requests from first to last byte.", registry=own)
        gauge.set_function(lambda: self.in_flight)
        self.ready_engines = Gauge("ballast_serving_ready_engines", "Engines fit for requests.", registry=own)
        self.answers = Counter("ballast_serving_answers", "Answers by status code.", ["code"], registry=own)
        self.cut = Counter("ballast_serving_cut_streams", "Answers that broke off halfway.", registry=own)
        self.retries = Counter("ballast_serving_retries", "Tries on another engine.", registry=own)
        self.holds = Histogram(
            "ballast_serving_hold_seconds", "Time that held requests waited.", buckets=HOLD_BUCKETS, registry=own
        )

    def came(self) -> None:
        """A request arrived."""
        self.requests += 1
        self.in_flight += 1
        self.last_request = time.monotonic()

    def left(self, status: int) -> None:
        """A request was answered, with this status code; 0 where the client gave up or the stream broke."""
        self.in_flight -= 1
        self.failed += status >= 500 or status == 0
        self.last_request = time.monotonic()
        self.answers.labels(str(status)).inc()

    def waited(self, seconds: float) -> None:
        """A held request waits no more."""
        self.longest_hold = max(self.longest_hold, seconds)
        self.holds.observe(seconds)

    @property
    def idle_seconds(self) -> float | None:
        """Since the last request came or ended; 0 while one is here, None before the first."""
        if self.in_flight:
            return 0.0
        return None if self.last_request is None else time.monotonic() - self.last_request
