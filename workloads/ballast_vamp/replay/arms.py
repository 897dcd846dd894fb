"""The arms: what is compared, as arguments and environment of an engine; and one run of one of them.

    plain              vLLM with the physical KV that the pressure leaves
    vamp               the same, and VAMP may turn memory of experts into KV
    kv-offload         the same, and vLLM's own offload of KV to host memory
    vamp+kv-offload    both; they share the host memory of the other two half and half
    always-offload     as vamp, but experts leave whenever cache is short, whatever that costs
    ideal              all KV that the trace asks for in GPU memory: what could be reached at best

An engine of this machine runs in a process of its own, which ends with the run: so its memory is free for the next.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from ballast_serving import plugins
from ballast_vamp.config import Mode
from ballast_vamp.replay.errors import BadInputError, ReplayError
from ballast_vamp.replay.profiles import PROFILE, WARMING_UP, Profile

ARMS = ("plain", "vamp", "kv-offload", "vamp+kv-offload", "always-offload", "ideal")
GIB = 1 << 30
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Setup:
    """What all local arms have in common. physical, ideal: tokens of KV, under pressure and without it; longest: tokens
    of the largest context; host, offload: bytes on each rank of host memory, and of experts that may go there (0: as
    many); engine: further arguments of vLLM's `LLM`."""

    model: str
    layers: int | None
    physical: int
    ideal: int
    longest: int
    block: int
    seqs: int
    host: int
    offload: int
    profile: str | None
    shift: str | None
    engine: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """Runs of one engine: which arm of which setup, over which trace, and how often to sample. The hot experts of
    several runs are not the same."""

    arm: str
    setup: Setup
    trace: str
    every: float
    runs: int = 1

    @property
    def blocks(self) -> int:
        """Blocks of KV that the engine gets memory for. One more than the tokens take: block 0 is never used."""
        tokens = self.setup.ideal if self.arm == "ideal" else self.setup.physical
        return -(-tokens // self.setup.block) + 1

    def arguments(self, kv_bytes: int) -> dict[str, Any]:
        """Of vLLM's `LLM`, but for the model, of which a token takes so many bytes of KV on each rank.

        The cache is given in bytes and not in blocks: to VAMP, blocks without memory are no contradiction.
        """
        setup = self.setup
        found: dict[str, Any] = {
            "max_model_len": setup.longest + 1,  # vLLM wants room for one token more than it will say
            "max_num_seqs": setup.seqs,
            "block_size": setup.block,
            "kv_cache_memory_bytes": self.blocks * setup.block * kv_bytes,
            "enable_prefix_caching": True,
            "disable_log_stats": False,
            "logits_processors": ["ballast_vamp.replay.forced:Forced"],
        }
        if setup.profile:
            found["worker_extension_cls"] = "ballast_vamp.replay.routing.RoutingExtension"
        if self.arm.endswith("kv-offload"):
            ranks = setup.engine.get("tensor_parallel_size", 1)  # it is given for all of them, and VAMP's for each
            found |= {"kv_offloading_size": ranks * self._host() / GIB, "kv_offloading_backend": "native"}
        return found | dict(setup.engine)

    def environment(self) -> dict[str, str]:
        """On top of the caller's own; VAMP is asked for in no other way."""
        found = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        if self.setup.profile:
            found[PROFILE] = str(Profile.parse(self.setup.profile).another(WARMING_UP))
        if self.arm.startswith("vamp") or self.arm == "always-offload":
            host = self._host()
            mode = Mode.ALWAYS if self.arm == "always-offload" else Mode.AUTO
            found |= {"VAMP_ENABLE": "1", "VAMP_MODE": mode.value, "VAMP_HOST_BYTES": str(host)}
            found["VAMP_MAX_OFFLOAD_BYTES"] = str(min(self.setup.offload or host, host))
        return found

    def _host(self) -> int:
        return self.setup.host // 2 if self.arm == "vamp+kv-offload" else self.setup.host


def check(arms: list[str]) -> None:
    """Raises BadInputError for arms that are none, or none at all."""
    for arm in arms:
        if arm not in ARMS:
            raise BadInputError(f"arm {arm} is not one of {', '.join(ARMS)}")
    if not arms or len(set(arms)) < len(arms):
        raise BadInputError(f"--arms has {', '.join(arms) or 'nothing'}; name each arm once")


def run(task: Task, gpu: str | None = None) -> Generator[dict[str, Any] | None]:
    """The outcome of each run as it ends, and None now and then meanwhile: who has had enough closes the generator. The
    engine is in a process of its own, which sees this GPU only if one is named. Raises ReplayError with what its log
    says if it fails."""
    # What VAMP is told is the arm's; only that a CPU may stand in for a device is the caller's.
    kept = ("VAMP_FAKE_DEVICE",)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("VAMP_") or name in kept}
    inherited.setdefault("OMP_NUM_THREADS", "1")  # on CPUs, more threads than cores make it a hundred times slower
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        asked, answered, log = (Path(folder) / name for name in ("task.json", "result.jsonl", "log"))
        asked.write_text(json.dumps(asdict(task)))
        answered.touch()
        command = [sys.executable, "-m", "ballast_vamp.replay.child", str(asked), str(answered)]
        environment = inherited | with_plugin(Path(folder), inherited) | task.environment()
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        with log.open("wb") as output, answered.open() as lines:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
            try:
                yield from _answers(process, lines)
            finally:
                _end(process)
        if process.returncode != 0:
            said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
            words = "\n".join(why(said))
            raise ReplayError(
                f"arm {task.arm}: the engine's process ended with {process.returncode}: {said[-1]}\n{words}"
            )


def _answers(process: subprocess.Popen[bytes], lines: TextIO) -> Generator[dict[str, Any] | None]:
    """A line is one outcome. It is long, so a look may find a part of it."""
    line = ""
    while True:
        ended = process.poll() is not None
        for part in lines:
            line += part
            if line.endswith("\n"):
                yield json.loads(line)
                line = ""
        if ended:
            return
        yield None
        time.sleep(LOOK_SECONDS)


def why(said: Sequence[str], first: int = 60, last: int = 25) -> list[str]:
    """What tells most of a log: from its first error on, which the engine's own process tells, and its end."""
    start = next((n for n, line in enumerate(said) if " ERROR " in line), len(said))
    return [*said[start : start + first], *said[max(start + first, len(said) - last) :]]


def with_plugin(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Where vLLM finds VAMP as a plugin: nowhere else if it is installed, or in a folder made from this checkout.

    The same in every arm: without VAMP_ENABLE the plugin does nothing, and that is part of what is measured.
    """
    if any(entry.name == "vamp" for entry in metadata.entry_points(group=plugins.GROUP)):
        return {}
    checkout = Path(__file__).parents[3]
    if not (checkout / "pyproject.toml").exists():
        raise BadInputError("vLLM does not find VAMP among its plugins; pip install ballast into this environment")
    plugins.write(checkout / "pyproject.toml", folder / "site")
    paths = [str(folder / "site"), str(checkout / "workloads"), environment.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of the engine may live on, its workers included: they would keep the memory of the next arm."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
