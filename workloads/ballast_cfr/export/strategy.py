"""Strategies as files: CSV for machines and spreadsheets, JSON with the facts of the solve beside it; and back from
CSV.

Both are written one information set at a time, in bounded memory. Probabilities are written so that they read back to
the same bits. `reach` is the player's own probability of playing to the information set, 0 where chance never leads.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import plan
from ballast_cfr.game import Floats
from ballast_cfr.reading import demand_end
from ballast_cfr.writing import replacing, why

HEADER = ("player", "infoset", "action", "probability", "reach")
Strategies = tuple[Floats, Floats]


@dataclass(frozen=True)
class Only:
    """Which information sets to write: of one player, with labels that begin so, reached with at least this
    probability by their player."""

    player: int | None = None
    prefix: str = ""
    min_reach: float = 0.0

    def keeps(self, player: int, label: str, reach: float) -> bool:
        """Whether an information set is wanted."""
        return self.player in (None, player) and label.startswith(self.prefix) and reach >= self.min_reach


EVERYTHING = Only()


@dataclass(frozen=True)
class Row:
    """One information set: its player (0 or 1), name, own reach, actions and their probabilities."""

    player: int
    infoset: str
    reach: float
    actions: tuple[str, ...]
    probabilities: tuple[float, ...]


def rows(program: Program, strategies: Strategies, only: Only = EVERYTHING) -> Iterator[Row]:
    """The strategies, player 0 first, each from the root down. strategies: (S,) for each player, in the order of
    `program.plex`."""
    game = program.game
    for player, (plex, strategy) in enumerate(zip(program.plex, strategies, strict=True)):
        reach = reach_of(program, player, strategy)
        for i, infoset in enumerate(plex.infoset):
            if not only.keeps(player, game.infoset_label[infoset], reach[i]):
                continue
            slots = slice(int(plex.first[i]), int(plex.first[i + 1]))
            yield Row(
                player,
                game.infoset_label[infoset],
                float(reach[i]),
                game.infoset_actions[infoset],
                tuple(strategy[slots].tolist()),
            )


def reach_of(program: Program, player: int, strategy: Floats) -> Floats:
    """(I,) the player's own probability of playing to each information set; 0 where chance never leads."""
    game, plex = program.game, program.plex[player]
    dead = np.ones(game.infosets, dtype=bool)
    at = np.flatnonzero((game.player >= 0) & (game.chance_reach > 0))
    dead[game.infoset[at]] = False
    return np.where(dead[plex.infoset], 0.0, plan(plex, strategy)[plex.parent])


def csv_text(program: Program, strategies: Strategies, only: Only = EVERYTHING) -> Iterator[str]:
    """The lines of a CSV file, with a header."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows(program, strategies, only):
        for action, probability in zip(row.actions, row.probabilities, strict=True):
            writer.writerow((row.player, row.infoset, action, repr(probability), repr(row.reach)))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def json_text(
    program: Program, strategies: Strategies, summary: Mapping[str, Any], only: Only = EVERYTHING
) -> Iterator[str]:
    """One JSON object: `summary`, and `strategy` as a list of information sets."""
    yield f'{{"summary": {json.dumps(summary)},\n"strategy": ['
    separator = "\n"
    for row in rows(program, strategies, only):
        yield separator + json.dumps(
            {
                "player": row.player,
                "infoset": row.infoset,
                "reach": row.reach,
                "actions": row.actions,
                "probabilities": row.probabilities,
            }
        )
        separator = ",\n"
    yield "\n]}\n"


def write(path: Path, lines: Iterator[str]) -> None:
    """Write a text file so that a crash leaves the old one or the new one. Raises FileError."""
    with replacing("output", path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def write_bytes(path: Path, parts: Iterator[bytes]) -> None:
    """Write a binary file so that a crash leaves the old one or the new one. Raises FileError."""
    with replacing("output", path) as beside, beside.open("wb") as file:
        file.writelines(parts)


def read_csv(program: Program, path: Path) -> Strategies:
    """Strategies from a CSV file as written here; actions of one information set go by their order.

    Raises BadInputError, naming the line, for rows that do not fit the game, probabilities that do not add up to 1,
    missing rows, or what is no such file at all.
    """
    game = program.game
    place = {
        (player, game.infoset_label[infoset]): (int(plex.first[i]), game.infoset_actions[infoset])
        for player, plex in enumerate(program.plex)
        for i, infoset in enumerate(plex.infoset)
    }
    strategies = tuple(np.full(plex.slots, np.nan) for plex in program.plex)
    done: dict[tuple[int, str], int] = {}
    try:
        demand_end(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, row in enumerate(csv.DictReader(file), start=2):
                _take(f"strategy {path.name}, line {line}", row, place, done, strategies)
    except OSError as error:
        raise BadInputError(f"strategy {path} cannot be read: {why(error)}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"strategy {path.name} is not CSV in UTF-8: {error}") from error
    for (player, name), (first, actions) in place.items():
        total = float(strategies[player][first : first + len(actions)].sum())
        if not abs(total - 1) <= 1e-9:
            found = "are missing" if np.isnan(total) else f"add up to {total:.10g}, not 1"
            raise BadInputError(
                f'strategy {path.name}: the probabilities of information set "{name}" of player {player} {found}'
            )
    return strategies[0], strategies[1]


def _take(
    where: str,
    row: Mapping[str, str],
    place: Mapping[tuple[int, str], tuple[int, tuple[str, ...]]],
    done: dict[tuple[int, str], int],
    strategies: tuple[Floats, ...],
) -> None:
    try:
        key, action, probability = (int(row["player"]), row["infoset"]), row["action"], float(row["probability"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(
            f"{where}: expected {', '.join(HEADER)}, found {', '.join(map(str, row.values()))}"
        ) from error
    if key not in place:
        raise BadInputError(f'{where}: the game has no information set "{key[1]}" of player {key[0]}')
    first, actions = place[key]
    position = done.get(key, 0)
    if position == len(actions) or actions[position] != action:
        raise BadInputError(
            f'{where}: information set "{key[1]}" has the actions {", ".join(actions)} in this order, found {action}'
        )
    if not 0 <= probability <= 1:
        raise BadInputError(f"{where}: probability {probability} is not between 0 and 1")
    strategies[key[0]][first + position] = probability
    done[key] = position + 1
