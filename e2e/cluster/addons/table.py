"""The add-ons there are, by the names that `up --with` takes."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.cluster.addons import Addon, dns, metrics, network_policy, storage
from e2e.cluster.errors import ClusterError

ALL: dict[str, Addon] = {a.name: a for a in (storage.ADDON, network_policy.ADDON, dns.ADDON, metrics.ADDON)}
DEFAULT = ("local-path", "network-policy")  # what a custom resource of ours needs to run as it would elsewhere


def chosen(names: Sequence[str]) -> list[Addon]:
    """The add-ons of these names, in the table's order, each once; `all` and `none` are names too."""
    if "all" in names:
        return list(ALL.values())
    unknown = sorted(set(names) - set(ALL) - {"none"})
    if unknown:
        raise ClusterError(f"there is no add-on {', '.join(unknown)}; add-ons are {', '.join(ALL)}, all and none")
    return [addon for name, addon in ALL.items() if name in names]
