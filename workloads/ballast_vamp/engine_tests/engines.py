"""Engines for tests, in processes of their own: vLLM is not in the environment that pytest runs in."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ballast_vamp.engine_tests import environment

ROOT = Path(__file__).parents[3]
BLOCK = 64 << 10  # bytes of a block of the tiny Qwen3-MoE: 4 layers x 32 tokens x 2 x 2 heads x 32 numbers of 4 bytes
VAMP = {
    "VAMP_ENABLE": "1",
    "VAMP_FAKE_DEVICE": "1",
    "VAMP_MAX_OFFLOAD_BYTES": "100000000",
    "VAMP_HOST_BYTES": "100000000",
    "VAMP_CHUNK_BYTES": "600000",
}
COPIED = {  # options of an engine whose KV is copied to host memory, and each copy looked at: see watched.py
    "kv_transfer_config": {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "Watched",
            "spec_module_path": "ballast_vamp.engine_tests.watched",
            "cpu_bytes_to_use": 256 << 20,
            "offload_prompt_only": False,
        },
    }
}
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",  # two threads that spin against each other are a hundred times slower
    "TORCH_COMPILE_DISABLE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
Case = dict[str, Any]


def installed(folder: Path) -> Path:
    """Our package as if it were installed: its entry points, found by vLLM as they would be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / f"ballast-{project['version']}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ballast\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    text = "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups)
    (info / "entry_points.txt").write_text(text)
    return folder


def variables(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process that runs vLLM with our package beside it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VAMP_", "VLLM_", "PYTHON"))}
    path = f"{ROOT / 'workloads'}:{installed(folder)}"
    return {**kept, **SETTINGS, "PYTHONPATH": path, "TMPDIR": tempfile.gettempdir(), **more}


def run(cases: list[Case], folder: Path) -> list[dict[str, Any]]:
    """Run engines one after the other in one process (importing vLLM takes longer than they do)."""
    results: list[dict[str, Any]] = _last_line("run_engine", cases, folder)
    return results


def restless(case: Case, folder: Path) -> dict[str, float]:
    """One engine whose pages never rest, for some seconds: see restless.py."""
    found: dict[str, float] = _last_line("restless", case, folder)
    return found


def _last_line(module: str, asked: Any, folder: Path) -> Any:
    done = subprocess.run(
        [environment.python(), "-m", f"ballast_vamp.engine_tests.{module}", json.dumps(asked)],
        env=variables(folder, VLLM_ENABLE_V1_MULTIPROCESSING="0"),
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextlib.contextmanager
def server(model: Path, folder: Path, **more: str) -> Iterator[str]:
    """`vllm serve` of a model, its address; ended afterwards with all its children."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--load-format=dummy", "--enforce-eager", "--max-model-len=1024", "--max-num-seqs=16", "--block-size=32"]
    flags += [f"--kv-cache-memory-bytes={60 * BLOCK}", "--dtype=float32", f"--port={port}", "--host=127.0.0.1"]
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [environment.python(), "-m", "vllm.entrypoints.cli.main", "serve", str(model), *flags],
            env=variables(folder, **more),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address, process, log)
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-4000:]
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
            return
        time.sleep(0.5)
    raise AssertionError(f"the server was not ready after 400 s: {log.read_text()[-4000:]}")


def page(address: str) -> dict[str, float]:
    """`vamp:*` and preemptions on a server's /metrics, labels as they are spelled."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [line for line in lines if line.startswith(("vamp:", "vllm:num_preemptions_total"))]
    return {match[1]: float(match[2]) for line in wanted if (match := re.match(r"(.*) (\S+)$", line))}
