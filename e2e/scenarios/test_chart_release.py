"""The chart on a real API server: installed, upgraded, removed, and what its rights come to. No pod need run.

These tests remove CRDs, so they work on a copy of the chart with another API group and leave an installed Ballast alone.
"""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ballast_api.yamltext import dump
from charts.tests.rendering import CHART, Object, helm, render
from e2e.support.kube import Kube, Refused, eventually

pytestmark = pytest.mark.cluster
RELEASE = "releases"


@dataclass(frozen=True)
class Release:
    """The chart under another API group, in a namespace of its own.

    A group for each test: an API server that has just let a CRD go can take minutes to let its namesake go."""

    admin: Kube
    kube: Kube
    chart: Path
    group: str

    @property
    def crd(self) -> str:
        return f"cfrsolves.{self.group}"

    def helm(self, action: str, chart: Path | None = None, *flags: str, **values: object) -> None:
        """Install, upgrade or uninstall; no pod is asked for, so no image is needed."""
        where = [*flags, "--namespace", self.kube.namespace, "--kubeconfig", str(self.kube.kubeconfig)]
        if action == "uninstall":
            done = helm(action, RELEASE, *where)
        else:
            done = helm(
                action, RELEASE, str(chart or self.chart), *where, values={"operator": {"replicas": 0}} | values
            )
        assert done.returncode == 0, done.stderr

    def apply(self, name: str, **spec: object) -> str:
        """A suspended solve of this chart's group."""
        whole = {"game": {"builtin": {"name": "leduc"}}, "stop": {"maxIterations": 9}, "suspend": True} | spec
        obj = {"apiVersion": f"{self.group}/v1alpha1", "kind": "CFRSolve", "metadata": {"name": name}, "spec": whole}
        # helm does not wait until the API server serves a kind that it installed.
        eventually(self.is_served, 30, lambda: f"{self.crd} is not served")
        return self.kube.run("apply", "-f", "-", text=dump(obj))

    def is_served(self) -> bool:
        """Whether kubectl finds the kind."""
        return self.crd in self.admin.run("api-resources", "--api-group", self.group, "-o", "name").split()

    def solve(self, name: str) -> Object:
        """The stored solve."""
        found = self.kube.get(self.crd, name)
        assert found is not None
        return found


def regrouped(chart: Path, folder: Path, group: str) -> Path:
    """A copy of the chart whose kinds are of the tests' own API group."""
    copy = folder / "ballast"
    shutil.copytree(chart, copy)
    for path in copy.glob("templates/**/*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("ballast.dev", group), encoding="utf-8")
    return copy


@pytest.fixture
def release(cluster_kubeconfig: Path, tmp_path: Path) -> Iterator[Release]:
    """Nothing installed yet, in a namespace that enforces the restricted Pod Security Standard."""
    admin = Kube(cluster_kubeconfig)
    name = f"chart-{uuid.uuid4().hex[:8]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    group = f"{name}.ballast.dev"
    yield Release(admin, admin.inside(name), regrouped(CHART, tmp_path, group), group)
    helm("uninstall", RELEASE, "--namespace", name, "--kubeconfig", str(cluster_kubeconfig))
    if kept := [crd["metadata"]["name"] for crd in admin.list("crd") if crd["spec"]["group"] == group]:
        admin.run("delete", "crd", "--ignore-not-found", "--wait=false", *kept)
    admin.delete("namespace", name, "--wait=false")


def older(chart: Path, folder: Path) -> Path:
    """The chart as it would have been before queueName was a field and the solver's image a value."""
    copy = folder / "older"
    shutil.copytree(chart, copy)
    path = copy / "templates/crds/cfrsolves.yaml"
    text = path.read_text(encoding="utf-8")
    start = text.index("              queueName:\n")
    end = text.index("            x-kubernetes-validations:", start)
    text = text[:start] + text[end:]
    rule = text.index("            - rule: has(self.queueName)")
    path.write_text(text[:rule] + text[text.index("          status:\n", rule) :], encoding="utf-8")
    deployment = copy / "templates/deployment.yaml"
    lines = deployment.read_text(encoding="utf-8").splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "BALLAST_CFR_IMAGE" in line)
    deployment.write_text("".join(lines[:at] + lines[at + 2 :]), encoding="utf-8")
    return copy


