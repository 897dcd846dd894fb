"""Handing a finished solve over: to a file, to the result ConfigMap, or to the checkpoint volume if it is too large
for that."""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ballast_cfr.export.files import write_strategy
from ballast_cfr.export.strategy import csv_text, write
from ballast_cfr.export.summary import summary
from ballast_cfr.job import configmap
from ballast_cfr.job.message import sentence
from ballast_cfr.job.request import Request
from ballast_cfr.solve.solver import Outcome, Solver


def finish(request: Request, solver: Solver, outcome: Outcome) -> dict[str, Any]:
    """Write the strategy wherever it was asked for; returns the termination message."""
    strategies, facts = solver.average(), summary(solver, outcome)
    if request.output_file is not None:
        write_strategy(request.output_file, request.output_format, solver.program, strategies, facts)
    csv = _weigh(csv_text(solver.program, strategies))
    message = {
        "reason": outcome.reason,
        "message": sentence(facts),
        "iteration": outcome.iteration,
        "exploitability": facts["exploitability"],
        "value": facts["value"],
        "iterationsPerSecond": facts["iterationsPerSecond"],
        "elapsedSeconds": facts["seconds"],
        "infosets": facts["infosets"],
        "strategyBytes": csv.size,
        "strategySha256": csv.sha256,
        "configMap": False,
        "configMapMessage": None,
        "file": str(request.output_file) if request.output_file else None,
    }
    if request.result is None:
        return message
    delivered = {**message, "configMap": True}
    data = {"strategy.csv": csv.text or "", "summary.json": json.dumps({**facts, **delivered}, indent=1)}
    if csv.text is None or configmap.size(data) > configmap.LIMIT:
        where = request.output_file or request.checkpoint_directory / "strategy.csv"
        if request.output_file is None:
            write(where, csv_text(solver.program, strategies))
        said = f"ResultTooLarge: {csv.size} bytes of strategy, more than a ConfigMap holds; it lies in {where}"
        delivered = {**message, "file": str(where), "configMapMessage": said}
        data = {"summary.json": json.dumps({**facts, **delivered}, indent=1)}
    configmap.patch(configmap.in_cluster(), *request.result, data)
    return delivered


@dataclass(frozen=True)
class _Weighed:
    """A text's size in bytes, its digest, and itself if a ConfigMap may hold it."""

    size: int
    sha256: str
    text: str | None


def _weigh(lines: Iterator[str]) -> _Weighed:
    size, digest, kept = 0, hashlib.sha256(), io.StringIO()
    for line in lines:
        part = line.encode()
        size += len(part)
        digest.update(part)
        if size <= configmap.LIMIT:
            kept.write(line)
    return _Weighed(size, digest.hexdigest(), kept.getvalue() if size <= configmap.LIMIT else None)
