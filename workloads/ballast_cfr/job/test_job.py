"""The pod as its operator sees it: arguments in; exit code, termination message, status and result out."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ballast_cfr.errors import BadInputError, FileError, SolverError
from ballast_cfr.job import configmap, lock
from ballast_cfr.job.message import LIMIT, fit
from ballast_cfr.job.run import ending
from ballast_cfr.job.status import Status, serve

LEDUC = ("--game-builtin", "leduc")


@dataclass
class Pod:
    """Runs `job` in a directory of its own."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ballast_cfr", "job", "--checkpoint-dir", str(self.root / "checkpoint")]
        return subprocess.Popen(
            [*command, "--termination-log", str(self.root / "termination"), *arguments],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> int:
        process = self.start(*arguments)
        self.out, self.err = process.communicate(timeout=120)
        return process.returncode

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "termination").read_text())
        return found

    @property
    def strategy(self) -> str:
        return hashlib.sha256((self.root / "out" / "s.csv").read_bytes()).hexdigest()


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


def output(pod: Pod) -> tuple[str, ...]:
    return ("--output-file", str(pod.root / "out" / "s.csv"))


def test_a_solve_that_meets_its_target_says_so(pod: Pod) -> None:
    assert pod.run(*LEDUC, "--exploitability", "1e-2", *output(pod)) == 0
    said = pod.message
    assert said["reason"] == "TargetReached"
    assert said["exploitability"] <= 1e-2
    assert said["message"].startswith("the target exploitability was reached at iteration")
    assert (said["infosets"], said["configMap"], said["strategySha256"]) == (936, False, pod.strategy)
    assert said["file"] == str(pod.root / "out" / "s.csv")


def test_an_iteration_limit_is_met_exactly(pod: Pod) -> None:
    assert pod.run(*LEDUC, "--max-iterations", "77") == 0
    assert (pod.message["reason"], pod.message["iteration"]) == ("IterationLimit", 77)


def test_a_finished_solve_finishes_again_without_solving(pod: Pod) -> None:
    arguments = (*LEDUC, "--max-iterations", "500", *output(pod))
    assert pod.run(*arguments) == 0
    first = pod.strategy
    (pod.root / "out" / "s.csv").unlink()
    assert pod.run(*arguments) == 0
    assert "resuming at iteration 500" in pod.out
    assert pod.strategy == first


