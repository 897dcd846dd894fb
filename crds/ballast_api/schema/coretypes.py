"""Types of core/v1 as the API server itself describes them, cut down to what a CRD has room for.

core.json is extracted by `python -m ballast_api.schema --core SOURCE`; see extract.py for what is left out and why.
"""

import json
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

FILE = "core.json"


@cache
def extracted() -> dict[str, Any]:
    """The whole extract: `source` and `schemas` by short name."""
    text = (files("ballast_api.schema") / FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def schema(name: str) -> dict[str, Any]:
    """Structural schema of the type core/v1 calls `name`. KeyError for one that was not extracted."""
    found: dict[str, Any] = deepcopy(extracted()["schemas"][name])
    return found
