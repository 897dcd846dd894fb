"""An engine on CPUs never pretends to move memory, unless it is told to."""

from types import SimpleNamespace
from typing import Any

import pytest

from ballast_vamp.config import Config
from ballast_vamp.plugin import CPU_WORKER, adopt
from ballast_vamp.reasons import Disabled, Reason

ASKED = {"VAMP_ENABLE": "1", "VAMP_MAX_OFFLOAD_BYTES": "1024"}


def engine() -> Any:
    """The configuration of a small engine on CPUs, as far as it is read."""
    return SimpleNamespace(
        model_config=SimpleNamespace(is_moe=True, architecture="Qwen3MoeForCausalLM"),
        parallel_config=SimpleNamespace(
            worker_cls=CPU_WORKER, pipeline_parallel_size=1, enable_expert_parallel=False, enable_eplb=False
        ),
        cache_config=SimpleNamespace(num_gpu_blocks_override=None),
        scheduler_config=SimpleNamespace(scheduler_cls=None, async_scheduling=False),
        kv_transfer_config=None,
    )


def test_a_pod_on_cpus_says_that_there_is_no_gpu() -> None:
    made = engine()
    with pytest.raises(Disabled) as told:
        adopt(made, Config.from_environment(ASKED))
    assert told.value.reason is Reason.NO_CUDA
    assert made.parallel_config.worker_cls == CPU_WORKER
    assert made.scheduler_config.scheduler_cls is None


def test_a_trial_run_on_cpus_has_to_be_asked_for() -> None:
    made = engine()
    adopt(made, Config.from_environment(ASKED | {"VAMP_FAKE_DEVICE": "1"}))
    assert made.scheduler_config.scheduler_cls == "ballast_vamp.scheduler.VampScheduler"
