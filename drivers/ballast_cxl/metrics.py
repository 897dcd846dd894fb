"""What the region controller counts, for Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)

BLADE_BYTES = Gauge("ballast_cxl_blade_bytes", "Bytes of a blade by state, free among them.", ["blade", "state"])
LARGEST_EXTENT = Gauge("ballast_cxl_largest_extent_bytes", "Largest region that would fit on a blade now.", ["blade"])
CONFLICTS = Counter("ballast_cxl_ledger_conflicts_total", "Changes of a ledger that another process had overtaken.")
PREVENTED = Counter(
    "ballast_cxl_oversubscribe_prevented_total", "Requests for blocks that the ledger knew to be held by somebody else."
)
COMPOSE_SECONDS = Histogram(
    "ballast_cxl_compose_seconds", "Time to compose a region at the appliance.", ["result"], buckets=_SECONDS
)
ATTACH_SECONDS = Histogram(
    "ballast_cxl_attach_seconds", "Time to connect or cut off a node at the appliance.", ["phase"], buckets=_SECONDS
)
PREBIND_SECONDS = Histogram(
    "ballast_cxl_prebind_wait_seconds", "Time from a claim's allocation to its region composed.", buckets=_SECONDS
)
SCRUB_BYTES = Counter("ballast_cxl_scrub_bytes_total", "Bytes overwritten with zeros and read back.")
LEAKED = Gauge("ballast_cxl_leaked_regions", "Memory at appliances that no ledger knows of.", ["blade"])
DRIFT = Gauge("ballast_cxl_drift", "Differences between a ledger and its appliance, either way.", ["blade"])
FENCES = Counter(
    "ballast_cxl_fence_total", "Nodes cut off without their consent, by result (done, failed).", ["result"]
)
ATTACHMENTS = Gauge("ballast_cxl_region_attachments", "Nodes that have a region.", ["namespace", "region"])
SLICE_GENERATION = Gauge("ballast_cxl_slice_generation", "Generation of a pool of ResourceSlices.", ["pool"])
CALL_SECONDS = Histogram(
    "ballast_cxl_appliance_call_seconds", "Time of one request to an appliance.", ["op", "code"], buckets=_SECONDS
)
