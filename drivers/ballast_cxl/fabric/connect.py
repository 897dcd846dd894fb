"""A CXLBlade to its client. Clients are kept, since the breaker in them remembers a silent appliance."""

import base64
from dataclasses import dataclass, field

from ballast_api.cxlblade import CXLBlade, Protocol
from ballast_cxl.fabric.cfm import Cfm
from ballast_cxl.fabric.http import Service
from ballast_cxl.fabric.interface import Fabric, Unreachable
from ballast_cxl.fabric.redfish import Hardware, Redfish
from ballast_cxl.resources import SECRET
from ballast_operator.cluster.client import Client

Credentials = tuple[str, str] | None


@dataclass
class Fabrics:
    """Clients of all blades. namespace: of the Secrets with credentials; seconds, rest: as `Service` has them."""

    client: Client
    namespace: str
    seconds: float
    rest: float
    _made: dict[str, tuple[object, Fabric]] = field(default_factory=dict)
    _hardware: dict[tuple[str, Credentials], Hardware] = field(
        default_factory=dict
    )  # by address of its Redfish service

    async def of(self, blade: CXLBlade) -> Fabric:
        """The client of one blade; a new one when its address or its credentials changed. Raises Unreachable."""
        name, appliance = blade.metadata.name, blade.spec.appliance
        credentials = await self._credentials(blade)
        made_for = (appliance, blade.spec.blade, credentials)
        known = self._made.get(name)
        if known and known[0] == made_for:
            return known[1]
        if known:
            await known[1].close()
        client = self._connect(blade, credentials)
        self._made[name] = (made_for, client)
        return client

    async def close(self) -> None:
        for made in [client for _, client in self._made.values()] + list(self._hardware.values()):
            await made.close()
        self._made.clear()
        self._hardware.clear()

    def _connect(self, blade: CXLBlade, credentials: Credentials) -> Fabric:
        appliance = blade.spec.appliance
        base = appliance.redfish_url or appliance.url
        if (base, credentials) not in self._hardware:
            self._hardware[base, credentials] = Hardware(self._service(base, credentials))
        hardware = self._hardware[base, credentials]
        redfish = Redfish(self._service(base, credentials), blade.spec.blade, hardware)
        if appliance.protocol is Protocol.REDFISH:
            return redfish
        return Cfm(self._service(appliance.url, credentials), appliance.name, blade.spec.blade, redfish)

    def _service(self, base: str, credentials: Credentials) -> Service:
        return Service(base, self.seconds, self.rest, credentials, self.client.faults)

    async def _credentials(self, blade: CXLBlade) -> Credentials:
        ref = blade.spec.appliance.credentials_secret_ref
        if ref is None:
            return None
        secret = await self.client.get(SECRET, self.namespace, ref.name)
        data = (secret or {}).get("data") or {}
        if not {"username", "password"} <= data.keys():
            raise Unreachable(
                f"CXLBlade {blade.metadata.name}: Secret {self.namespace}/{ref.name} of "
                "spec.appliance.credentialsSecretRef has no username and password; create it"
            )
        name, word = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
        return name, word
