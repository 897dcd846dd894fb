"""What a log of the emulator proves.

The log is written by the appliance, which knows nothing of ledgers, so it cannot be wrong in the way that what is
judged might be.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ballast_cxl.emulator.state import BladeState, Event


@dataclass
class Verdict:
    """overlaps: composes of a block that another memory had at that time. refusals: for want of capacity, in words.
    composes: how often each set of blocks was composed. left: memories that are still there. twice: ports that carried
    two memories at once.
    """

    overlaps: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    composes: int = 0
    frees: int = 0
    left: dict[str, list[str]] = field(default_factory=dict)
    most: int = 0  # blocks in use at the fullest time


def judge(events: Iterable[Event]) -> Verdict:
    """Play a log back."""
    verdict, blades = Verdict(), dict[str, BladeState]()
    for event in events:
        if event["op"] == "start":
            continue
        blade = blades.setdefault(event["blade"], BladeState())
        if event["op"] == "compose":
            verdict.composes += 1
            _compose(verdict, blade, event)
        elif event["op"] == "free":
            verdict.frees += 1
        elif event["op"] == "assign" and any(c.port == event["port"] for c in blade.connections.values()):
            verdict.twice.append(f"line {event['n']}: port {event['port']} got {event['memory']} as well")
        elif event["op"] == "refused" and event["reason"] == "capacity":
            verdict.refusals.append(f"line {event['n']}: {event['what']}: {event['message']}")
        blade.apply(event)
        verdict.most = max(verdict.most, sum(len(state.in_use()) for state in blades.values()))
    verdict.left = {name: sorted(state.memories) for name, state in blades.items() if state.memories}
    return verdict


def _compose(verdict: Verdict, blade: BladeState, event: Event) -> None:
    for memory, blocks in blade.memories.items():
        if both := sorted(set(blocks) & set(event["blocks"])):
            verdict.overlaps.append(f"line {event['n']}: {event['memory']} got {both[0]}, which {memory} had")
