"""One call for every file format of a strategy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.export.strategy import EVERYTHING, Only, Strategies, csv_text, json_text, write

FORMATS = ("CSV", "JSON", "Parquet")


def write_strategy(
    path: Path,
    form: str,
    program: Program,
    strategies: Strategies,
    summary: Mapping[str, Any],
    only: Only = EVERYTHING,
) -> None:
    """Write a strategy in one of FORMATS. Raises BadInputError if Parquet's package is not installed."""
    if form == "CSV":
        write(path, csv_text(program, strategies, only))
    elif form == "JSON":
        write(path, json_text(program, strategies, summary, only))
    else:
        try:
            from ballast_cfr.export import parquet
        except ImportError as error:
            raise BadInputError(f"output {path} needs pyarrow; pip install 'ballast[cfr]'") from error
        parquet.write(path, program, strategies, summary, only)


def format_of(path: Path) -> str:
    """The format that a file's suffix asks for. Raises BadInputError for another suffix."""
    asked = path.suffix.removeprefix(".").lower()
    found = next((form for form in FORMATS if form.lower() == asked), None)
    if found is None:
        raise BadInputError(f"output {path} has the suffix {path.suffix or 'none'}; choose .csv, .json or .parquet")
    return found
