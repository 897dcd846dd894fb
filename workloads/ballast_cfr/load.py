"""Getting a game, from wherever it is."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from ballast_cfr.errors import BadInputError
from ballast_cfr.formats import cfrg, efg, openspiel
from ballast_cfr.game import Game
from ballast_cfr.games import BUILTINS, builtin
from ballast_cfr.memory import demand, of_file
from ballast_cfr.reading import whole
from ballast_cfr.writing import why


def load(source: str | Path, /, sha256: str | None = None, **parameters: str | int) -> Game:
    """A built-in game by name, with its parameters, a game from an .efg or .cfrg file, or one of OpenSpiel's.

    source: a name; a path (a text with a slash or a suffix is one); or `openspiel:` and OpenSpiel's string for a game.
    sha256: digest, in hexadecimal, that the file must have. Raises BadInputError with file, line and column, or the
    parameter, for anything that is not a game.
    """
    if isinstance(source, str) and source.startswith(openspiel.PREFIX):
        if parameters or sha256:
            raise BadInputError(f"game {source} takes its parameters inside its own string, and has no sha256")
        return openspiel.load(source.removeprefix(openspiel.PREFIX))
    if isinstance(source, Path) or "/" in source or (Path(source).suffix and source not in BUILTINS):
        return _file(Path(source), sha256, parameters)
    if sha256:
        raise BadInputError(f"game {source} is built in and has no file; a sha256 can only be given with a file")
    return builtin(source, parameters)


def _file(path: Path, sha256: str | None, parameters: Mapping[str, str | int]) -> Game:
    if parameters:
        raise BadInputError(f"game {path.name} is a file and takes no parameters; remove {', '.join(parameters)}")
    try:
        binary = path.suffix == ".cfrg"
        content = whole(path, lambda size: demand(f"game {path.name} has {size:,} bytes and", of_file(size, binary)))
    except OSError as error:
        raise BadInputError(f"game {path}: cannot be read: {why(error)}") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 and found != sha256.lower():
        raise BadInputError(
            f"game {path.name} has sha256 {found}, but {sha256} was asked for; the file was changed or is the wrong one"
        )
    name = os.fsencode(path.name).decode(errors="backslashreplace")  # a file's name need not be text
    return cfrg.parse(name, content) if binary or content[:7] == cfrg.MAGIC[:7] else efg.parse(name, content)
