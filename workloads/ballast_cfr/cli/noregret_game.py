"""A compiled game in the JSON format of noregret: each player's decisions as a tree, and the payoff matrix."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ballast_cfr.compile.program import Program
from ballast_cfr.compile.treeplex import Treeplex


def text(program: Program) -> str:
    """The game; information set i of a player is "d<i>", what follows its sequence s "o<s>"."""
    assert program.matrix is not None
    csr = program.matrix[0]
    row = np.repeat(np.arange(len(csr.start) - 1), np.diff(csr.start))
    names = [[[], *_sequences(plex)] for plex in program.plex]
    cells = zip(row.tolist(), csr.column.tolist(), csr.value.tolist(), strict=True)
    return json.dumps(
        {
            "tree_form_sequential_decision_processes": [list(_transitions(plex)) for plex in program.plex],
            "utilities": [{"sequences": [names[0][r], names[1][c]], "value": value} for r, c, value in cells],
        }
    )


def _sequences(plex: Treeplex) -> Iterator[list[str]]:
    for i in range(plex.infosets):
        for k in range(int(plex.first[i + 1] - plex.first[i])):
            yield [f"d{i}", str(k)]


def _transitions(plex: Treeplex) -> Iterator[dict[str, Any]]:
    below = set(plex.parent.tolist())

    def node(sequence: int) -> dict[str, str]:
        kind = "OBSERVATION_POINT" if sequence in below else "END_OF_THE_DECISION_PROCESS"
        return {"id": f"o{sequence}", "type": kind}

    yield {"parent_edge": [], "node": node(0)}
    for i in range(plex.infosets):
        yield {"parent_edge": [f"o{plex.parent[i]}", str(i)], "node": {"id": f"d{i}", "type": "DECISION_POINT"}}
        for k in range(int(plex.first[i + 1] - plex.first[i])):
            yield {"parent_edge": [f"d{i}", str(k)], "node": node(int(plex.first[i]) + k + 1)}
