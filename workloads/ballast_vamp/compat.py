"""Everything of vLLM that VAMP takes hold of, and how it differs between versions. Checked before anything is changed.

Supported: 0.26 and 0.32, and no other minor version: an engine that was not looked at is served as it is.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ballast_vamp.geometry import Part
from ballast_vamp.reasons import Disabled, Reason

SUPPORTED = ((0, 26), (0, 32))

# What is overridden, called or read, as module:object, and the parameters that it must take, in this order.
SIGNATURES: dict[str, tuple[str, ...]] = {
    "vllm.engine.arg_utils:EngineArgs.create_engine_config": ("self", "usage_context"),
    "vllm.v1.engine.core:EngineCore._initialize_kv_caches": ("self", "vllm_config"),
    "vllm.v1.core.sched.scheduler:Scheduler.schedule": ("self", "throttle_prefills"),
    "vllm.v1.core.sched.scheduler:Scheduler.update_from_output": ("self", "scheduler_output", "model_runner_output"),
    "vllm.v1.core.sched.scheduler:Scheduler._preempt_request": ("self", "request", "timestamp"),
    "vllm.v1.core.sched.scheduler:Scheduler.has_requests": ("self",),
    "vllm.v1.core.sched.scheduler:Scheduler.get_request_counts": ("self",),
    "vllm.v1.core.sched.scheduler:Scheduler.shutdown": ("self",),
    "vllm.v1.core.kv_cache_manager:KVCacheManager.allocate_slots": ("self", "request", "num_new_tokens"),
    "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks": ("self", "request"),
    "vllm.v1.core.kv_cache_coordinator:KVCacheCoordinator.get_num_blocks_to_allocate": ("self", "request_id"),
    "vllm.v1.core.block_pool:BlockPool.evict_blocks": ("self", "block_ids"),
    "vllm.v1.core.block_pool:BlockPool._maybe_evict_cached_block": ("self", "block"),
    "vllm.v1.core.kv_cache_utils:FreeKVCacheBlockQueue.prepend_n": ("self", "blocks"),
    "vllm.v1.core.kv_cache_utils:FreeKVCacheBlockQueue.remove": ("self", "block"),
    "vllm.v1.core.kv_cache_utils:get_block_hash": ("key",),
    "vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler:"
    "OffloadingConnectorScheduler.build_connector_meta": ("self", "scheduler_output"),
    "vllm.v1.worker.gpu_worker:Worker.load_model": ("self", "load_dummy_weights"),
    "vllm.v1.worker.gpu_worker:Worker.determine_available_memory": ("self",),
    "vllm.v1.worker.gpu_worker:Worker.initialize_from_config": ("self", "kv_cache_config"),
    "vllm.v1.worker.gpu_worker:Worker.execute_model": ("self", "scheduler_output"),
    "vllm.v1.metrics.prometheus:get_prometheus_registry": (),
    "vllm.model_executor.layers.fused_moe.router.base_router:BaseRouter.set_capture_fn": ("self", "capture_fn"),
}
WORKERS = {  # vLLM's worker class and ours for it
    "vllm.v1.worker.gpu_worker.Worker": "ballast_vamp.gpu_worker.VampWorker",
    "vllm.v1.worker.cpu_worker.CPUWorker": "ballast_vamp.cpu_worker.VampWorker",
}
# Modules in which vLLM allocates the cache, by torch.zeros of bytes: runners of the first and second kind.
CACHE_MODULES = (
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu.attn_utils",
    "vllm.v1.worker.utils",
)


def version() -> tuple[int, int]:
    """Major and minor version of the installed vLLM. Raises Disabled if it is none of the supported ones."""
    import vllm

    text = str(vllm.__version__)
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        major, minor = -1, -1
    if (major, minor) not in SUPPORTED:
        known = " and ".join(f"{a}.{b}" for a, b in SUPPORTED)
        raise Disabled(Reason.VERSION_MISMATCH, f"vLLM is {text}; VAMP was made for {known}")
    return major, minor


def check() -> None:
    """Raise Disabled unless this vLLM is known and has everything that is taken hold of, as it was when looked at."""
    found = version()
    for path, wanted in SIGNATURES.items():
        have = _parameters(path)
        if have is None or have[: len(wanted)] != wanted:
            raise Disabled(
                Reason.VERSION_MISMATCH,
                f"vLLM {found[0]}.{found[1]} has {path} with parameters {have}, not {wanted}",
            )


def _parameters(path: str) -> tuple[str, ...] | None:
    module, _, names = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return None
    return tuple(inspect.signature(found).parameters)


def moe_runners(model: Any) -> list[Any]:
    """The expert layers of a model that pages can be moved of, in order of their layers. Raises Disabled for others."""
    from vllm.model_executor.layers.fused_moe.layer import MoERunner
    from vllm.model_executor.layers.fused_moe.router.base_router import BaseRouter

    runners = [module for module in model.modules() if isinstance(module, MoERunner)]
    if not runners:
        raise Disabled(Reason.NOT_MOE, "the model has no expert layers")
    for runner in runners:
        if runner.is_monolithic or not isinstance(runner.router, BaseRouter):
            raise Disabled(
                Reason.UNSUPPORTED_BACKEND,
                f"{runner.layer_name} routes inside its kernel; which experts are cold cannot be seen",
            )
    return sorted(runners, key=lambda runner: int(runner.layer_id))


def cache_parts(config: Any) -> list[tuple[int, list[Part]]]:
    """Each allocation of the cache: its bytes, and the runs of blocks in it. Raises Disabled for other layouts."""
    tensors, blocks = config.kv_cache_tensors, config.num_blocks
    if not tensors:
        raise Disabled(Reason.UNSUPPORTED_BACKEND, "the model has no KV cache")
    if hasattr(tensors[0], "shared_by"):  # 0.26: an allocation for each tensor, or one in which blocks are outermost
        if tensors[0].block_stride:
            return [(tensors[0].size, [Part(0, tensors[0].block_stride)])]
        return [(tensor.size, [Part(0, tensor.size // blocks)]) for tensor in tensors]
    if any(tensor.host_resident for tensor in tensors):
        raise Disabled(Reason.UNSUPPORTED_BACKEND, "part of the KV cache lies in host memory already")
    parts: set[tuple[int, int]] = set()
    for tensor in tensors:
        if tensor.layer_stride < tensor.block_stride:  # blocks are outermost: one run holds them whole
            parts.add((0, tensor.block_stride))
        else:
            parts |= {(tensor.offset + n * tensor.layer_stride, tensor.block_stride) for n in range(len(tensor.layers))}
    return [(tensors[0].size, _apart(parts, blocks))]


def _apart(parts: set[tuple[int, int]], blocks: int) -> list[Part]:
    """Runs of blocks in order. Raises Disabled if they overlap other than as a whole."""
    ordered = [Part(start, size) for start, size in sorted(parts)]
    for part, after in itertools.pairwise(ordered):
        if after.start < part.start + blocks * part.block_bytes:
            raise Disabled(Reason.UNSUPPORTED_BACKEND, f"layers of the KV cache overlap at byte {after.start}")
    return ordered


class _Torch(ModuleType):
    """torch, but for one function."""

    def __init__(self, real: ModuleType, zeros: Callable[..., Any]) -> None:
        super().__init__("torch")
        self._real, self.zeros = real, zeros

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@contextmanager
def cache_allocated_by(make: Callable[[int], Any], sizes: Sequence[int]) -> Iterator[None]:
    """While vLLM allocates its cache, allocations of these many bytes come from `make`, in their order."""
    import torch

    left = list(sizes)

    def zeros(*shape: Any, **options: Any) -> Any:
        if left and shape == (left[0],) and options.get("dtype") is torch.int8:
            return make(left.pop(0))
        return torch.zeros(*shape, **options)

    modules = [module for name in CACHE_MODULES if hasattr(module := importlib.import_module(name), "torch")]
    for module in modules:
        module.torch = _Torch(torch, zeros)  # type: ignore[attr-defined]
    try:
        with _layer_by_layer():
            yield
    finally:
        for module in modules:
            module.torch = torch  # type: ignore[attr-defined]
    if left:
        raise RuntimeError(f"vLLM allocated no {left[0]} bytes for its KV cache; serve this engine without VAMP_ENABLE")


@contextmanager
def _layer_by_layer() -> Iterator[None]:
    """While it lasts, 0.26 does not allocate one tensor for all layers, as some KV connectors would prefer: its blocks
    would lie in another order than `cache_parts` says. Connectors register each layer then."""
    try:
        from vllm.v1.worker.kv_connector_model_runner_mixin import KVConnectorModelRunnerMixin as Mixin
    except ImportError:
        yield
        return
    asked = vars(Mixin).get("use_uniform_kv_cache")
    if asked is None:
        yield
        return
    Mixin.use_uniform_kv_cache = staticmethod(lambda *_: False)
    try:
        yield
    finally:
        Mixin.use_uniform_kv_cache = asked


def longest_request_blocks(config: Any, vllm_config: Any) -> int:
    """Blocks that one request of the greatest length takes."""
    specs = [group.kv_cache_spec for group in config.kv_cache_groups]
    return sum(-(-spec.max_memory_usage_bytes(vllm_config) // spec.page_size_bytes) for spec in specs)


def forget_rows(runner: Any) -> None:
    """Have the block tables on the device lead nowhere but to block 0, which always has memory, until the next step
    gathers its own. In 0.26 a step without requests reads through what the last ones left there; the first kind of
    runner, and 0.32, clear it themselves."""
    for table in getattr(getattr(runner, "block_tables", None), "input_block_tables", ()):
        table.zero_()


def waiting(scheduler: Any) -> Iterator[Any]:
    """Requests that do not run, those first that hold blocks or wait for something besides them."""
    apart = (getattr(scheduler, name, ()) for name in ("skipped_waiting", "kv_holding_waiting"))  # 0.26, 0.32
    return itertools.chain(*apart, scheduler.waiting)


def copiers(connector: Any) -> list[Any]:
    """Scheduler halves of the KV connectors that copy blocks which their requests have given back already. They see to
    it that a copy was made only before somebody else gets the block."""
    if connector is None:
        return []
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    parts = getattr(connector, "_connectors", [connector])  # vLLM's MultiConnector has several
    return [part.connector_scheduler for part in parts if isinstance(part, OffloadingConnector)]


def hand_to_somebody_else(copier: Any, blocks: Iterable[int]) -> None:
    """Have copies from these blocks made before the next step runs, those that are not even planned yet included."""
    copier._current_batch_allocated_block_ids.update(blocks)


def plain_hash(block: Any) -> Any:
    """The hash of a cached block as requests have it: without the group that the pool adds."""
    from vllm.v1.core.kv_cache_utils import get_block_hash

    return get_block_hash(block.block_hash)


def block_tokens(config: Any) -> int:
    """Tokens that one block holds, of the group that holds most of them."""
    return max(int(group.kv_cache_spec.block_size) for group in config.kv_cache_groups)
