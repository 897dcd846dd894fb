"""Which blade a region is placed on, and which blocks of it it gets. Pure, but for the order of wishes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ballast_api.cxlblade import Contiguity, CXLBlade, CXLBladeStatus, Drain
from ballast_api.cxlregion import CXLRegion
from ballast_cxl import placement
from ballast_cxl.controller import operations
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book
from ballast_cxl.quantity import to_bytes, to_text

BLADE = "ballast.dev/blade"  # annotations of a region whose place a claim's allocation chose
DEVICE = "ballast.dev/device"


@dataclass(frozen=True)
class Wish:
    """What is wanted of the ledgers. blade, device: the scheduler's choice, for a region that was made for a claim."""

    size: int
    blade: str | None = None
    device: str | None = None
    claim: str | None = None


def candidates(region: CXLRegion, wish: Wish, blades: Iterable[CXLBlade]) -> list[CXLBlade]:
    """Blades that the region may be placed on, fullest first. Raises Refused when there is none at all."""
    blades = list(blades)
    if wish.blade is not None:
        found = [blade for blade in blades if blade.metadata.name == wish.blade and blade.status.geometry]
        if not found:
            raise book.Refused("NoBlade", f"CXLBlade {wish.blade}, which its claim was given memory of, is gone")
        return found
    spec = region.spec
    wanted = [blade for blade in blades if blade.spec.class_ == spec.class_]
    usable = [
        blade
        for blade in wanted
        if blade.status.geometry
        and blade.spec.drain is Drain.NONE
        and blade.metadata.deletion_timestamp is None
        and any(c.type == "Ready" and c.status == "True" for c in blade.status.conditions)
        and len(operations.cabled(blade)) >= spec.hosts.min
    ]
    if not usable:
        raise book.Refused(
            "NoBlade",
            f"none of {len(wanted)} blades of class {spec.class_} is ready, not drained, and cabled to "
            f"{spec.hosts.min} nodes or more; see `kubectl get cxlblades`",
        )
    return sorted(usable, key=lambda blade: (to_bytes(blade.status.observed.free), blade.metadata.name))


def blocks(blade: CXLBlade, status: CXLBladeStatus, wish: Wish) -> list[int] | None:
    """Blocks for a wish by this ledger, or None if there are none."""
    assert status.geometry is not None
    grid, held = Grid.of(status.geometry), book.held(status)
    if wish.device is not None and (extent := extent_of(wish.device)):
        return grid.blocks_of(extent)
    if blade.spec.contiguity is Contiguity.REQUIRED:
        return placement.contiguous(grid, wish.size, held)
    return placement.scattered(grid, wish.size, held)


def extent_name(extent: placement.Extent) -> str:
    """Name of the device that stands for an extent."""
    return f"extent-{extent.rows}-{extent.first}"


def extent_of(device: str) -> placement.Extent | None:
    """The extent that a device stands for; None for one that may be scattered."""
    kind, _, numbers = device.partition("-")
    if kind != "extent":
        return None
    rows, first = numbers.split("-")
    return placement.Extent(int(rows), int(first))


def full(region: CXLRegion, size: int, blades: Iterable[CXLBlade]) -> str:
    """Why nothing fits, with the way out."""
    blades = list(blades)
    best = max(blades, key=lambda blade: to_bytes(blade.status.observed.largest_extent))
    largest = best.status.observed.largest_extent
    piece = " in one piece" if best.spec.contiguity is Contiguity.REQUIRED else ""
    ask = f" or ask for spec.size <= {largest}" if to_bytes(largest) else ""
    return (
        f"no blade of class {region.spec.class_} has {to_text(size)} free{piece} (largest {largest} on "
        f"{best.metadata.name}); free a region{ask}"
    )


def wish_of(region: CXLRegion, annotations: Mapping[str, str], claim: str | None) -> Wish:
    """What a region asks for."""
    size = to_bytes(region.spec.size)
    if claim is None:
        return Wish(size)
    return Wish(size, annotations.get(BLADE), annotations.get(DEVICE), claim)