def test_killed_and_terminated_and_resumed_is_the_uninterrupted_strategy(pod: Pod, tmp_path: Path) -> None:
    whole = Pod(tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    arguments = ("--game-builtin", "liars-dice", "--max-iterations", "1500", "--checkpoint-interval", "0.1")
    assert whole.run(*arguments, *output(whole)) == 0
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        process = pod.start(*arguments, *output(pod))
        begun = time.time()
        _wait(lambda begun=begun: _written(pod) > begun)
        process.send_signal(end)
        process.communicate(timeout=60)
        assert process.returncode == (143 if end == signal.SIGTERM else -end)
    assert pod.run(*arguments, *output(pod)) == 0
    assert "resuming at iteration" in pod.out
    assert pod.strategy == whole.strategy


def _written(pod: Pod) -> float:
    file = pod.root / "checkpoint" / "checkpoint.ballast"
    return file.stat().st_mtime if file.exists() else 0.0


def test_sigterm_ends_with_143_after_a_checkpoint(pod: Pod) -> None:
    process = pod.start(*LEDUC, "--max-iterations", "100000000", "--checkpoint-interval", "3600")
    _wait(lambda: (pod.root / "checkpoint" / "lock").exists())
    time.sleep(1.5)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    said = pod.message
    assert said == {
        "reason": "Terminated",
        "message": f"checkpoint written at iteration {said['iteration']}",
        "iteration": said["iteration"],
    }
    assert (pod.root / "checkpoint" / "checkpoint.ballast").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "reason", "words"),
    [
        (("--game-builtin", "chess"), 42, "InvalidGame", "game chess is not built in; choose one of"),
        (("--game-builtin", "leduc", "--game-parameter", "ranks=1"), 42, "InvalidGame", "ranks is 1, but must be"),
        (("--game-builtin", "leduc", "--parameter", "alpha=1"), 42, "InvalidGame", "has no parameter alpha"),
        (("--game-builtin", "leduc", "--variant", "MCCFR"), 42, "InvalidGame", "variant MCCFR is unknown"),
        (
            ("--game-builtin", "leduc", "--game-sha256", "ab"),
            42,
            "InvalidGame",
            "a sha256 can only be given with a file",
        ),
        (("--game-builtin", "liars-dice", "--game-parameter", "faces=12"), 42, "OutOfMemory", "GiB"),
        (("--game-file", "{root}/cut.efg"), 42, "InvalidGame", "game cut.efg, line 2, column 24: expected"),
        (("--game-file", "{root}/cut.efg", "--game-sha256", "ab"), 42, "InvalidGame", "but ab was asked for"),
        (("--game-file", "{root}/none.efg"), 42, "InvalidGame", "none.efg: cannot be read: no such file or directory"),
    ],
)
def test_bad_input_ends_with_42_and_one_sentence(
    pod: Pod, arguments: tuple[str, ...], code: int, reason: str, words: str
) -> None:
    (pod.root / "cut.efg").write_text('EFG 2 R "t" { "A" "B" }\np "" 1 1 "a" { "H" "T" ')
    assert pod.run(*(part.format(root=pod.root) for part in arguments), "--max-iterations", "1") == code
    assert pod.message["reason"] == reason
    assert words in pod.message["message"]
    assert "Traceback" not in pod.err


def test_another_solves_checkpoint_ends_with_43(pod: Pod) -> None:
    assert pod.run(*LEDUC, "--max-iterations", "5") == 0
    assert pod.run(*LEDUC, "--max-iterations", "5", "--variant", "DCFR") == 43
    assert pod.message["reason"] == "CheckpointMismatch"
    assert "holds variant CFRPlus where this solve has DCFR" in pod.message["message"]


def test_a_file_that_cannot_be_written_ends_with_1_and_a_sentence(pod: Pod) -> None:
    (pod.root / "out").write_text("a file where a folder should be")
    assert pod.run(*LEDUC, "--max-iterations", "5", *output(pod)) == 1
    assert pod.message["reason"] == "SolverFailed"
    assert pod.message["message"].endswith("cannot be written: file exists; choose another place")
    assert "Traceback" not in pod.err


def test_a_checkpoint_directory_that_cannot_be_made_ends_with_1_and_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"checkpoint directory .* cannot be used: not a directory; choose another"):
        lock.hold(tmp_path / "file" / "below", lambda: False)


