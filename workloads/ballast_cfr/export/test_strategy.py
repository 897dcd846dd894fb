import csv
import json
from pathlib import Path

import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.export.strategy import csv_text, json_text, read_csv, write
from ballast_cfr.formats import efg
from ballast_cfr.games import builtin
from ballast_cfr.solve.solver import Solver


@pytest.fixture(scope="module")
def solver() -> Solver:
    solver = Solver(compile_game(builtin("leduc")))
    solver.step(100)
    return solver


def test_csv_reads_back_to_the_same_bits(solver: Solver, tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    write(file, csv_text(solver.program, solver.average()))
    back = read_csv(solver.program, file)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(back, solver.average(), strict=True))
    assert evaluate(solver.program, back).exploitability == pytest.approx(solver.exploitability(), abs=1e-12)


def test_csv_has_one_row_for_each_action_with_own_reach(solver: Solver) -> None:
    rows = list(csv.DictReader("".join(csv_text(solver.program, solver.average())).splitlines()))
    assert len(rows) == 2184
    assert list(rows[0]) == ["player", "infoset", "action", "probability", "reach"]
    raised = {row["infoset"]: float(row["probability"]) for row in rows if row["action"] == "raise"}
    reached = {row["infoset"]: float(row["reach"]) for row in rows}
    assert reached["Ja:"] == 1.0
    assert reached["Ja:rr"] == raised["Ja:"]


def test_json_holds_summary_and_strategy(solver: Solver) -> None:
    found = json.loads("".join(json_text(solver.program, solver.average(), {"game": "leduc"})))
    assert found["summary"] == {"game": "leduc"}
    assert len(found["strategy"]) == 936
    assert sum(found["strategy"][0]["probabilities"]) == pytest.approx(1)


def test_export_streams_one_infoset_at_a_time(solver: Solver) -> None:
    assert max(map(len, csv_text(solver.program, solver.average()))) < 400


def test_labels_with_commas_quotes_and_duplicate_actions_survive(tmp_path: Path) -> None:
    text = 'EFG 2 R "t" { "A" "B" } p "" 1 1 "a, \\"b\\"" { "x" "x" } 0 t "" 1 "" { 1 -1 } t "" 2 "" { 0 0 }'
    solver = Solver(compile_game(efg.parse("odd.efg", text.encode())))
    solver.step(3)
    write(tmp_path / "s.csv", csv_text(solver.program, solver.average()))
    assert read_csv(solver.program, tmp_path / "s.csv")[0].tolist() == solver.average()[0].tolist()


KUHN_HEAD = "player,infoset,action,probability,reach\n"


@pytest.fixture(scope="module")
def kuhn() -> Program:
    return compile_game(builtin("kuhn"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,Z:,pass,1,1\n", 'line 2: the game has no information set "Z:" of player 0'),
        ("0,J:,bet,1,1\n", 'line 2: information set "J:" has the actions pass, bet in this order, found bet'),
        ("0,J:,pass,2,1\n", "line 2: probability 2.0 is not between 0 and 1"),
        ("0,J:,pass,nan,1\n", "line 2: probability nan is not between 0 and 1"),
        ("zero,J:,pass,1,1\n", "line 2: expected player, infoset, action, probability, reach, found zero, J:"),
        ("0,J:,pass,0.5,1\n0,J:,bet,0.6,1\n", 'information set "J:" of player 0 add up to 1.1, not 1'),
        ("0,J:,pass,0.5,1\n", 'information set "J:" of player 0 are missing'),
        ("0,J:,pass,0.5,1\n0,J:,bet,0.5,1\n0,J:,bet,0.5,1\n", "line 4: information set"),
    ],
)
def test_a_strategy_that_does_not_fit_names_the_line(kuhn: Program, tmp_path: Path, rows: str, words: str) -> None:
    (tmp_path / "s.csv").write_text(KUHN_HEAD + rows)
    with pytest.raises(BadInputError, match=words):
        read_csv(kuhn, tmp_path / "s.csv")
