"""Handing a finished solve over: to a file, to the result ConfigMap, or to the checkpoint volume if it is too large
for that."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ballast_cfr.export.strategy import FORMATS, csv_text, write
from ballast_cfr.export.summary import summary
from ballast_cfr.job import configmap
from ballast_cfr.job.message import sentence
from ballast_cfr.job.request import Request
from ballast_cfr.solve.solver import Outcome, Solver


def finish(request: Request, solver: Solver, outcome: Outcome) -> dict[str, Any]:
    """Write the strategy wherever it was asked for; returns the termination message."""
    strategies, facts = solver.average(), summary(solver, outcome)
    text = "".join(csv_text(solver.program, strategies))
    if request.output_file is not None:
        write(request.output_file, FORMATS[request.output_format](solver.program, strategies, facts))
    message = {
        "reason": outcome.reason,
        "message": sentence(facts),
        "iteration": outcome.iteration,
        "exploitability": facts["exploitability"],
        "value": facts["value"],
        "iterationsPerSecond": facts["iterationsPerSecond"],
        "elapsedSeconds": facts["seconds"],
        "infosets": facts["infosets"],
        "strategyBytes": len(text.encode()),
        "strategySha256": hashlib.sha256(text.encode()).hexdigest(),
        "configMap": False,
        "configMapMessage": None,
        "file": str(request.output_file) if request.output_file else None,
    }
    return _hand_over(request, message, facts, text) if request.result else message


def _hand_over(request: Request, message: dict[str, Any], facts: dict[str, Any], text: str) -> dict[str, Any]:
    """Put strategy and summary into the ConfigMap; of a strategy that is too large, only the summary."""
    assert request.result is not None
    delivered = {**message, "configMap": True}
    data = {"strategy.csv": text, "summary.json": json.dumps({**facts, **delivered}, indent=1)}
    if configmap.size(data) > configmap.LIMIT:
        where = request.output_file or _beside_checkpoint(request.checkpoint_directory, text)
        said = (
            f"ResultTooLarge: {len(text.encode())} bytes of strategy, more than a ConfigMap holds; it lies in {where}"
        )
        delivered = {**message, "file": str(where), "configMapMessage": said}
        data = {"summary.json": json.dumps({**facts, **delivered}, indent=1)}
    configmap.patch(configmap.in_cluster(), *request.result, data)
    return delivered


def _beside_checkpoint(directory: Path, text: str) -> Path:
    where = directory / "strategy.csv"
    write(where, iter((text,)))
    return where
