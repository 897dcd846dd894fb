import csv
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ballast_cfr.cli.main import main
from ballast_cfr.compile.program import compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.export.plot import curve, draw
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


def test_a_curve_is_the_exploitability_at_each_point() -> None:
    program = compile_game(builtin("kuhn"))
    found = curve(program, "dcfr", 150)
    assert (found.variant, found.iterations[0], found.iterations[-1]) == ("DCFR", 1, 150)
    assert list(found.iterations) == sorted(set(found.iterations))
    for at in (3, len(found.iterations) - 1):
        solver = Solver(program, "DCFR")
        solver.step(found.iterations[at])
        assert solver.exploitability() == found.exploitability[at]


def test_plots_are_written_by_the_command(tmp_path: Path) -> None:
    for suffix in ("png", "svg", "csv"):
        file = tmp_path / f"kuhn.{suffix}"
        assert main(["plot", "kuhn", str(file), "--iterations", "40", "--variants", "CFR,PCFRPlus"]) == 0
    assert (tmp_path / "kuhn.png").read_bytes()[:4] == b"\x89PNG"
    assert ElementTree.parse(tmp_path / "kuhn.svg").getroot().tag.endswith("svg")
    rows = list(csv.DictReader((tmp_path / "kuhn.csv").read_text().splitlines()))
    assert {row["variant"] for row in rows} == {"CFR", "PCFRPlus"}
    assert float(rows[-1]["exploitability"]) < float(rows[0]["exploitability"])


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"choose \.png, \.svg, \.csv"):
        draw(tmp_path / "a.gif", "kuhn", [])
