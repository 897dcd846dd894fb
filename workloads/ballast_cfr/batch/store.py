"""What a batch has done so far, in one folder: a result and a strategy for each instance that has ended.

batch.json               settings and the digest of the batch
results/NAME.json        how an instance ended; written last, so that what has one is done
results/NAME.csv         its strategy
under-way/NAME.ballast   checkpoint of an instance that is under way
group-NUMBER.ballast     checkpoint of instances that are solved together
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError, CheckpointMismatchError, FileError
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.export.files import write_strategy
from ballast_cfr.export.strategy import Strategies, csv_text, write
from ballast_cfr.formats.checkpoint import demand_same
from ballast_cfr.writing import why

FILE = "batch.json"


@dataclass(frozen=True)
class Result:
    """How one instance ended. seconds: of solving; on a GPU, of the group that it was solved in."""

    name: str
    reason: str
    iteration: int
    exploitability: float
    value: float
    lower: float
    upper: float
    seconds: float

    @classmethod
    def of(cls, name: str, reason: str, iteration: int, found: Evaluation, seconds: float) -> "Result":
        return cls(name, reason, iteration, found.exploitability, found.value, found.lower, found.upper, seconds)


class Store:
    """The folder. output: a folder and a format for further copies of the strategies, if the user wants them."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], output: tuple[Path, str] | None) -> None:
        self.folder, self.output, self.settings = folder, output, dict(settings)
        self.results_folder = folder / "results"
        self.under_way = folder / "under-way"
        for own in (self.results_folder, self.under_way):
            own.mkdir(parents=True, exist_ok=True)
        if output is not None:
            self._demand_apart(output[0])

    def claim(self) -> None:
        """Make sure that what is there is of this batch. Raises CheckpointMismatchError otherwise."""
        path = self.folder / FILE
        if path.exists():
            demand_same(path, _read(path, set(), "choose another folder or empty this one"), self.settings)
        else:
            write(path, iter([json.dumps(self.settings, sort_keys=True)]))

    def results(self) -> dict[str, Result]:
        """Of all instances that have ended. Raises CheckpointMismatchError for one that is damaged."""
        found, keys = {}, {field.name for field in fields(Result)}
        for path in sorted(self.results_folder.glob("*.json")):
            given = _read(path, keys, "delete it to solve that instance again")
            found[given["name"]] = Result(**{key: given[key] for key in keys})
        return found

    def _demand_apart(self, output: Path) -> None:
        """Raise BadInputError if the user's copies would be written over what is kept here."""
        if output.exists() and any(output.samefile(own) for own in (self.folder, self.results_folder, self.under_way)):
            raise BadInputError(
                f"output {output} is where the batch keeps its own files, and an instance's file could take the place "
                "of one; choose another folder"
            )

    def checkpoint(self, name: str) -> Path:
        """Where the state of an instance that is under way goes."""
        return self.under_way / f"{name}.ballast"

    def group(self, number: int) -> Path:
        """Where the state of a group of instances goes that are solved together."""
        return self.folder / f"group-{number}.ballast"

    def strategy(self, name: str) -> Path:
        """Where the strategy of an instance lies once it has ended."""
        return self.results_folder / f"{name}.csv"

    def finish(self, result: Result, program: Program, strategies: Strategies) -> None:
        """Keep the result of an instance; twice is as good as once."""
        write(self.strategy(result.name), csv_text(program, strategies))
        if self.output is not None:
            folder, form = self.output
            write_strategy(folder / f"{result.name}.{form.lower()}", form, program, strategies, asdict(result))
        write(self.results_folder / f"{result.name}.json", iter([json.dumps(asdict(result))]))


def _read(path: Path, keys: set[str], remedy: str) -> dict[str, Any]:
    """The JSON object with these keys in a file of the folder. Raises CheckpointMismatchError if it is not one."""
    try:
        given = json.loads(path.read_text())
    except OSError as error:
        raise FileError(f"checkpoint {path} cannot be read: {why(error)}; {remedy}") from error
    except ValueError:
        given = None
    if not isinstance(given, dict) or not keys <= given.keys():
        raise CheckpointMismatchError(f"checkpoint {path} is damaged; {remedy}")
    return given
