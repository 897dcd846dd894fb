"""The file of a batch: one line of JSON for each instance, `{"name": "wide", ...}`, with what is different in it.

payoffs   numbers, one for each terminal, to player 0, in the order of the game's terminals
ranges    [{type: factor}, {type: factor}] for what each player is dealt; a type that is not named keeps 1
locks     [{"infoset": label, "strategy": [probability, ...], "player": 0}], held to that strategy
masks     [{"infoset": label, "actions": [name, ...], "player": 0}], actions that are forbidden
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ballast_cfr.compile.variation import Variations
from ballast_cfr.errors import BadInputError
from ballast_cfr.game import Floats
from ballast_cfr.memory import demand, of_batch
from ballast_cfr.reading import whole
from ballast_cfr.writing import why

MOST = 10_000
TABLE = "instances"  # the file beside the strategies that lists them all; no instance may be called so
FIELDS = ("name", "payoffs", "ranges", "locks", "masks")
_NAME = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Hold:
    """A lock, with probabilities, or a mask, with actions."""

    infoset: str
    player: int | None
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Instance:
    """One solve of a batch. where: its place in the file, for messages."""

    name: str
    where: str
    payoffs: Floats | None = None
    ranges: tuple[Mapping[str, float], Mapping[str, float]] | None = None
    locks: tuple[Hold, ...] = ()
    masks: tuple[Hold, ...] = ()


@dataclass(frozen=True)
class Batch:
    """All instances of a file."""

    instances: tuple[Instance, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.instances)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the instances ask for, however their lines are written."""
        hashed = hashlib.sha256()
        for one in self.instances:
            hashed.update(json.dumps(_plain(one), sort_keys=True).encode() + b"\n")
        return hashed.hexdigest()


