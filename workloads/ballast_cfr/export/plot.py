"""Convergence as a picture: exploitability after so many iterations, for several variants."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ballast_cfr.compile.program import Program
from ballast_cfr.errors import BadInputError
from ballast_cfr.solve.solver import Solver
from ballast_cfr.writing import replacing

SUFFIXES = (".png", ".svg", ".csv")
_PER_DECADE = 12


@dataclass(frozen=True)
class Curve:
    """How one variant converges. iterations and exploitability have one entry for each point."""

    variant: str
    iterations: tuple[int, ...]
    exploitability: tuple[float, ...]


def curve(program: Program, variant: str, iterations: int, updates: str = "Alternating") -> Curve:
    """Solve, looking at the exploitability at points that are evenly spaced on a logarithmic scale."""
    solver = Solver(program, variant, updates=updates)
    decades = range(10 * _PER_DECADE)
    points = sorted({min(iterations, round(10 ** (at / _PER_DECADE))) for at in decades})
    found = []
    for point in points:
        solver.step(point - solver.iteration)
        found.append(solver.exploitability())
    return Curve(solver.variant.name, tuple(points), tuple(found))


def demand_suffix(path: Path) -> None:
    """Raise BadInputError for a file that no plot can be written as."""
    if path.suffix not in SUFFIXES:
        raise BadInputError(f"plot {path} has the suffix {path.suffix or 'none'}; choose {', '.join(SUFFIXES)}")


def draw(path: Path, title: str, curves: Sequence[Curve]) -> None:
    """Write the curves: .png or .svg as a picture, .csv as numbers. Raises BadInputError for another suffix, or if the
    package that draws is not installed; FileError if the file cannot be written."""
    demand_suffix(path)
    if path.suffix == ".csv":
        with replacing("plot", path) as beside, beside.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("variant", "iteration", "exploitability"))
            for one in curves:
                writer.writerows(
                    (one.variant, *point) for point in zip(one.iterations, one.exploitability, strict=True)
                )
        return
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInputError(f"plot {path} needs matplotlib; pip install 'ballast[plot]'") from error
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for one in curves:
        axes.loglog(one.iterations, one.exploitability, label=one.variant)
    axes.set(title=title, xlabel="iterations", ylabel="exploitability")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    with replacing("plot", path) as beside:
        figure.savefig(beside, dpi=150, format=path.suffix[1:])
