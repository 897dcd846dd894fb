"""The entry point: what vLLM calls in each of its processes. Without VAMP_ENABLE it does nothing at all.

With it, an engine that VAMP can serve gets our scheduler and worker classes when its configuration is made, so that
`vllm serve MODEL` needs no further option. Any other engine is served as it is, and /metrics says why.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from ballast_vamp import metrics
from ballast_vamp.config import Config
from ballast_vamp.reasons import Disabled, Reason

CPU_WORKER = "vllm.v1.worker.cpu_worker.CPUWorker"
# Connectors that copy cache by its addresses, in this process. Others pin pages that may be remapped, or open them in
# another process, or read blocks at times that nobody has looked at: what they transfer would be silently wrong.
CONNECTORS = ("OffloadingConnector", "SimpleCPUOffloadConnector", "LMCacheConnectorV1")
_registered = False
log = logging.getLogger("vllm.vamp")  # vLLM's own handler prints it


def register() -> None:
    """Called by vLLM, once or more in each process."""
    global _registered
    if _registered:
        return
    try:
        config = Config.from_environment()
        if not config.enable:
            return
        _registered = True
        from ballast_vamp import compat

        compat.check()
    except Disabled as disabled:
        _registered = True
        _serve_plain(disabled)
        return
    _patch()


def _serve_plain(disabled: Disabled) -> None:
    """Say why VAMP stays out, once, in the process that makes the configuration: the one that answers /metrics."""
    from vllm.engine.arg_utils import EngineArgs

    original = EngineArgs.create_engine_config

    @functools.wraps(original)
    def create_engine_config(self: Any, *args: Any, **options: Any) -> Any:
        tell(disabled)
        return original(self, *args, **options)

    EngineArgs.create_engine_config = create_engine_config
    _show_metrics()


def tell(disabled: Disabled, engine: str = "0") -> None:
    """Log a reason and show it on /metrics."""
    log.warning("VAMP stays out: %s; vLLM is served without it", disabled)
    made = metrics.Metrics()
    made.set("vamp:active", 0)
    made.set("vamp:disabled_info", 1, reason=disabled.reason, message=disabled.message)
    metrics.write(engine, made)


def _patch() -> None:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.core import EngineCore

    make_config, start_caches = EngineArgs.create_engine_config, EngineCore._initialize_kv_caches

    @functools.wraps(make_config)
    def create_engine_config(self: Any, *args: Any, **options: Any) -> Any:
        made = make_config(self, *args, **options)
        metrics.folder()  # before any process is started that must know it
        try:
            config = Config.from_environment()
            if config.enable:
                adopt(made, config)
        except Disabled as disabled:
            tell(disabled)
        return made

    @functools.wraps(start_caches)
    def initialize_kv_caches(self: Any, *args: Any, **options: Any) -> Any:
        from ballast_vamp import link

        link.keep(self)
        return start_caches(self, *args, **options)

    EngineArgs.create_engine_config = create_engine_config
    EngineCore._initialize_kv_caches = initialize_kv_caches
    _show_metrics()


def adopt(made: Any, config: Config) -> None:
    """Put our classes into an engine's configuration. Raises Disabled, having changed nothing, if it is not for us."""
    from ballast_vamp.compat import WORKERS

    if made.parallel_config.worker_cls == CPU_WORKER and not config.fake_device:
        raise Disabled(Reason.NO_CUDA, "the engine runs on CPUs, and what moves is memory of an NVIDIA GPU")
    refuse_unsupported(made)
    worker = WORKERS.get(made.parallel_config.worker_cls)
    if worker is None:
        raise Disabled(
            Reason.UNSUPPORTED_OPTION, f"the worker class {made.parallel_config.worker_cls} is not one of vLLM's own"
        )
    kind = "VampAsyncScheduler" if made.scheduler_config.async_scheduling else "VampScheduler"
    made.scheduler_config.scheduler_cls = f"ballast_vamp.scheduler.{kind}"
    made.parallel_config.worker_cls = worker
    log.info("VAMP: up to %d bytes of experts may leave each rank", config.max_offload_bytes)


def refuse_unsupported(made: Any) -> None:
    """Raise Disabled for what VAMP does not serve, the first of it in words."""
    model, parallel, cache = made.model_config, made.parallel_config, made.cache_config
    if not model.is_moe:
        raise Disabled(Reason.NOT_MOE, f"{model.architecture} has no experts")
    offload = getattr(made, "offload_config", None)
    refused = {
        "--scheduler-cls is set": made.scheduler_config.scheduler_cls is not None,
        "--pipeline-parallel-size is above 1": parallel.pipeline_parallel_size > 1,
        "--enable-expert-parallel is set": parallel.enable_expert_parallel,
        "--enable-eplb is set": parallel.enable_eplb,
        "--enable-sleep-mode is set": getattr(model, "enable_sleep_mode", False),
        # It would be fitted to all the cache that could be had, and none of it but what is there may be promised.
        "--max-model-len is auto; give the tokens": getattr(model, "original_max_model_len", None) == -1,
        "--num-gpu-blocks-override is set; use --kv-cache-memory-bytes": cache.num_gpu_blocks_override is not None,
        "weights are offloaded by --cpu-offload-gb or --offload-backend": _offloads(offload, cache),
        "--enable-return-routed-experts is set": _returns_routes(made),
    }
    refused |= {
        f"the KV connector {name} is none of {', '.join(CONNECTORS)}": name not in CONNECTORS
        for name in _connectors(made.kv_transfer_config)
    }
    for words, there in refused.items():
        if there:
            raise Disabled(Reason.UNSUPPORTED_OPTION, words)


def _returns_routes(made: Any) -> bool:
    """Whether vLLM would put its own hook for routes in the place of ours, after the model was loaded."""
    places = (made.model_config, getattr(made, "aux_output_config", None))
    return any(getattr(place, "enable_return_routed_experts", False) for place in places)


def _offloads(offload: Any, cache: Any) -> bool:
    uva, prefetch = getattr(offload, "uva", None), getattr(offload, "prefetch", None)
    return bool(
        getattr(uva, "cpu_offload_gb", 0)
        or getattr(prefetch, "offload_group_size", 0)
        or getattr(cache, "cpu_offload_gb", 0)
    )


def _connectors(transfer: Any) -> list[str]:
    """Names of the KV connectors, those inside of vLLM's MultiConnector."""
    name = str(getattr(transfer, "kv_connector", None) or "")
    if name != "MultiConnector":
        return [name] if name else []
    parts = (getattr(transfer, "kv_connector_extra_config", None) or {}).get("connectors", [])
    return [str(part.get("kv_connector")) for part in parts]


def _show_metrics() -> None:
    """Add `vamp:*` to the registry behind /metrics, whichever vLLM uses."""
    from vllm.v1.metrics import prometheus

    original = prometheus.get_prometheus_registry
    shown: set[int] = set()

    @functools.wraps(original)
    def get_prometheus_registry() -> Any:
        registry = original()
        if id(registry) not in shown:
            shown.add(id(registry))
            registry.register(metrics.Collector())
        return registry

    prometheus.get_prometheus_registry = get_prometheus_registry
