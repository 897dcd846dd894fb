"""Which object a command is about: `cfr/leduc` to a kind, a namespace and a name."""

from dataclasses import dataclass

from ballast_operator.cli.shown import Shown, shown
from ballast_operator.cluster.client import Client
from ballast_operator.cluster.errors import ApiError
from ballast_operator.kind import Children
from ballast_operator.objects import OWNER_KIND, OWNER_NAME, Object
from ballast_operator.resources import OPTIONAL


class UnknownTarget(Exception):
    """The words do not name an object."""


@dataclass(frozen=True)
class Target:
    """One object of ours."""

    kind: Shown
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str, namespace: str) -> "Target":
        """From KIND/NAME, where KIND is any name that kubectl takes. Raises UnknownTarget."""
        word, slash, name = text.partition("/")
        known = shown()
        for kind in known:
            names = {kind.resource.kind.lower(), kind.resource.plural, *kind.model.short_names}
            if slash and name and word.lower().removesuffix(".ballast.dev") in names:
                return cls(kind, namespace, name)
        words = ", ".join(kind.model.short_names[0] for kind in known)
        raise UnknownTarget(f"{text!r} names no object; write KIND/NAME with one of the kinds {words}")

    def __str__(self) -> str:
        return f"{self.kind.resource.kind} {self.namespace}/{self.name}"

    async def fetch(self, client: Client) -> Object:
        """The object. Raises UnknownTarget when it is not there."""
        found = await client.get(self.kind.resource, self.namespace, self.name)
        if found is None:
            raise UnknownTarget(
                f"{self} does not exist; `kubectl get {self.kind.resource.plural} -A` lists those that do"
            )
        return found

    async def children(self, client: Client) -> Children:
        """Everything that was made for it."""
        selector = f"{OWNER_KIND}={self.kind.resource.kind},{OWNER_NAME}={self.name}"
        found: list[Object] = []
        for resource in self.kind.children:
            try:
                found += await client.list(resource, self.namespace, selector)
            except ApiError as error:
                if not (error.not_found and resource in OPTIONAL):  # another project's, and not in this cluster
                    raise
        return Children(found)


def condition(obj: Object, name: str) -> Object | None:
    """The object's condition of this type if it is True."""
    for found in obj.get("status", {}).get("conditions", []):
        if found["type"] == name and found["status"] == "True":
            return dict(found)
    return None
