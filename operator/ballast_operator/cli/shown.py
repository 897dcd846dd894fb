"""The kinds that `kubectl ballast` shows: what the operator looks after, and what other controllers of ours do."""

from collections.abc import Sequence
from dataclasses import dataclass

from ballast_api import API_VERSION
from ballast_api.base import Kind
from ballast_api.cxlregion import CXLRegion
from ballast_operator.kinds import kinds
from ballast_operator.resources import RESOURCE_CLAIM, Resource
from ballast_operator.settings import Settings


@dataclass(frozen=True)
class Shown:
    """One kind. children: what may be made for an object of it."""

    resource: Resource
    model: type[Kind]
    children: Sequence[Resource]


def shown() -> list[Shown]:
    """All of them, the operator's first."""
    own = [Shown(kind.resource, kind.model, kind.children) for kind in kinds(Settings()).values()]
    region = Resource(API_VERSION, CXLRegion.kind, CXLRegion.plural)
    return [*own, Shown(region, CXLRegion, (RESOURCE_CLAIM,))]
