"""The two roles of a serving, engine and router: how their pods are called, labelled and found."""

from dataclasses import dataclass

from ballast_api.meta import Metadata
from ballast_operator.desired.names import Names
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object

KIND = "MoEServing"
ENGINE = "engine"
WORKER = "engine-worker"  # of a group of nodes: it computes for its leader, and serves nobody
ROUTER = "router"
GROUP = "leaderworkerset.sigs.k8s.io/group-key"  # label that the controller gives to all pods of one group
LEADER = "$(LWS_LEADER_ADDRESS)"  # and two variables that it sets in each of them
RANK = "$(LWS_WORKER_INDEX)"
REPLICAS = "replicas"  # suffix of the Service with the engines' addresses; a LeaderWorkerSet has one of its own name
COMPONENT = "app.kubernetes.io/component"
REVISION = "ballast.dev/revision"
API_PORT = 8000
STATUS_PORT = 8080
CACHE = "/ballast/cache"  # where the engine keeps what is worth keeping


@dataclass(frozen=True)
class Part:
    """One role of one serving."""

    names: Names
    role: str

    @classmethod
    def of(cls, owner: Metadata, role: str) -> "Part":
        return cls(Names(KIND, owner), role)

    @property
    def name(self) -> str:
        return self.names.child(self.role)

    @property
    def selector(self) -> dict[str, str]:
        """Labels by which the role's pods are found. A Deployment's can never change, so these are few."""
        return {COMPONENT: self.role, OWNER_KIND: KIND, OWNER_NAME: self.names.owner.name}

    @property
    def selector_text(self) -> str:
        """The same as kubectl and autoscalers write it."""
        return ",".join(f"{name}={value}" for name, value in sorted(self.selector.items()))

    @property
    def labels(self) -> dict[str, str]:
        return self.names.labels | {COMPONENT: self.role}

    def metadata(self, suffix: str | None = None) -> Object:
        """Metadata of a child of this role; suffix: what follows the owner's name, if not just the role."""
        made = self.names.metadata(suffix or self.role)
        return made | {"labels": self.labels}
