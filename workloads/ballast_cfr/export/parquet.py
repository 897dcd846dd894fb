"""Strategies as Parquet: one row for each action, like the CSV, by columns and compressed.

Written a row group at a time, so that a strategy of any size takes the memory of one. The facts of the solve are in
the file's metadata, under `summary`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ballast_cfr.compile.program import Program
from ballast_cfr.export.strategy import EVERYTHING, HEADER, Only, Strategies, reach_of
from ballast_cfr.writing import replacing

_INFOSETS = 1 << 14  # in a row group

_TYPES = (pa.int8(), pa.string(), pa.string(), pa.float64(), pa.float64())


def write(
    path: Path, program: Program, strategies: Strategies, summary: Mapping[str, Any], only: Only = EVERYTHING
) -> None:
    """Write a strategy so that a crash leaves the old file or the new one. Raises FileError."""
    fields = [pa.field(name, kind) for name, kind in zip(HEADER, _TYPES, strict=True)]
    schema = pa.schema(fields, metadata={"summary": json.dumps(summary)})
    with replacing("output", path) as beside, pq.ParquetWriter(beside, schema, compression="zstd") as writer:
        for player in (0, 1) if only.player is None else (only.player,):
            for columns in _groups(program, player, strategies, only):
                arrays = [pa.array(column, type=kind) for column, kind in zip(columns, _TYPES, strict=True)]
                writer.write_table(pa.table(arrays, schema=schema))


def _groups(program: Program, player: int, strategies: Strategies, only: Only) -> Iterator[tuple[Any, ...]]:
    """The columns of one row group after the other."""
    game, plex = program.game, program.plex[player]
    reach = reach_of(program, player, strategies[player])
    for start in range(0, plex.infosets, _INFOSETS):
        chosen = [
            i
            for i in range(start, min(start + _INFOSETS, plex.infosets))
            if only.keeps(player, game.infoset_label[plex.infoset[i]], reach[i])
        ]
        if not chosen:
            continue
        many = np.diff(plex.first)[chosen]
        labels = [game.infoset_label[plex.infoset[i]] for i in chosen]
        actions = [name for i in chosen for name in game.infoset_actions[plex.infoset[i]]]
        slots: NDArray[np.int64] = np.concatenate([np.arange(plex.first[i], plex.first[i + 1]) for i in chosen])
        yield (
            np.full(len(slots), player, dtype=np.int8),
            [label for label, n in zip(labels, many.tolist(), strict=True) for _ in range(n)],
            actions,
            strategies[player][slots],
            np.repeat(reach[chosen], many),
        )
