import re

import pytest

from e2e.cluster.versions import ADDONS, CORE, GO, GO_SOURCES, GPU_NODE, KUBERNETES, OLDEST_GO, ON_REQUEST, Component

ALL = (*CORE, *ADDONS, *ON_REQUEST, *GPU_NODE)
MODULES = sorted(path.parent.name for path in GO_SOURCES.glob("*/go.mod"))


def pinned(module: str) -> dict[str, str]:
    """Module -> version as a go.mod requires it."""
    text = (GO_SOURCES / module / "go.mod").read_text()
    return dict(re.findall(r"^(?:require )?\s*(\S+) v(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("component", [c for c in ALL if c.requires], ids=lambda c: c.name)
def test_the_table_says_what_go_mod_pins(component: Component) -> None:
    assert pinned(component.module)[component.requires] == component.version


def test_every_go_module_is_built_by_some_component() -> None:
    assert {c.module for c in ALL} == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_no_module_needs_a_newer_go_than_we_bring(module: str) -> None:
    found = re.search(r"^go (\d+)\.(\d+)\.(\d+)$", (GO_SOURCES / module / "go.mod").read_text(), re.MULTILINE)
    assert found
    assert tuple(map(int, found.groups())) <= OLDEST_GO


def test_the_go_we_bring_is_new_enough_for_ourselves() -> None:
    assert tuple(map(int, GO.split("."))) >= OLDEST_GO


def test_kubernetes_staging_modules_are_of_the_same_release() -> None:
    text = (GO_SOURCES / "kubernetes" / "go.mod").read_text()
    replaced = re.findall(r"^replace k8s\.io/\S+ => k8s\.io/\S+ v(\S+)", text, re.MULTILINE)
    assert set(replaced) == {KUBERNETES.replace("1.", "0.", 1)}
