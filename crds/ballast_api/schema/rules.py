"""CEL from what a model declares: exactly-one-of, at-most-one-of, and what may not change.

Every rule's message is a sentence of ours that names the field, the rule and the way out; where the API server should
point at a member, `fieldPath` says which. A rule on an optional field does not run when the field is added or removed,
so rules about change stand on the parent.
"""

from typing import Any

from ballast_api.base import Model, Rule

CEL_WORDS = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)


def of_model(model: type[Model], name: str, kind: str) -> list[dict[str, Any]]:
    """All rules of a model as x-kubernetes-validations, the declared ones first."""
    return [validation(rule) for rule in [*choices(model, name), *model.rules, *immutability(model, kind)]]


def validation(rule: Rule) -> dict[str, Any]:
    """One entry of x-kubernetes-validations."""
    found = {"rule": rule.expression, "message": rule.message}
    return found | ({"fieldPath": rule.path} if rule.path else {})


def choices(model: type[Model], name: str) -> list[Rule]:
    """Rules for one-of choices: of several members, exactly one or at most one is set."""
    found = []
    if model.exactly_one_of:
        one, listed = model.exactly_one_of, spelled(model.exactly_one_of)
        found += [
            Rule(f"{present(one)}.exists(x, x)", f"{name} needs exactly one of {listed}; add one"),
            Rule(f"{present(one)}.filter(x, x).size() < 2", f"{name} takes exactly one of {listed}; keep only one"),
        ]
    if model.at_most_one_of:
        one, listed = model.at_most_one_of, spelled(model.at_most_one_of)
        found += [Rule(f"{present(one)}.filter(x, x).size() < 2", f"{name} takes at most one of {listed}; keep one")]
    return found


def immutability(model: type[Model], kind: str) -> list[Rule]:
    """A transition rule for each field that may not change."""
    if model.immutable_but_for is None:
        return []
    fixed = [info.alias or "" for info in model.model_fields.values() if info.alias not in model.immutable_but_for]
    optional = {info.alias for info in model.model_fields.values() if not info.is_required()}
    return [
        Rule(
            unchanged_if_set(escaped(member)) if member in optional else unchanged(escaped(member)),
            f"{member} is immutable; create a new {kind}",
            f".{member}",
        )
        for member in fixed
    ]


def escaped(member: str) -> str:
    """A member as an expression names it: the API server wants underscores around CEL's own words."""
    return f"__{member}__" if member in CEL_WORDS else member


def unchanged(member: str) -> str:
    """CEL: a member that is always set is as it was."""
    return f"self.{member} == oldSelf.{member}"


def unchanged_if_set(member: str) -> str:
    """CEL: an optional member is as it was, be that absent."""
    both = f"has(self.{member}) == has(oldSelf.{member})"
    return f"{both} && (!has(self.{member}) || self.{member} == oldSelf.{member})"


def present(members: Any) -> str:
    """CEL: the list of whether each member is set."""
    return f"[{', '.join(f'has(self.{member})' for member in members)}]"


def spelled(members: Any) -> str:
    """`a, b or c`."""
    *rest, last = members
    return f"{', '.join(rest)} or {last}"
