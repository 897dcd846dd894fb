"""Other solvers to measure beside, each in an environment of its own in the user's cache, driven through a pipe."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ballast_cfr.cli import noregret_game
from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError

OPENSPIEL = "open_spiel==2.0.2"
_PROGRAMS = Path(__file__).parent / "peer_programs"

Parameters = Mapping[str, str | int]


def openspiel_name(name: str, parameters: Parameters) -> str | None:
    """OpenSpiel's string for one of our games, None if it has no such game."""
    p = parameters
    if name in ("kuhn", "leduc"):
        standard = p.get("cards", 3) == 3 and p.get("ranks", 3) == 3
        return f"{name}_poker" if standard else None
    if name == "battleship":
        ships = str(p["ships"]).split("-")
        sizes, values = ";".join(ships), ";".join("1" for _ in ships)
        return (
            f"battleship(board_width={p['width']},board_height={p['height']},ship_sizes=[{sizes}],"
            f"ship_values=[{values}],num_shots={p['shots']},allow_repeated_shots=True,loss_multiplier=1.0)"
        )
    patterns = {
        "liars-dice": "liars_dice(numdice={dice},dice_sides={faces})",
        "dark-hex": "dark_hex(num_rows={rows},num_cols={columns},gameversion=cdh)",
        "goofspiel": "goofspiel(imp_info=True,num_cards={cards},points_order={order})",
        "oshi-zumo": "oshi_zumo(coins={coins},size={size},horizon={horizon})",
    }
    return patterns[name].format(**p) if name in patterns else None


@dataclass(frozen=True)
class _Kind:
    """A peer: what to install, its program, and what it calls a game: by name and parameters, or as a file's text."""

    requirements: tuple[str, ...]
    program: str
    name_of: Callable[[str, Parameters], str | None] | None = None
    file_of: Callable[[Program], str] | None = None


_PEERS = {
    "openspiel": _Kind((OPENSPIEL,), "run_openspiel.py", name_of=openspiel_name),
    "liteefg": _Kind(("LiteEFG==1.0.0", OPENSPIEL), "run_liteefg.py", name_of=openspiel_name),
    "noregret": _Kind(("noregret==0.0.0.dev3",), "run_noregret.py", file_of=noregret_game.text),
}


class Peer:
    """A running peer with a game loaded. load: seconds that took."""

    def __init__(self, name: str, python: Path, program: Path, game: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, program, game], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version, load = self._line().split()
        self.load = float(load)

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


def known(names: list[str]) -> list[str]:
    """The peers asked for, `none` left out. Raises BadInputError for one that is unknown."""
    wanted = [name for name in names if name != "none"]
    for name in wanted:
        if name not in _PEERS:
            raise BadInputError(f"peer {name} is unknown; choose one of {', '.join(_PEERS)}, or none")
    return wanted


def peer(name: str, game: str, parameters: Parameters, program: Program) -> Peer | None:
    """Start a peer on a game of ours, installing it first if need be; None if it has no such game."""
    kind = _PEERS[name]
    script = _PROGRAMS / kind.program
    if kind.file_of is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(kind.file_of(program))
            file.flush()
            return Peer(name, environment(*kind.requirements), script, file.name)
    assert kind.name_of is not None
    theirs = kind.name_of(game, parameters)
    return None if theirs is None else Peer(name, environment(*kind.requirements), script, theirs)


def environment(*requirements: str) -> Path:
    """The interpreter of an environment of its own that holds some packages, made if it is not there yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "ballast" / "peers" / requirements[0]
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"installing {', '.join(requirements)} into {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements], check=True)
        ready.touch()
    return python
