"""Settings, logs and health: what an installation and its probes rely on."""

import json
import logging
import subprocess
import sys

import pytest

from ballast_operator.health import Health
from ballast_operator.logs import JsonFormatter, current
from ballast_operator.objects import Key
from ballast_operator.queue import Queue
from ballast_operator.settings import Settings


def test_settings_come_from_the_environment_and_a_bad_one_is_named() -> None:
    settings = Settings.from_environment(
        {"BALLAST_NAMESPACES": "a, b,", "BALLAST_WORKERS": "3", "POD_NAMESPACE": "sys"}
    )
    assert (settings.namespaces, settings.workers, settings.lease_namespace) == (("a", "b"), 3, "sys")
    with pytest.raises(ValueError, match="BALLAST_WORKERS must be a whole number, not 'many'"):
        Settings.from_environment({"BALLAST_WORKERS": "many"})


def test_a_log_line_is_json_with_the_key_of_the_object_at_hand() -> None:
    current.set(Key("CFRSolve", "team-a", "leduc"))
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "did %s", ("it",), None)
    entry = json.loads(JsonFormatter().format(record))
    current.set(None)
    assert (entry["message"], entry["kind"], entry["namespace"], entry["name"]) == (
        "did it",
        "CFRSolve",
        "team-a",
        "leduc",
    )


def test_what_ends_the_process_is_one_line_of_json_too() -> None:
    script = (
        "from ballast_operator import logs; logs.configure(); raise ExceptionGroup('work', [ValueError('half a line')])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    (entry,) = (json.loads(line) for line in ended.stderr.splitlines())
    assert (entry["level"], entry["message"]) == (
        "critical",
        "the process ends: ExceptionGroup: work (1 sub-exception)",
    )
    assert "ValueError: half a line" in entry["exception"]


async def test_health_fails_when_a_key_waits_or_is_held_too_long() -> None:
    now = 0.0
    queue: Queue[Key] = Queue(lambda: now)
    health = Health(queue, stall_seconds=10)
    queue.add(Key("CFRSolve", "a", "b"))
    assert health.stalled() is None
    now = 11.0
    assert "has waited 11 s" in str(health.stalled())
    await queue.get()
    now = 30.0
    assert "busy with one object for 19 s" in str(health.stalled())
