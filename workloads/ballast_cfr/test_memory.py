"""What is asked for before a game is built is enough for it."""

import subprocess
import sys

import pytest

from ballast_cfr.games import BUILTINS
from ballast_cfr.memory import of_nodes

# VmHWM starts at nothing with the program; getrusage counts what the process that started it had in memory.
PROBE = """
import re, sys
from ballast_cfr import Solver, compile, load
solver = Solver(compile(load(sys.argv[1], **dict(pair.split("=") for pair in sys.argv[2:]))))
solver.step(2)
solver.evaluate()
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("battleship", {"width": "3", "ships": "2", "shots": "3"}),
        ("goofspiel", {"cards": "6"}),
        ("oshi-zumo", {}),
        ("liars-dice", {"faces": "7"}),
        ("poker-turn", {"hands": "24"}),
    ],
)
def test_the_estimate_covers_the_peak(name: str, parameters: dict[str, str]) -> None:
    builtin = BUILTINS[name]
    values = {key: one.read(parameters.get(key, one.default)) for key, one in builtin.parameters.items()}
    command = [sys.executable, "-c", PROBE, name, *(f"{key}={value}" for key, value in parameters.items())]
    peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    estimate = of_nodes(builtin.nodes(**values))
    assert peak <= estimate
    assert estimate <= 2.5 * peak
