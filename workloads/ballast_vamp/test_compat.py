"""What is read of vLLM's objects, on stand-ins of both versions; the engine tests read the real ones."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ballast_vamp import compat, plugin
from ballast_vamp.geometry import Part
from ballast_vamp.reasons import Disabled, Reason


def cache(tensors: list[Any], blocks: int = 10) -> Any:
    return SimpleNamespace(kv_cache_tensors=tensors, num_blocks=blocks)


def old(size: int, stride: int = 0) -> Any:
    return SimpleNamespace(size=size, shared_by=["a"], block_stride=stride)


def new(layers: int, layer_stride: int, block_stride: int, offset: int = 0, host: bool = False) -> Any:
    return SimpleNamespace(
        size=4000,
        layers=["x"] * layers,
        layer_stride=layer_stride,
        block_stride=block_stride,
        offset=offset,
        host_resident=host,
    )


def test_0_26_has_an_allocation_for_each_tensor() -> None:
    assert compat.cache_parts(cache([old(1000), old(1000)])) == [(1000, [Part(0, 100)])] * 2
    assert compat.cache_parts(cache([old(1000, 100), old(1000, 100)])) == [(1000, [Part(0, 100)])]


def test_0_32_has_one_allocation_in_which_layers_follow_each_other_or_blocks_do() -> None:
    layers = [Part(0, 100), Part(1000, 100), Part(2000, 100), Part(3000, 100)]
    assert compat.cache_parts(cache([new(4, 1000, 100)])) == [(4000, layers)]
    assert compat.cache_parts(cache([new(4, 100, 400)])) == [(4000, [Part(0, 400)])]
    assert compat.cache_parts(cache([new(4, 1000, 100), new(4, 1000, 100)])) == [(4000, layers)], "groups share bytes"


def test_layers_that_overlap_in_part_are_refused() -> None:
    with pytest.raises(Disabled, match="overlap at byte 500"):
        compat.cache_parts(cache([new(1, 1000, 100), new(1, 1000, 100, offset=500)]))
    with pytest.raises(Disabled, match="in host memory already"):
        compat.cache_parts(cache([new(1, 1000, 100, host=True)]))


def test_a_step_without_requests_reads_no_block_of_an_earlier_one() -> None:
    rows = [7, 8]
    table = SimpleNamespace(zero_=rows.clear)
    compat.forget_rows(SimpleNamespace(block_tables=SimpleNamespace(input_block_tables=[table])))
    assert rows == []
    compat.forget_rows(SimpleNamespace())  # a runner that clears them itself


def engine(**changed: Any) -> Any:
    """An engine's configuration, as far as it is looked at."""
    parallel = {"pipeline_parallel_size": 1, "enable_expert_parallel": False, "enable_eplb": False}
    made = {
        "model_config": SimpleNamespace(is_moe=True, architecture="Some", enable_sleep_mode=False),
        "parallel_config": SimpleNamespace(**parallel),
        "cache_config": SimpleNamespace(num_gpu_blocks_override=None),
        "scheduler_config": SimpleNamespace(scheduler_cls=None),
        "offload_config": SimpleNamespace(
            uva=SimpleNamespace(cpu_offload_gb=0), prefetch=SimpleNamespace(offload_group_size=0)
        ),
        "kv_transfer_config": None,
    }
    for path, value in changed.items():
        name, _, field = path.partition("__")
        setattr(made[name], field, value) if field else made.update({name: value})
    return SimpleNamespace(**made)


def transfer(*names: str) -> Any:
    """Of one KV connector, or of several behind one."""
    if len(names) == 1:
        return SimpleNamespace(kv_connector=names[0])
    parts = [{"kv_connector": name} for name in names]
    return SimpleNamespace(kv_connector="MultiConnector", kv_connector_extra_config={"connectors": parts})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"parallel_config__pipeline_parallel_size": 2}, "--pipeline-parallel-size"),
        ({"parallel_config__enable_expert_parallel": True}, "--enable-expert-parallel"),
        ({"model_config__enable_sleep_mode": True}, "--enable-sleep-mode"),
        ({"model_config__enable_return_routed_experts": True}, "--enable-return-routed-experts"),
        ({"model_config__original_max_model_len": -1}, "--max-model-len is auto"),
        ({"scheduler_config__scheduler_cls": "a.B"}, "--scheduler-cls"),
        ({"offload_config__uva": SimpleNamespace(cpu_offload_gb=4)}, "--cpu-offload-gb"),
        ({"kv_transfer_config": transfer("NixlConnector")}, "KV connector NixlConnector is none of Offloading"),
        ({"kv_transfer_config": transfer("OffloadingConnector", "LMCacheMPConnector")}, "KV connector LMCacheMPConn"),
    ],
)
def test_options_that_do_not_go_with_vamp_are_named(changed: dict[str, Any], words: str) -> None:
    plugin.refuse_unsupported(engine())
    with pytest.raises(Disabled, match=words) as told:
        plugin.refuse_unsupported(engine(**changed))
    assert told.value.reason is Reason.UNSUPPORTED_OPTION


def test_vllms_own_offload_of_the_cache_goes_with_vamp() -> None:
    plugin.refuse_unsupported(engine(kv_transfer_config=transfer("OffloadingConnector")))
    plugin.refuse_unsupported(engine(kv_transfer_config=transfer("OffloadingConnector", "LMCacheConnectorV1")))


def test_unasked_the_plugin_does_not_even_import_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAMP_ENABLE", raising=False)
    monkeypatch.setitem(sys.modules, "vllm", None)  # an import of it would raise
    plugin.register()
