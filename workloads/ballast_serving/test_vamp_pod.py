"""An engine pod on CPUs that was asked for VAMP: real vLLM, found plugin, honest answer on the port that is watched."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import ballast_vamp.engine_tests.environment as environment
from ballast_serving import plugins

CHECKOUT = Path(__file__).parents[2]
START_SECONDS = 400


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def page(url: str) -> str:
    """What is answered, or nothing."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The pod's process, as the image starts it, and its status port."""
    try:
        python = environment.python()
    except environment.CannotMakeError as error:
        pytest.skip(str(error))
    plugins.write(CHECKOUT / "pyproject.toml", tmp_path / "site")
    settings = {
        "PYTHONPATH": f"{tmp_path / 'site'}:{CHECKOUT / 'workloads'}",
        "TMPDIR": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VAMP_ENABLE": "1",
        "VAMP_MAX_OFFLOAD_BYTES": str(64 << 20),
        "VAMP_PROFILE": str(tmp_path / "cache/vamp/team-a/tiny.json"),
    }
    own = {name: value for name, value in os.environ.items() if not name.startswith("VAMP_")}
    status = free_port()
    flags = ["--model=tiny", "--served-name=tiny", f"--port={free_port()}", f"--status-port={status}"]
    flags += ["--propagation-seconds=1", f"--termination-log={tmp_path / 'said'}", "--", "--max-model-len=1024"]
    with (tmp_path / "log").open("wb") as log:
        command = [str(python), "-m", "ballast_serving", "serve", *flags]
        process = subprocess.Popen(command, env=own | settings, stdout=log, stderr=log)
    yield process, status
    process.kill()
    process.wait()
    print((tmp_path / "log").read_text(errors="replace")[-3000:])


@pytest.mark.timeout(600)
def test_a_pod_without_a_gpu_serves_and_says_nocuda(pod: tuple[subprocess.Popen[bytes], int], tmp_path: Path) -> None:
    process, status = pod
    deadline = time.monotonic() + START_SECONDS
    while not page(f"http://127.0.0.1:{status}/readyz"):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(1)
    said = page(f"http://127.0.0.1:{status}/metrics")
    assert "vamp:active 0.0" in said
    assert 'reason="NoCuda"' in said
    assert (tmp_path / "cache/vamp/team-a").is_dir()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
