from __future__ import annotations

import pytest

from ballast_vamp.config import Config, Fault, Mode
from ballast_vamp.reasons import Disabled, Reason
from ballast_vamp.steps import Step

GOOD = {"VAMP_ENABLE": "1", "VAMP_MAX_OFFLOAD_BYTES": str(8 << 30)}


def test_nothing_is_read_where_vamp_is_not_asked_for() -> None:
    assert Config.from_environment({"VAMP_MODE": "nonsense"}) == Config(enable=False)


def test_defaults_and_values() -> None:
    config = Config.from_environment({**GOOD, "VAMP_HOST_BYTES": str(4 << 30), "VAMP_FAULT": "kv:1"})
    assert (config.mode, config.chunk_bytes, config.min_resident_fraction) == (Mode.AUTO, 256 << 20, 0.5)
    assert config.max_offload_bytes == 4 << 30, "what has no host copy cannot be offloaded"
    assert config.fault == Fault(Step.KV, 1)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("VAMP_ENABLE", "yes", "VAMP_ENABLE is 'yes', not 1"),
        ("VAMP_MODE", "zerocopy", "one of Auto, DryRun"),
        ("VAMP_MAX_OFFLOAD_BYTES", "8Gi", "VAMP_MAX_OFFLOAD_BYTES is '8Gi', not a whole number of bytes"),
        ("VAMP_MIN_RESIDENT_FRACTION", "1.5", "a number from 0 to 1"),
        ("VAMP_CHUNK_BYTES", "0", "above 0"),
        ("VAMP_FAULT", "nowhere:0", "STEP:RANK"),
    ],
)
def test_a_bad_value_is_named_with_what_is_accepted(name: str, value: str, words: str) -> None:
    with pytest.raises(Disabled, match=words) as error:
        Config.from_environment({**GOOD, name: value})
    assert error.value.reason is Reason.BAD_CONFIGURATION


def test_the_budget_must_be_given() -> None:
    with pytest.raises(Disabled, match="VAMP_MAX_OFFLOAD_BYTES is not set"):
        Config.from_environment({"VAMP_ENABLE": "1"})
