"""Pages that never rest in real engines: what is slow to come up in service comes up in seconds here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ballast_vamp.engine_tests import engines, environment, models
from ballast_vamp.engine_tests.engines import BLOCK, COPIED, VAMP

PLAIN = {"block_size": 32, "dtype": "float32"}
KINDS: dict[str, dict[str, Any]] = {
    "moe": {"kv_bytes": 70 * BLOCK, "env": VAMP, "options": PLAIN},
    "copied": {"kv_bytes": 70 * BLOCK, "env": VAMP, "options": {**PLAIN, **COPIED}},
    "next": {
        "kv_bytes": 6_000_000,
        "env": {**VAMP, "VAMP_CHUNK_BYTES": "1000000", "VAMP_MIN_RESIDENT_FRACTION": "0.2"},
        "options": {"dtype": "bfloat16"},
    },
}


@pytest.mark.long
@pytest.mark.parametrize("scheduler", ["sync", "async"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_no_block_without_memory_is_ever_known_or_used(tmp_path: Path, kind: str, seed: int, scheduler: str) -> None:
    try:
        environment.python()
    except environment.CannotMakeError as error:
        pytest.skip(str(error))
    model = models.write("next" if kind == "next" else "moe", tmp_path / kind)
    case = {"model": str(model), "seed": seed, "seconds": 60, "async": scheduler == "async", **KINDS[kind]}
    found = engines.restless(case, tmp_path)
    print(found)
    assert found["answered"] > 20
    assert found["found"] > 0, "no conversation came back to what it had said"
    assert found['vamp:repartition_total{direction="grow",result="ok"}'] > 1
    assert found['vamp:repartition_total{direction="shrink",result="ok"}'] > 1
