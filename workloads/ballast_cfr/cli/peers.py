"""Other solvers to measure beside, each in an environment of its own in the user's cache, driven through a pipe."""

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from ballast_cfr.errors import BadInputError

_OPENSPIEL = """
import sys, time, importlib.metadata, pyspiel
game = pyspiel.load_game(sys.argv[1])
solver = pyspiel.CFRPlusSolver(game)
solver.evaluate_and_update_policy()
print(importlib.metadata.version("open_spiel"), flush=True)
for line in sys.stdin:
    n = int(line)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(n):
        solver.evaluate_and_update_policy()
    print((time.perf_counter() - wall) * 1000 / n, (time.process_time() - cpu) * 1000 / n, flush=True)
"""

OPENSPIEL = "open_spiel==2.0.2"

# name -> (requirement, program, our name of a game -> theirs)
_PEERS = {
    "openspiel": (
        OPENSPIEL,
        _OPENSPIEL,
        {"kuhn": "kuhn_poker", "leduc": "leduc_poker", "liars-dice": "liars_dice"},
    )
}


class Peer:
    """A running peer with a game loaded and one iteration done."""

    versions: ClassVar[dict[str, str]] = {}

    def __init__(self, name: str, python: Path, program: str, game: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, "-c", program, game], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.versions[name] = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"peer {self.name} ended with exit code {self.process.wait()} without an answer")
        return line

    def block(self, iterations: int) -> tuple[float, float]:
        """Run a block; wall and CPU milliseconds for one iteration."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{iterations}\n")
        self.process.stdin.flush()
        wall, cpu = self._line().split()
        return float(wall), float(cpu)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def peer(name: str, game: str) -> Peer:
    """Start a peer on a game of ours, installing it first if need be. Raises BadInputError for what it does not
    know."""
    if name not in _PEERS:
        raise BadInputError(f"peer {name} is unknown; choose one of {', '.join(_PEERS)}, or none")
    requirement, program, games = _PEERS[name]
    if game not in games:
        raise BadInputError(f"peer {name} has no game {game} here; choose one of {', '.join(games)}")
    return Peer(name, environment(requirement), program, games[game])


def environment(requirement: str) -> Path:
    """The interpreter of an environment of its own that holds a package, made if it is not there yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "ballast" / "peers" / requirement
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"installing {requirement} into {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement], check=True)
        ready.touch()
    return python
