"""Pages that never rest in real engines: what is slow to come up in service comes up in seconds here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast_vamp.engine_tests import engines, environment, models
from ballast_vamp.engine_tests.engines import BLOCK, VAMP


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_block_without_memory_is_ever_known_or_used(tmp_path: Path, seed: int, kind: str) -> None:
    try:
        environment.python()
    except environment.CannotMakeError as error:
        pytest.skip(str(error))
    models.write("moe", tmp_path / "moe")
    found = engines.restless(
        {
            "model": str(tmp_path / "moe"),
            "kv_bytes": 70 * BLOCK,
            "seed": seed,
            "seconds": 60,
            "async": kind == "async",
            "env": VAMP,
        },
        tmp_path,
    )
    print(found)
    assert found["answered"] > 20
    assert found["found"] > 0, "no conversation came back to what it had said"
    assert found['vamp:repartition_total{direction="grow",result="ok"}'] > 3
    assert found['vamp:repartition_total{direction="shrink",result="ok"}'] > 3
