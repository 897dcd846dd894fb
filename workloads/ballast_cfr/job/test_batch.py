"""A batch in a pod: arguments in; results of every instance out, also after an interruption."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ballast_cfr.batch.store import Result, Store
from ballast_cfr.job import batch, configmap

RULE = ("--game-builtin", "leduc", "--exploitability", "1e-3", "--checkpoint-interval", "0.05")
LINES: list[dict[str, Any]] = [{"name": f"b{number}", "ranges": [{}, {}]} for number in range(4)]


def command(root: Path, *arguments: str) -> list[str]:
    (root / "batch.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    job = [sys.executable, "-m", "ballast_cfr", "job", "--checkpoint-dir", str(root / "checkpoint")]
    batched = ["--batch-file", str(root / "batch.jsonl"), "--termination-log", str(root / "termination")]
    return [*job, *batched, *arguments]


def message(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "termination").read_text())
    return found


def test_every_instance_has_a_result_and_the_message_sums_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        command(tmp_path, *RULE, "--output-file", str(out), "--output-format", "JSON"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = message(tmp_path)
    assert (said["reason"], said["instances"], said["file"]) == ("TargetReached", 4, str(out))
    assert said["message"].startswith("4 instances: 4 times the target exploitability was reached; exploitability ")
    assert said["exploitability"] <= 1e-3
    assert sorted(path.name for path in out.iterdir()) == [f"b{number}.json" for number in range(4)]
    assert json.loads((out / "b3.json").read_text())["summary"]["reason"] == "TargetReached"


def test_terminated_and_resumed_does_nothing_twice(tmp_path: Path) -> None:
    rule = ("--game-builtin", "liars-dice", "--max-iterations", "400", "--checkpoint-interval", "0.05")
    process = subprocess.Popen(command(tmp_path, *rule), stdout=subprocess.PIPE, text=True)
    results = tmp_path / "checkpoint" / "results"
    deadline = time.monotonic() + 60
    while not list(results.glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert message(tmp_path)["reason"] == "Terminated"
    first = next(iter(results.glob("*.json")))
    written = first.stat().st_mtime_ns
    again = subprocess.run(command(tmp_path, *rule), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert first.stat().st_mtime_ns == written
    assert len(list(results.glob("*.json"))) == 4
    assert len({path.read_text() for path in results.glob("*.csv")}) == 1  # the same game four times


def test_another_file_in_the_same_folder_ends_with_43(tmp_path: Path) -> None:
    assert subprocess.run(command(tmp_path, *RULE), capture_output=True).returncode == 0
    other = command(tmp_path, *RULE)
    (tmp_path / "batch.jsonl").write_text('{"name": "z"}')
    assert subprocess.run(other, capture_output=True).returncode == 43
    assert "batch.json holds batch " in message(tmp_path)["message"]


def test_settings_are_compared_as_what_they_mean(tmp_path: Path) -> None:
    rule = ("--game-builtin", "kuhn", "--exploitability", "1e-2")
    written = ("--variant", "CFRPlus", "--unit", "Absolute", "--tie-tolerance", "64", "--dtype", "Float64")
    assert subprocess.run(command(tmp_path, *rule, *written), capture_output=True).returncode == 0
    same = ("--game-builtin", "kuhn", "--exploitability", "0.0100", "--variant", "cfr+", "--parameter", "gamma=1.0")
    otherwise = ("--unit", "abs", "--tie-tolerance", "6.4e1", "--dtype", "float64", "--updates", "alternating")
    again = subprocess.run(command(tmp_path, *same, *otherwise), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    differs = command(tmp_path, *rule, *written, "--parameter", "gamma=2")
    assert subprocess.run(differs, capture_output=True).returncode == 43
    assert 'holds parameters {"gamma": 1.0} where this solve has {"gamma": 2.0}' in message(tmp_path)["message"]


def test_a_bad_line_ends_with_42_at_once_and_can_be_mended(tmp_path: Path) -> None:
    job = command(tmp_path, *RULE)
    (tmp_path / "batch.jsonl").write_text('{"name": "good"}\n{"name": "bad", "payoffs": [1]}')
    assert subprocess.run(job, capture_output=True).returncode == 42
    assert message(tmp_path)["message"].startswith("batch batch.jsonl, line 2: game leduc: payoffs have shape (1,)")
    assert not list(tmp_path.glob("checkpoint/results/*"))
    assert subprocess.run(command(tmp_path, *RULE), capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("many", "bytes_each", "keys"), [(3, 10, 5), (3, 600_000, 2), (10_000, 10, 1)], ids=["all", "table", "facts"]
)
def test_the_config_map_has_what_fits(many: int, bytes_each: int, keys: int, tmp_path: Path) -> None:
    store = Store(tmp_path, {}, None)
    results = [
        Result(f"{number:060d}", "TargetReached", 1, 1 / 3, 1 / 7, -1 / 3, 1 / 3, 1 / 9) for number in range(many)
    ]
    for one in results:
        store.strategy(one.name).write_text("x" * bytes_each)
    data, whole = batch._fitting(store, results, {})
    assert (len(data), whole) == (keys, keys == many + 2)
    assert configmap.size(data) <= configmap.LIMIT


def test_the_message_says_where_what_does_not_fit_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Mapping[str, str]] = []
    monkeypatch.setattr(configmap, "patch", lambda *given: seen.append(given[-1]))
    monkeypatch.setattr(configmap, "LIMIT", 600)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    from ballast_cfr.cli import main as cli

    (tmp_path / "batch.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    asked = ["--batch-file", str(tmp_path / "batch.jsonl"), "--termination-log", str(tmp_path / "termination")]
    where = ["--checkpoint-dir", str(tmp_path / "checkpoint"), "--result-configmap", "team/s-strategy"]
    assert cli.main(["job", *RULE, *asked, *where]) == 0
    said = message(tmp_path)
    assert said["configMapMessage"].startswith("ResultTooLarge: the strategies of 4 instances")
    assert (said["configMap"], said["file"]) == (False, str(tmp_path / "checkpoint" / "results"))
    assert "instances.csv" not in seen[0] or len(seen[0]["instances.csv"].splitlines()) == 5