def test_a_failure_of_ours_shows_its_traceback_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending(lambda: {"never": 1 // 0}) == (1, {"reason": "SolverFailed", "message": mock.ANY})
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("port", [-1, 99_999])
def test_a_status_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(BadInputError, match=f"status port is {port}, but must be from 0 to 65535"):
        serve(Status(), port)


def test_a_status_port_that_is_taken_is_named() -> None:
    taken = serve(Status(), 0)
    with pytest.raises(SolverError, match=f"status port {taken} cannot be had: address already in use"):
        serve(Status(), taken)


def test_two_writers_of_one_checkpoint_are_never_at_work_together(pod: Pod) -> None:
    first = pod.start(*LEDUC, "--max-iterations", "100000000")
    _wait(lambda: (pod.root / "checkpoint" / "lock").exists())
    time.sleep(1)
    second = pod.start(*LEDUC, "--max-iterations", "100000000")
    time.sleep(3)
    second.terminate()
    second.communicate(timeout=60)
    assert (second.returncode, pod.message["message"]) == (143, "told to go before the first iteration")
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 143


def test_a_checkpoint_directory_that_stays_in_use_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.0)
    with lock.hold(tmp_path, lambda: False), pytest.raises(lock.BusyError, match="is in use by another process"):
        lock.hold(tmp_path, lambda: False)
    lock.hold(tmp_path, lambda: False).close()


def test_status_port_tells_progress_while_the_kernels_run(pod: Pod) -> None:
    process = pod.start(*LEDUC, "--exploitability", "1e-9", "--checkpoint-interval", "0.5", "--status-port", "18087")
    try:
        _wait(lambda: _status()["exploitability"] is not None and _status()["checkpointIteration"])
        seen = _status()
        assert (seen["phase"], seen["game"]["name"], seen["game"]["infosets"]) == ("Solving", "leduc", [468, 468])
        assert seen["iteration"] >= seen["exploitabilityIteration"] > 0
        assert seen["iterationsPerSecond"] > 0
        assert _get("/healthz") == "ok\n"
        assert "ballast_cfr_iteration " in _get("/metrics")
        _wait(lambda: _status()["etaSeconds"] is not None)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _get(path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:18087{path}", timeout=5) as answer:
        return str(answer.read().decode())


def _status() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_get("/status"))
    except OSError:
        return {"exploitability": None, "checkpointIteration": None, "etaSeconds": None}
    return found


def _wait(until: Any) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class ApiServer(ThreadingHTTPServer):
    """Answers patches with the codes it was given, then with 200; remembers what came."""

    def __init__(self, *codes: int) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        self.codes = list(codes)
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Api(BaseHTTPRequestHandler):
    server: ApiServer

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        code = self.server.codes.pop(0) if self.server.codes else 200
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps({"message": f"said {code}"}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(configmap, "_WAITS", (0.01, 0.01, 0.01))
    yield


def test_the_result_is_a_merge_patch_with_the_pods_token(account: Path, quick: None) -> None:
    api = ApiServer()
    server = configmap.Server(f"http://127.0.0.1:{api.server_address[1]}", account)
    configmap.patch(server, "team", "leduc-strategy", {"a": "1"})
    path, headers, body = api.seen[0]
    assert path == "/api/v1/namespaces/team/configmaps/leduc-strategy"
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert body == {"data": {"a": "1"}}


def test_an_api_server_that_comes_back_gets_the_result(account: Path, quick: None) -> None:
    api = ApiServer(500, 404)
    server = configmap.Server(f"http://127.0.0.1:{api.server_address[1]}", account)
    configmap.patch(server, "team", "x", {})
    assert len(api.seen) == 3


def test_an_api_server_that_refuses_is_quoted(account: Path, quick: None) -> None:
    api = ApiServer(403, 403, 403, 403)
    server = configmap.Server(f"http://127.0.0.1:{api.server_address[1]}", account)
    with pytest.raises(configmap.PatchError, match="ConfigMap team/x could not be patched: 403 said 403"):
        configmap.patch(server, "team", "x", {})


def test_outside_of_a_cluster_there_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(configmap.PatchError, match="this is not a pod"):
        configmap.in_cluster()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert configmap.in_cluster().url == "https://[fd00::1]:443"


def test_the_termination_message_fits_and_stays_json() -> None:
    whole = fit({"reason": "InvalidGame", "message": "ä" * 5000})
    assert len(whole) <= LIMIT
    assert json.loads(whole)["reason"] == "InvalidGame"


def test_a_pod_that_is_told_to_go_while_it_starts_goes_at_once(tmp_path: Path) -> None:
    """As the first process of a container: the kernel drops signals that such a one has no handler for."""
    arguments = ["job", *LEDUC, "--max-seconds=600", f"--checkpoint-dir={tmp_path}"]
    command = [sys.executable, "-X", "importtime", "-m", "ballast_cfr", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        next(line for line in process.stderr if "numpy" in line)  # in the middle of its imports
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
        assert caught & 1 << (signal.SIGTERM - 1)
        process.terminate()
        process.stderr.read()
        assert process.wait(20) == 143
    finally:
        process.kill()
