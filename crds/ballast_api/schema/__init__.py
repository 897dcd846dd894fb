"""From the models to what an API server and a reader need: `python -m ballast_api.schema [--write | --check]`.

structural.py   a model's OpenAPI schema, without references, as apiextensions.k8s.io/v1 wants it
rules.py        CEL: one-of choices and immutability from what a model declares, besides its own rules
coretypes.py    types of core/v1 from core.json, which extract.py makes of a server's own OpenAPI document
crd.py          a kind's whole CustomResourceDefinition
reference.py    docs/reference.md
files.py        every generated file and its text; __main__.py writes or compares them
"""

from ballast_api.base import Kind
from ballast_api.cfrsolve import CFRSolve
from ballast_api.cxlattachment import CXLAttachment
from ballast_api.cxlblade import CXLBlade
from ballast_api.cxlregion import CXLRegion
from ballast_api.cxltenantquota import CXLTenantQuota
from ballast_api.moeserving import MoEServing

KINDS: tuple[type[Kind], ...] = (CFRSolve, MoEServing, CXLRegion, CXLBlade, CXLTenantQuota, CXLAttachment)
