"""Events: what people see at the end of `kubectl describe`.

The same thing said twice is one Event with a count, named by what it says, so a loop can never flood the namespace.
"""

from dataclasses import dataclass, field
from datetime import datetime

from ballast_operator.cluster.client import Client
from ballast_operator.kind import Notice
from ballast_operator.objects import Object, digest, format_time

COMPONENT = "ballast-operator"
LONGEST_MESSAGE = 950  # the server refuses 1,024; room for a namespace name in front


@dataclass
class Recorder:
    """Writes Events about objects."""

    client: Client
    _seen: dict[str, tuple[int, str]] = field(default_factory=dict)  # name of the Event: count, first time

    async def tell(self, about: Object, notice: Notice, now: datetime) -> None:
        """Write the Event, or count it up if it was said before by this process."""
        meta, moment = about["metadata"], format_time(now)
        name = f"{meta['name'][:200]}.{digest([meta['uid'], notice.warning, notice.reason, notice.message])}"
        count, first = self._seen.get(name, (0, moment))
        if len(self._seen) > 10_000:
            self._seen.clear()
        self._seen[name] = (count + 1, first)
        await self.client.apply(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": meta["namespace"]},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "uid": meta["uid"],
                    "resourceVersion": meta.get("resourceVersion", ""),
                },
                "type": "Warning" if notice.warning else "Normal",
                "reason": notice.reason,
                "message": notice.message[:LONGEST_MESSAGE],
                "count": count + 1,
                "firstTimestamp": first,
                "lastTimestamp": moment,
                "source": {"component": COMPONENT},
                "reportingComponent": COMPONENT,
            }
        )
