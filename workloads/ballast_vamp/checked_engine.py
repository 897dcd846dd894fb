"""An engine that is made to move pages, and what must not change meanwhile; `python -m ballast_vamp check` runs it."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path
from typing import Any

from ballast_vamp.steps import Step

MIB, GIB = 1 << 20, 1 << 30
STALL_MOST = 1.3  # of the bare driver calls
DRIFT_MOST = 1.1
LEAK_MOST = 2 * MIB


def _nothing(*_: Any) -> bool:
    return False


class Engine:
    """An engine with its scheduler and its one rank at hand. Pages move only when a check says so."""

    def __init__(self, model: str, kv: int) -> None:
        from vllm import LLM

        self.llm = LLM(
            model,
            skip_tokenizer_init=True,
            load_format="dummy",
            max_model_len=2048,
            max_num_seqs=32,
            kv_cache_memory_bytes=kv,
            enable_prefix_caching=False,
            async_scheduling=False,
            enforce_eager=kv < GIB,
            disable_log_stats=True,
        )
        core: Any = self.llm.llm_engine.engine_core
        self.scheduler = core.engine_core.scheduler
        self.worker = core.engine_core.model_executor.driver_worker.worker
        self.controller: Any = getattr(self.scheduler, "vamp", None)
        if self.controller is None:
            raise SystemExit("VAMP stays out of this engine; its log says why, unless the plugin is not installed")
        self.rank = self.worker._vamp
        self.vocabulary = int(self.llm.llm_engine.model_config.get_vocab_size())
        self.controller.tick = _nothing
        self.controller.emergency = _nothing
        self.real = self.worker.device.type == "cuda"

    def versions(self) -> dict[str, str]:
        import torch
        import vllm

        device = torch.cuda.get_device_name() if self.real else "none"
        return {"vllm": vllm.__version__, "torch": torch.__version__, "device": device}

    # --- checks

    def stall(self, times: int = 20) -> dict[str, Any]:
        """A commit's stall over the time of the calls that it cannot do without."""
        step = self.controller.shape.step
        bare, commits = [], []
        for _ in range(times):
            before = {pack.id for pack in self.rank.table.packs if pack.region is not None}
            answer = self._commit_grow(step)
            moved = [pack for pack in self.rank.table.packs if pack.region is not None and pack.id not in before]
            commits.append(answer.seconds)
            self.controller.balloon.unpark(self.rank.table.capacity())
            self.controller.shrink(self.controller.balloon.virtual)
            self._settle()
            bare.append(self._bare([size for pack in moved for size in pack.sizes]))
        ratio = statistics.median(commits) / statistics.median(bare)
        return {
            "ok": ratio <= STALL_MOST or not self.real,
            "handles": answer.handles,
            "commit_seconds": statistics.median(commits),
            "bare_seconds": statistics.median(bare),
            "ratio": round(ratio, 3),
        }

    def _commit_grow(self, blocks: int) -> Any:
        from ballast_vamp.rank import Direction, Order

        order = Order(Direction.GROW, self.rank.table.capacity() + blocks)
        assert self.rank.prepare(-1, order).ok
        self.rank.store.vmm.synchronize()  # copies are not part of the stall
        answer = self.rank.commit(-1)
        assert answer.ok, answer.message
        return answer

    def _bare(self, sizes: list[int]) -> float:
        """Each handle: unmapped, host memory mapped in its place, itself mapped elsewhere, and that zeroed."""
        from ballast_vamp.vmm import Where

        vmm = self.rank.store.vmm
        parts = []
        for size in sizes:
            first, second = vmm.create(size, Where.DEVICE), vmm.create(size, Where.HOST)
            here, there = vmm.reserve(size), vmm.reserve(size)
            vmm.map(here, size, first)
            parts.append((size, first, second, here, there))
        vmm.synchronize()
        started = time.perf_counter()
        for size, _, second, here, _ in parts:
            vmm.unmap(here, size)
            vmm.map(here, size, second)
        for size, first, _, _, there in parts:
            vmm.map(there, size, first)
            vmm.zero(there, size)
        vmm.synchronize()
        seconds = time.perf_counter() - started
        for size, first, second, here, there in parts:
            vmm.unmap(here, size)
            vmm.unmap(there, size)
            vmm.release(first)
            vmm.release(second)
        return seconds

    def tokens(self, prompts: int, tokens: int, every: int) -> dict[str, Any]:
        """The same requests twice; the second time pages move every few steps, one way and back."""
        dice = random.Random(1)
        made = [
            [dice.randrange(3, self.vocabulary - 3) for _ in range(dice.randrange(32, 256))] for _ in range(prompts)
        ]
        weights = self._weights()
        calm = self._generate(made, tokens)
        schedule, count, moves = self.scheduler.schedule, [0], [0]

        def disturbed(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] % every == 0:
                away = self.rank.table.offloaded_bytes() * 2 > self.rank.limits.offload
                step = self.controller.shape.step
                moves[0] += abs(self.controller.shrink(8 * step) if away else self.controller.grow(step)) > 0
            return schedule(*arguments, **options)

        self.scheduler.schedule = disturbed
        shaken = self._generate(made, tokens)
        self.scheduler.schedule = schedule
        away = self.rank.table.offloaded_bytes()
        same = sum(a == b for a, b in zip(calm, shaken, strict=True))
        kept = weights == self._weights()
        self.controller.shrink(self.controller.balloon.virtual)
        self._settle()
        return {
            "ok": same == prompts and kept and moves[0] > 0,
            "prompts": prompts,
            "same": same,
            "moves": moves[0],
            "bytes_on_host_at_the_end": away,
            "expert_sums_equal": kept if self.real else None,
        }

    def cache(self, commits: int) -> dict[str, Any]:
        """Bytes of blocks that are handed out, before and after pages moved behind and beside them."""
        if not self.real:
            return {"ok": None, "commits": 0}
        import torch

        for region, base in self._cache_regions():
            self._bytes(base, region.backed).random_(-100, 100)
        torch.cuda.synchronize()
        before, done = self._cache_sums(), 0
        while done < commits:
            grown = self.controller.grow(self.controller.shape.step)
            done += 1
            if not grown:
                self.controller.shrink(self.controller.balloon.virtual)
                self._settle()
        same = before == self._cache_sums()
        self.controller.shrink(self.controller.balloon.virtual)
        self._settle()
        ok = same and before == self._cache_sums()
        for region, base in self._cache_regions():
            self._bytes(base, region.backed).zero_()  # some of them are no numbers to attention
        torch.cuda.synchronize()
        return {"ok": ok, "commits": done, "same": same}

    def cycles(self, cycles: int) -> dict[str, Any]:
        """Grow and shrink over and over: nothing may be left, and the last may not be slower than the first."""
        step, seconds = self.controller.shape.step, []
        for _ in range(10):  # host copies exist afterwards
            self.controller.grow(step)
            self.controller.shrink(self.controller.balloon.virtual)
            self._settle()
        before = self._memory()
        for _ in range(cycles):
            started = time.perf_counter()
            self.controller.grow(step)
            seconds.append(time.perf_counter() - started)
            self.controller.shrink(self.controller.balloon.virtual)
        self._settle()
        after = self._memory()
        self.rank.table.check()
        part = max(1, cycles // 10)
        drift = statistics.median(seconds[-part:]) / statistics.median(seconds[:part])
        leaked = {name: after[name] - before[name] for name in before}
        return {
            "ok": all(abs(size) <= LEAK_MOST for size in leaked.values()) and (drift <= DRIFT_MOST or not self.real),
            "cycles": cycles,
            "leaked_bytes": leaked,
            "grow_seconds": statistics.median(seconds),
            "drift": round(drift, 3),
        }

    def faults(self) -> dict[str, Any]:
        """Each step fails once. The reply does so after everything was done, which the retry finds out."""
        prompts = [[3 + (7 * n + k) % 200 for k in range(64)] for n in range(8)]
        calm, told = self._generate(prompts, 32), {}
        for step in Step:
            before = self._memory()
            self.rank._fault = step
            grown = self.controller.grow(max(1, self.controller.shape.step // 2))  # in one commit for certain
            self.rank._fault = None
            self.rank.table.check()
            same = self._generate(prompts, 32) == calm
            self.controller.shrink(self.controller.balloon.virtual)
            self._settle()
            home = self.rank.table.offloaded() == []
            leaked = {name: size - before[name] for name, size in self._memory().items()}
            ok = same and home and (grown > 0) == (step is Step.REPLY) and abs(leaked["device"]) <= LEAK_MOST
            told[step.value] = {"ok": ok, "blocks_handed_out": grown, "tokens_equal": same, "all_home": home}
        return {"ok": all(part["ok"] for part in told.values()), **told}

    # --- helpers

    def _settle(self) -> None:
        """Until every expert is at home: a chunk at a time, and what a failure left besides."""
        from ballast_vamp.commit import shrink

        for _ in range(10_000):
            outcome = self.controller.coordinator.carry_out(shrink(self.controller.balloon.physical))
            if not outcome.changed:
                return
        raise AssertionError("experts do not come home")

    def _generate(self, prompts: list[list[int]], tokens: int) -> list[list[int]]:
        from vllm import SamplingParams

        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        outputs = self.llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    def _bytes(self, address: int, size: int) -> Any:
        import torch

        from ballast_vamp.worker import view

        return view(address, size, self.worker.device).view(torch.int8)

    def _cache_sums(self) -> list[int]:
        return [self._sum(base, region.backed) for region, base in self._cache_regions()]

    def _cache_regions(self) -> list[tuple[Any, int]]:
        return list(zip(self.rank.table.regions, self.rank.moves.regions, strict=True))

    def _weights(self) -> list[int]:
        """A sum for each weight tensor, through the model's own parameters."""
        if not self.real:
            return []
        from ballast_vamp import compat, experts

        runners = compat.moe_runners(self.worker.model_runner.get_model())
        weights = [getattr(runner.routed_experts, name) for runner in runners for name in experts.WEIGHTS]
        return [self._sum(weight.data_ptr(), weight.numel() * weight.element_size()) for weight in weights]

    def _sum(self, address: int, size: int) -> int:
        """Of 8-byte words times their place, modulo 2^64: moved or changed words change it."""
        import torch

        words = self._bytes(address, size // 8 * 8).view(torch.int64)
        total, chunk = 0, 1 << 24
        for start in range(0, len(words), chunk):
            part = words[start : start + chunk]
            places = torch.arange(start + 1, start + 1 + len(part), device=part.device)
            total += int((part * places).sum())
        return total % (1 << 64)

    def _memory(self) -> dict[str, int]:
        """Bytes in use: on the device, and resident in this process."""
        status = Path("/proc/self/status").read_text().splitlines()
        resident = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:"))
        if not self.real:
            return {"device": sum(memory.size for memory in self.rank.store.vmm.alive)}
        import torch

        free, total = torch.cuda.mem_get_info()
        return {"device": total - free, "host": resident}
