"""What the operator counts about itself, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILE_SECONDS = Histogram(
    "ballast_reconcile_seconds",
    "Time of one reconcile, by kind and outcome (done, failed).",
    ["kind", "outcome"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
APPLIED = Counter("ballast_apply_total", "Children looked after, by kind and what it came to.", ["kind", "result"])
QUEUE_DEPTH = Gauge("ballast_queue_depth", "Objects waiting for a worker.")
QUEUE_OLDEST = Gauge("ballast_queue_oldest_seconds", "How long the first object in line has waited.")
WATCH_AGE = Gauge("ballast_watch_age_seconds", "Seconds since a watch last said anything, by resource.", ["resource"])
LEADER = Gauge("ballast_leader", "1 while this process holds the Lease.")
CONDITION = Gauge("ballast_condition", "1 where a condition is True, else 0.", ["kind", "namespace", "name", "type"])