def read(path: Path) -> Batch:
    """All instances of a file. Raises BadInputError, naming the line, for anything that is not as above."""
    try:
        content = whole(path, lambda size: demand(f"batch {path.name} has {size:,} bytes and", of_batch(size)))
        lines = content.decode("utf-8-sig").split("\n")  # not splitlines, which also splits at what labels may hold
    except OSError as error:
        raise BadInputError(f"batch {path} cannot be read: {why(error)}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"batch {path.name} is not UTF-8: {error}") from error
    found: dict[str, Instance] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        one = _instance(f"batch {path.name}, line {number}", line)
        if one.name in found:
            raise BadInputError(f"{one.where}: there is an instance {one.name} already, at {found[one.name].where}")
        found[one.name] = one
    if not 1 <= len(found) <= MOST:
        raise BadInputError(f"batch {path.name} has {len(found)} instances, but must have 1 to {MOST}; one a line")
    return Batch(tuple(found.values()))


@contextmanager
def named(instance: Instance) -> Iterator[None]:
    """Whatever BadInputError comes from within names the instance's line."""
    try:
        yield
    except BadInputError as error:
        said = str(error)
        raise BadInputError(said if said.startswith(instance.where) else f"{instance.where}: {said}") from error


def factors(instance: Instance, variations: Variations) -> tuple[Floats, Floats]:
    """An instance's ranges, by player, for every type that can be dealt. Raises BadInputError for an unknown type."""
    assert instance.ranges is not None
    made = []
    for player, (named, types) in enumerate(zip(instance.ranges, variations.deals.names, strict=True)):
        if unknown := sorted(named.keys() - set(types)):
            some = ", ".join(types[:8]) + (", ..." if len(types) > 8 else "")
            raise BadInputError(
                f"{instance.where}: ranges[{player}] names {unknown[0]!r}, which player {player} is never dealt; "
                f"it is dealt {some}"
            )
        made.append(np.array([named.get(name, 1.0) for name in types]))
    return made[0], made[1]


def _instance(where: str, line: str) -> Instance:
    try:
        given = json.loads(line, parse_int=_integer, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise BadInputError(f"{where}, column {error.colno}: this is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise BadInputError(f"{where}: lists and objects are nested too deeply; a line needs four levels") from error
    except _TwiceError as error:
        raise BadInputError(f"{where}: {error.args[0]!r} is there twice in one object; give it once") from error
    if not isinstance(given, dict):
        raise BadInputError(f'{where}: expected an object such as {{"name": "wide"}}, found {line.strip()[:40]}')
    if unknown := sorted(given.keys() - set(FIELDS)):
        raise BadInputError(f"{where}: there is no field {unknown[0]!r}; fields are {', '.join(FIELDS)}")
    name = given.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInputError(
            f"{where}: name is {name!r}, but must be 1 to 63 lower-case letters, digits and '-', as files are called so"
        )
    if name == TABLE:
        raise BadInputError(f"{where}: name is {name!r}, but the table of all results is called so; choose another")
    return Instance(
        name,
        where,
        None if "payoffs" not in given else _numbers(f"{where}: payoffs", given["payoffs"]),
        None if "ranges" not in given else _ranges(where, given["ranges"]),
        _holds(where, "locks", "strategy", given.get("locks", [])),
        _holds(where, "masks", "actions", given.get("masks", [])),
    )


def _plain(one: Instance) -> list[Any]:
    """What an instance asks for, the same for all ways of writing it."""
    payoffs = None if one.payoffs is None else (one.payoffs + 0.0).tolist()  # -0.0 and 0.0 are the same payoff
    ranges = one.ranges and [{of: float(factor) for of, factor in by.items() if factor != 1} for by in one.ranges]
    locks = [[lock.infoset, lock.player, [float(share) for share in lock.values]] for lock in one.locks]
    masks = [[mask.infoset, mask.player, sorted(set(mask.values))] for mask in one.masks]
    return [one.name, payoffs, ranges, locks, masks]


class _TwiceError(ValueError):
    """A key is given twice, of which JSON would drop one."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(next(key for key in keys if keys.count(key) > 1))
    return made


def _integer(text: str) -> int | float:
    """What no array holds as an integer becomes a float, which may be infinite and is then refused as such."""
    return int(text) if len(text) < 16 else float(text)


def _numbers(where: str, given: Any) -> Floats:
    plain = isinstance(given, list) and all(type(one) in (int, float) for one in given)
    if not plain or not np.isfinite(given).all():
        raise BadInputError(f"{where} must be a list of finite numbers")
    return np.array(given, dtype=np.float64)


def _ranges(where: str, given: Any) -> tuple[Mapping[str, float], Mapping[str, float]]:
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(one, dict) for one in given):
        raise BadInputError(f"{where}: ranges must be two objects, {{type: factor}} of player 0 and of player 1")
    for player, one in enumerate(given):
        _numbers(f"{where}: ranges[{player}]: the factors", list(one.values()))
        for name, factor in one.items():
            if factor < 0:
                raise BadInputError(
                    f"{where}: ranges[{player}]: the factor of {name!r} is {factor}, but must not be negative"
                )
    return given[0], given[1]


def _holds(where: str, name: str, values: str, given: Any) -> tuple[Hold, ...]:
    if not isinstance(given, list):
        raise BadInputError(f"{where}: {name} must be a list")
    made = []
    for position, one in enumerate(given):
        at = f"{where}: {name}[{position}]"
        if not isinstance(one, dict) or not {"infoset", values} <= one.keys() <= {"infoset", values, "player"}:
            raise BadInputError(f"{at} must be an object with infoset, {values} and, if two share a label, player")
        if not isinstance(one["infoset"], str) or not isinstance(one[values], list):
            raise BadInputError(f"{at}: infoset must be a label, and {values} a list")
        player = one.get("player")
        if player is not None and (type(player) is not int or player not in (0, 1)):
            raise BadInputError(f"{at}: player is {player!r}, but must be 0 or 1")
        if values == "strategy":
            _numbers(f"{at}: strategy", one[values])
        elif not all(isinstance(action, str) for action in one[values]):
            raise BadInputError(f"{at}: actions must be names")
        made.append(Hold(one["infoset"], player, tuple(one[values])))
    return tuple(made)