def test_an_upgrade_keeps_objects_and_brings_new_fields(release: Release, tmp_path: Path) -> None:
    release.helm("install", older(release.chart, tmp_path))
    release.apply("kept")
    before = release.solve("kept")["metadata"]
    with pytest.raises(Refused, match=r'unknown field "spec\.queueName"'):
        release.apply("new", queueName="team-a")
    release.helm("upgrade")
    release.apply("new", queueName="team-a")
    assert release.solve("new")["spec"]["queueName"] == "team-a"
    after = release.solve("kept")["metadata"]
    assert [after[key] for key in ("uid", "generation", "resourceVersion")] == [
        before[key] for key in ("uid", "generation", "resourceVersion")
    ]


def test_an_uninstall_keeps_peoples_objects_and_a_new_install_takes_over(release: Release) -> None:
    release.helm("install")
    release.apply("kept")
    release.helm("uninstall")
    assert release.solve("kept")
    ours = release.kube.list("deployment,role,rolebinding,serviceaccount,service,networkpolicy")
    assert [obj["metadata"]["name"] for obj in ours if RELEASE in obj["metadata"]["name"]] == []
    release.helm("install")
    assert release.solve("kept")


def test_an_uninstall_takes_all_if_asked(release: Release) -> None:
    release.helm("install", crds={"keep": False})
    release.apply("gone")
    release.helm("uninstall")
    release.admin.run("wait", "--for=delete", f"crd/{release.crd}", "--timeout=180s", seconds=190)


def test_crds_of_kubectl_can_be_handed_over_as_the_install_page_says(release: Release, tmp_path: Path) -> None:
    (crd,) = [o for o in render(chart=older(release.chart, tmp_path)) if o["metadata"]["name"] == release.crd]
    release.admin.apply(crd | {"metadata": {"name": release.crd}}, server_side=True)
    release.admin.run("wait", "--for=condition=Established", "--timeout=30s", f"crd/{release.crd}")
    release.apply("kept")
    release.helm("install", None, "--take-ownership", "--force-conflicts")
    release.apply("new", queueName="team-a")
    assert release.solve("kept")


@pytest.mark.parametrize(
    "values", [{"podDisruptionBudget": {"enabled": True}, "dashboards": {"enabled": True}}, {"namespaced": True}]
)
def test_every_object_is_taken_by_the_server(release: Release, values: Object) -> None:
    objects = render(values, RELEASE, release.kube.namespace, release.chart)
    text = "---\n".join(dump(obj) for obj in objects)
    answer = release.kube.run("apply", "--server-side", "--dry-run=server", "-f", "-", text=text)
    assert answer.count("serverside-applied") == len(objects)


def allowed(release: Release, verb: str, resource: str, namespace: str) -> bool:
    """Whether the operator may, by the server's own word."""
    account = f"--as=system:serviceaccount:{release.kube.namespace}:{RELEASE}-operator"
    try:
        release.admin.inside(namespace).run("auth", "can-i", verb, resource, account)
    except Refused:
        return False
    return True


def test_a_namespaced_operator_has_rights_in_its_namespace_and_nowhere_else(release: Release) -> None:
    release.helm("install", namespaced=True)
    here, lease = release.kube.namespace, f"leases.coordination.k8s.io/{RELEASE}-operator"
    for verb, resource in (("patch", "configmaps"), ("create", "jobs.batch"), ("get", lease)):
        assert allowed(release, verb, resource, here), f"{verb} {resource}"
        assert not allowed(release, verb, resource, "default"), f"{verb} {resource}"
    assert not allowed(release, "get", "secrets", here)
    assert not allowed(release, "update", "leases.coordination.k8s.io/another", here)


def test_a_wide_operator_has_rights_everywhere_but_its_lease(release: Release) -> None:
    release.helm("install")
    lease = f"leases.coordination.k8s.io/{RELEASE}-operator"
    assert allowed(release, "create", "jobs.batch", "default")
    assert allowed(release, "update", lease, release.kube.namespace)
    assert not allowed(release, "update", lease, "default")
    assert not allowed(release, "list", "secrets", "default")


def test_the_network_policy_knows_the_port_of_this_api_server(release: Release) -> None:
    release.helm("install")
    policy = release.kube.get("networkpolicy", f"{RELEASE}-operator")
    assert policy is not None
    allowed_ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    slices = release.admin.list("endpointslices", "kubernetes.io/service-name=kubernetes")
    assert {port["port"] for found in slices for port in found["ports"]} | {53, 443, 6443, 8080} == allowed_ports
