"""What the operator asks of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """game: name of a built-in game, or the path of a file. batch: a file of instances, if there are many solves; then
    output_file is a folder. result: namespace and name of the ConfigMap to patch."""

    game: str | Path
    game_parameters: Mapping[str, str]
    batch: Path | None
    sha256: str | None
    variant: str
    updates: str
    tie_tolerance: float
    parameters: Mapping[str, str]
    dtype: str
    device: str
    exploitability: str | None
    unit: str
    max_iterations: int | None
    max_seconds: float | None
    checkpoint_directory: Path
    checkpoint_interval: float
    output_file: Path | None
    output_format: str
    result: tuple[str, str] | None
    status_port: int | None
    termination_log: Path | None
