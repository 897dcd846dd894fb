"""The table of kinds that the operator reconciles."""

from collections.abc import Mapping
from typing import Any

from ballast_api import API_VERSION
from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired import cfrsolve as desired_cfrsolve
from ballast_operator.kind import Kind
from ballast_operator.observe import cfrsolve as observe_cfrsolve
from ballast_operator.resources import (
    CONFIG_MAP,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    Resource,
    register,
)
from ballast_operator.settings import Settings

CFR_SOLVE = register(Resource(API_VERSION, CFRSolve.kind, CFRSolve.plural))


def cfr_solve(settings: Settings) -> Kind[CFRSolve]:
    images = desired_cfrsolve.Images(
        settings.cfr_image, settings.cfr_gpu_image, settings.image_pull_policy, settings.image_pull_secrets
    )
    return Kind(
        resource=CFR_SOLVE,
        model=CFRSolve,
        children=(CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, SERVICE_ACCOUNT, JOB, ROLE, ROLE_BINDING),
        removable=(JOB,),
        desired=lambda solve, children: desired_cfrsolve.objects(solve, children, images),
        observe=observe_cfrsolve.observe,
        needs=observe_cfrsolve.needs,
        silent=observe_cfrsolve.silent,
        probe=observe_cfrsolve.probe,
        alone=JOB,
    )


def kinds(settings: Settings) -> Mapping[str, Kind[Any]]:
    """All kinds, by name."""
    return {kind.resource.kind: kind for kind in (cfr_solve(settings),)}
