"""The examples in docs/ are objects that the API server would take."""

from pathlib import Path

import pytest

from ballast_api.faults import faults
from ballast_api.yamltext import load_all
from ballast_cxl.controller.regions import selector

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("cxlregion-*.yaml"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_object_of_ours_is_valid(path: Path) -> None:
    for obj in load_all(path.read_text(encoding="utf-8")):
        assert not obj["apiVersion"].startswith("ballast.dev/") or faults(obj) == [], obj["metadata"]["name"]


def test_the_selector_in_the_example_is_the_one_that_is_documented() -> None:
    (path,) = [p for p in EXAMPLES if p.stem.endswith("other-namespace")]
    _, template = load_all(path.read_text(encoding="utf-8"))
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["selectors"][0]["cel"]["expression"] == selector("team-a", "kv")
