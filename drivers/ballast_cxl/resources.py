"""How the API server calls what the CXL processes read and write."""

from ballast_api import API_VERSION
from ballast_api.cxlattachment import CXLAttachment
from ballast_api.cxlblade import CXLBlade
from ballast_api.cxlregion import CXLRegion
from ballast_api.cxltenantquota import CXLTenantQuota
from ballast_operator.resources import RESOURCE_CLAIM, Resource, register

CXL_REGION = register(Resource(API_VERSION, CXLRegion.kind, CXLRegion.plural))
CXL_BLADE = register(Resource(API_VERSION, CXLBlade.kind, CXLBlade.plural, namespaced=False))
CXL_TENANT_QUOTA = register(Resource(API_VERSION, CXLTenantQuota.kind, CXLTenantQuota.plural, namespaced=False))
CXL_ATTACHMENT = register(Resource(API_VERSION, CXLAttachment.kind, CXLAttachment.plural, namespaced=False))
DEVICE_CLASS = register(Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False))
register(RESOURCE_CLAIM)
RESOURCE_SLICE = register(Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False))
SECRET = register(Resource("v1", "Secret", "secrets"))

__all__ = [
    "CXL_ATTACHMENT",
    "CXL_BLADE",
    "CXL_REGION",
    "CXL_TENANT_QUOTA",
    "DEVICE_CLASS",
    "RESOURCE_CLAIM",
    "RESOURCE_SLICE",
    "SECRET",
]
