"""The add-ons there are, by the names that `up --with` takes."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.cluster.addons import Addon, dns, leader_worker_set, metrics, network_policy, storage
from e2e.cluster.errors import ClusterError

ALL: dict[str, Addon] = {a.name: a for a in (storage.ADDON, network_policy.ADDON, dns.ADDON, metrics.ADDON)}
DEFAULT = ("local-path", "network-policy")  # what a custom resource of ours needs to run as it would elsewhere
# Controllers that few clusters have: by name only, and gone again after the tests that are about them.
ON_REQUEST: dict[str, Addon] = {leader_worker_set.NAME: leader_worker_set.ADDON}
KNOWN = ALL | ON_REQUEST


def chosen(names: Sequence[str]) -> list[Addon]:
    """The add-ons of these names, in the table's order, each once. `none` is a name too, and so is `all`, which leaves
    out those of `ON_REQUEST`."""
    unknown = sorted(set(names) - set(KNOWN) - {"all", "none"})
    if unknown:
        raise ClusterError(f"there is no add-on {', '.join(unknown)}; add-ons are {', '.join(KNOWN)}, all and none")
    wanted = {*names, *(ALL if "all" in names else ())}
    return [addon for name, addon in KNOWN.items() if name in wanted]
