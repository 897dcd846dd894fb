"""The chart on a real API server: installed, upgraded, removed, and what its rights come to. No pod need run."""

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from charts.tests.rendering import CHART, Object, helm, render
from e2e.scenarios.test_api_validation import kubectl, solve

from ballast_api.yamltext import dump

pytestmark = pytest.mark.cluster
CRD = "cfrsolves.ballast.dev"
CRDS = CHART.parents[1] / "crds"


def said(*arguments: str, stdin: str = "") -> str:
    """kubectl's answer; anything but success fails the test."""
    code, text = kubectl(*arguments, stdin=stdin)
    assert code == 0, text
    return text


def release(space: str, *arguments: str, values: Object | None = None) -> str:
    """helm in the test's namespace; its pods are not awaited, so no image is needed."""
    done = helm(*arguments, "--namespace", space, values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def space() -> Iterator[str]:
    """A new namespace that enforces the restricted Pod Security Standard, on a server without our CRD."""
    if kubectl("get", "crd", CRD)[0] == 0:
        if "Helm" in said("get", "crd", CRD, "-o", "jsonpath={.metadata.labels}"):
            pytest.skip("Ballast is installed here by its chart, and this test removes CRDs")
        if said("get", "cfr", "-A", "-o", "name"):
            pytest.skip("there are CFRSolves here, and this test removes their CRD")
        said("delete", "crd", CRD)
    name = f"chart-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    said("apply", "-f", "-", stdin=json.dumps(namespace))
    yield name
    helm("uninstall", "ballast", "--namespace", name)
    said("delete", "crd", CRD, "--ignore-not-found")
    said("delete", "namespace", name, "--wait=false")
    said("apply", "--server-side", "-k", str(CRDS))


def older(folder: Path) -> Path:
    """The chart as it would have been before queueName was a field and the solver's image a value."""
    chart = folder / "ballast"
    shutil.copytree(CHART, chart)
    path = chart / "templates/crds/cfrsolves.yaml"
    text = path.read_text(encoding="utf-8")
    start = text.index("              queueName:\n")
    end = text.index("            x-kubernetes-validations:", start)
    text = text[:start] + text[end:]
    rule = text.index("            - rule: has(self.queueName)")
    path.write_text(text[:rule] + text[text.index("          status:\n", rule) :], encoding="utf-8")
    deployment = chart / "templates/deployment.yaml"
    lines = deployment.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "BALLAST_CFR_IMAGE" in line)
    deployment.write_text("".join(lines[:at] + lines[at + 2 :]), encoding="utf-8")
    return chart


def test_an_upgrade_keeps_objects_and_brings_new_fields(space: str, tmp_path: Path) -> None:
    release(space, "install", "ballast", str(older(tmp_path)))
    said("apply", "-n", space, "-f", "-", stdin=dump(solve("kept", suspend=True)))
    code, refusal = kubectl("apply", "-n", space, "-f", "-", stdin=dump(solve("new", queueName="team-a")))
    assert code != 0
    assert "queueName" in refusal
    before = said("get", "cfr", "kept", "-n", space, "-o", "jsonpath={.metadata.uid} {.metadata.generation}")
    release(space, "upgrade", "ballast", str(CHART))
    said("apply", "-n", space, "-f", "-", stdin=dump(solve("new", queueName="team-a", suspend=True)))
    assert said("get", "cfr", "new", "-n", space, "-o", "jsonpath={.spec.queueName}") == "team-a"
    assert said("get", "cfr", "kept", "-n", space, "-o", "jsonpath={.metadata.uid} {.metadata.generation}") == before


def test_an_uninstall_keeps_peoples_objects_and_a_new_install_takes_over(space: str) -> None:
    release(space, "install", "ballast", str(CHART))
    said("apply", "-n", space, "-f", "-", stdin=dump(solve("kept", suspend=True)))
    release(space, "uninstall", "ballast")
    assert "kept" in said("get", "cfr", "-n", space)
    assert said("get", "deployment,role,serviceaccount", "-n", space, "-l", "app.kubernetes.io/part-of=ballast") == (
        f"No resources found in {space} namespace.\n"
    )
    release(space, "install", "ballast", str(CHART))
    assert "kept" in said("get", "cfr", "-n", space)


def test_an_uninstall_takes_all_if_asked(space: str) -> None:
    release(space, "install", "ballast", str(CHART), values={"crds": {"keep": False}})
    release(space, "uninstall", "ballast")
    said("wait", "--for=delete", f"crd/{CRD}", "--timeout=60s")


def test_every_object_is_taken_by_the_server(space: str) -> None:
    values: Object = {"podDisruptionBudget": {"enabled": True}, "dashboards": {"enabled": True}}
    for case in (values, {"namespaced": True}, {"watchNamespaces": [space]}):
        objects = render(case, namespace=space)
        answer = said("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(objects))
        assert answer.count("serverside-applied") == len(objects)
        assert "would violate PodSecurity" not in answer


def allowed(verb: str, resource: str, namespace: str, account: str) -> bool:
    """Whether the account may, by the server's own word."""
    return kubectl("auth", "can-i", verb, resource, "-n", namespace, f"--as={account}")[0] == 0


def test_a_namespaced_operator_has_rights_in_its_namespaces_and_nowhere_else(space: str) -> None:
    said("apply", "--server-side", "-k", str(CRDS))
    release(space, "install", "ballast", str(CHART), values={"namespaced": True})
    account = f"system:serviceaccount:{space}:ballast-operator"
    for verb, resource in (
        ("list", "cfrsolves.ballast.dev"),
        ("create", "jobs.batch"),
        ("get", "leases/ballast-operator"),
    ):
        assert allowed(verb, resource, space, account), f"{verb} {resource}"
        assert not allowed(verb, resource, "default", account), f"{verb} {resource}"
    assert not allowed("get", "secrets", space, account)
    assert not allowed("update", "leases/another", space, account)


def test_whoever_may_edit_a_namespace_may_edit_solves_there(space: str) -> None:
    release(space, "install", "ballast", str(CHART))
    aggregated = {"view": {"get", "list", "watch"}, "edit": {"create", "update", "patch", "delete", "deletecollection"}}
    for name, verbs in aggregated.items():
        role = json.loads(said("get", "clusterrole", f"ballast-{name}", "-o", "json"))
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"] == "true"
        assert set(role["rules"][0]["verbs"]) == verbs
