"""What one look at a serving tells the next one. A restart of the operator forgets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it measures what a view shows, and a view has what was seen
    from ballast_operator.observe.moeserving.load import Memory


@dataclass(frozen=True)
class Seen:
    """memory: the autoscaler's; unplaced: since when (seconds) a new pod has had no node with no old one giving way, by
    name."""

    memory: Memory | None = None
    unplaced: Mapping[str, float] = field(default_factory=dict)
