"""The table of kinds that the operator reconciles."""

from collections.abc import Collection, Mapping
from typing import Any

from ballast_api import API_VERSION
from ballast_api.cfrsolve import CFRSolve
from ballast_api.moeserving import MoEServing
from ballast_operator.desired import cfrsolve as desired_cfrsolve
from ballast_operator.desired import moeserving as desired_moeserving
from ballast_operator.kind import Children, Kind
from ballast_operator.objects import Object
from ballast_operator.observe import cfrsolve as observe_cfrsolve
from ballast_operator.observe import moeserving as observe_moeserving
from ballast_operator.resources import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    NETWORK_POLICY,
    OPTIONAL,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_MONITOR,
    RESOURCE_CLAIM_TEMPLATE,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    Resource,
    register,
)
from ballast_operator.settings import Settings

CFR_SOLVE = register(Resource(API_VERSION, CFRSolve.kind, CFRSolve.plural))
MOE_SERVING = register(Resource(API_VERSION, MoEServing.kind, MoEServing.plural))


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


def moe_serving(settings: Settings, optional: Collection[Resource]) -> Kind[MoEServing]:
    installation = desired_moeserving.Installation(
        image=settings.serving_image,
        gpu_image=settings.serving_gpu_image,
        router_image=settings.router_image,
        pull_policy=settings.image_pull_policy,
        pull_secrets=settings.image_pull_secrets,
        operator_namespace=settings.lease_namespace,
        metrics_namespaces=settings.metrics_namespaces,
        optional=frozenset(resource.kind for resource in optional),
    )

    def desired(serving: MoEServing, children: Children) -> list[Object] | None:
        if desired_moeserving.waits(serving, children, installation):
            return None
        return desired_moeserving.objects(serving, children, installation)

    removable = (
        CONTROLLER_REVISION,
        DEPLOYMENT,
        HORIZONTAL_POD_AUTOSCALER,
        RESOURCE_CLAIM_TEMPLATE,
        *(resource for resource in optional if resource != POD_MONITOR),  # that one is always wanted
    )
    return Kind(
        resource=MOE_SERVING,
        model=MoEServing,
        children=tuple(
            dict.fromkeys(
                (NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, SERVICE, *removable, *optional)
            )
        ),
        removable=removable,
        desired=desired,
        observe=lambda situation: observe_moeserving.observe(situation, installation),
        needs=observe_moeserving.needs,
        silent=observe_moeserving.silent,
        probe=lambda _children: None,
        probes=observe_moeserving.probes,
        around=lambda _serving: observe_moeserving.around(installation),
    )


def kinds(settings: Settings, optional: Collection[Resource] = OPTIONAL) -> Mapping[str, Kind[Any]]:
    """All kinds, by name. optional: resources of other projects that the cluster has; all of them without a cluster."""
    return {kind.resource.kind: kind for kind in (cfr_solve(settings), moe_serving(settings, optional))}
