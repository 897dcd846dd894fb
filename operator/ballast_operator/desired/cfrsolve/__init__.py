"""The children of a CFRSolve, in the order in which they are made."""

from ballast_api.cfrsolve import CFRSolve
from ballast_operator.desired.cfrsolve.job import Images, job
from ballast_operator.desired.cfrsolve.rights import role, role_binding, service_account
from ballast_operator.desired.cfrsolve.volumes import checkpoint_claim, strategy
from ballast_operator.desired.names import Names
from ballast_operator.kind import Children
from ballast_operator.objects import Object

__all__ = ["Images", "ended", "objects"]


def objects(solve: CFRSolve, children: Children, images: Images) -> list[Object] | None:
    """What the solve should own now; None once it has ended, since a finished object's children are not put back.

    A suspended solve has no Job; one that never ran has nothing yet.
    """
    names = Names("CFRSolve", solve.metadata)
    if ended(solve, children):
        return None
    if solve.spec.suspend and not children.get("ConfigMap", names.child("strategy")):
        return []
    own_account = solve.spec.template.service_account_name is None
    lasting = [
        service_account(names) if own_account else None,
        strategy(names),
        role(names),
        role_binding(solve, names),
        checkpoint_claim(solve, names),
    ]
    wanted = [obj for obj in lasting if obj is not None]
    if not solve.spec.suspend:
        made = children.get("Job", names.child("solve"))
        wanted.append(pinned(job(solve, names, images), made))
    return wanted


def ended(solve: CFRSolve, children: Children) -> bool:
    """Whether the solve is over, by its status or by its Job's."""
    made = children.get("Job", Names("CFRSolve", solve.metadata).child("solve"))
    conditions = (made or {}).get("status", {}).get("conditions", [])
    return any(c.type in ("Complete", "Failed") and c.status == "True" for c in solve.status.conditions) or any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in conditions
    )


def pinned(wanted: Object, made: Object | None) -> Object:
    """The Job with the pod template that it was made with: templates are immutable, and an upgrade changes no run."""
    if made is None:
        return wanted
    return wanted | {"spec": wanted["spec"] | {"template": made["spec"]["template"]}}
