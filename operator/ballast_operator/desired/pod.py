"""A pod spec from a role's `template` and its main container, restricted unless the template says otherwise."""

from collections.abc import Sequence

from ballast_api.template import PodTemplate, Template
from ballast_operator.objects import Object

USER = 65532

RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def pod_template(
    template: PodTemplate,
    labels: dict[str, str],
    container: Object,
    volumes: Sequence[Object],
    *,
    restart_policy: str,
    grace_seconds: int,
    pull_secrets: Sequence[str] = (),
    service_account: str | None = None,
) -> Object:
    """A PodTemplateSpec. The template's own labels come first: they cannot take ours away.

    service_account: account whose token the pod gets; without one the pod has no token.
    """
    secrets = [{"name": name} for name in pull_secrets]
    secrets += [secret for secret in template.image_pull_secrets if secret not in secrets]
    spec: Object = {
        "restartPolicy": restart_policy,
        "terminationGracePeriodSeconds": grace_seconds,
        "automountServiceAccountToken": service_account is not None,
        "enableServiceLinks": False,
        "securityContext": RESTRICTED_POD | (template.security_context or {}),
        "containers": [_container(template, container)],
        "volumes": [*volumes, *template.volumes],
    }
    optional = {
        "serviceAccountName": service_account or template.service_account_name,
        "nodeSelector": template.node_selector,
        "tolerations": template.tolerations,
        "affinity": template.affinity,
        "schedulerName": template.scheduler_name,
        "priorityClassName": template.priority_class_name,
        "resourceClaims": template.resource_claims,
        "imagePullSecrets": secrets,
    }
    spec |= {name: value for name, value in optional.items() if value}
    metadata: Object = {"labels": {**template.labels, **labels}}
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    return {"metadata": metadata, "spec": spec}


def _container(template: PodTemplate, container: Object) -> Object:
    merged = {**container, "securityContext": RESTRICTED_CONTAINER}
    if isinstance(template, Template) and template.resources:
        merged["resources"] = template.resources
    theirs = {variable["name"] for variable in template.env}  # a list with a name twice is refused
    merged["env"] = [*(own for own in container.get("env", []) if own["name"] not in theirs), *template.env]
    merged["volumeMounts"] = [*container.get("volumeMounts", []), *template.volume_mounts]
    return {name: value for name, value in merged.items() if value not in ([], {})}
