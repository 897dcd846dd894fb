import csv
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import BadInputError
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.export.files import format_of, write_strategy
from ballast_cfr.export.strategy import Only, csv_text, json_text, read_csv, rows, write
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "strategy s.csv is not CSV in UTF-8: .* byte 0xff"),
        (KUHN_HEAD.encode() + b'0,"' + b"x" * 200_000, "strategy s.csv is not CSV in UTF-8: field larger than"),
        (None, r"strategy .*s\.csv cannot be read: no such file"),
    ],
)
def test_a_file_that_is_no_strategy_is_refused(
    kuhn: Program, tmp_path: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(BadInputError, match=words):
        read_csv(kuhn, tmp_path / "s.csv")


def test_a_strategy_saved_by_a_spreadsheet_is_read(kuhn: Program, tmp_path: Path) -> None:
    solver = Solver(kuhn)
    text = "".join(csv_text(kuhn, solver.average()))
    (tmp_path / "s.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_csv(kuhn, tmp_path / "s.csv")[0].tobytes() == solver.average()[0].tobytes()


def test_parquet_holds_what_the_csv_does_and_the_facts(solver: Solver, tmp_path: Path) -> None:
    facts = {"game": "leduc", "iteration": 100}
    write_strategy(tmp_path / "s.parquet", "Parquet", solver.program, solver.average(), facts)
    table = pq.read_table(tmp_path / "s.parquet")
    assert json.loads(table.schema.metadata[b"summary"]) == facts
    expected = list(csv.DictReader("".join(csv_text(solver.program, solver.average())).splitlines()))
    assert [
        {k: str(v) if isinstance(v, str | int) else repr(v) for k, v in row.items()} for row in table.to_pylist()
    ] == expected


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (Only(), 936),
        (Only(player=1), 468),
        (Only(prefix="Ja:"), 78 * 2),
        (Only(player=0, prefix="Qb:rrc/"), 15),
        (Only(min_reach=2.0), 0),
    ],
)
def test_only_a_part_can_be_written(solver: Solver, tmp_path: Path, only: Only, expected: int) -> None:
    found = list(rows(solver.program, solver.average(), only))
    assert len(found) == expected
    for form in ("CSV", "JSON", "Parquet"):
        write_strategy(tmp_path / form, form, solver.program, solver.average(), {}, only)
    in_csv = {(r["player"], r["infoset"]) for r in csv.DictReader((tmp_path / "CSV").read_text().splitlines())}
    in_parquet = {(str(r["player"]), r["infoset"]) for r in pq.read_table(tmp_path / "Parquet").to_pylist()}
    in_json = {(str(r["player"]), r["infoset"]) for r in json.loads((tmp_path / "JSON").read_text())["strategy"]}
    assert in_csv == in_parquet == in_json
    assert len(in_csv) == expected


def test_what_is_seldom_reached_can_be_left_out(solver: Solver) -> None:
    everything = list(rows(solver.program, solver.average()))
    often = list(rows(solver.program, solver.average(), Only(min_reach=0.5)))
    assert often == [row for row in everything if row.reach >= 0.5]
    assert 0 < len(often) < len(everything)


def test_large_strategies_are_exported_in_bounded_memory(tmp_path: Path) -> None:
    program = compile_game(builtin("liars-dice"))
    strategies = (np.full(program.plex[0].slots, 0.5), np.full(program.plex[1].slots, 0.5))
    peaks = {}
    for form in ("CSV", "Parquet"):
        tracemalloc.start()
        write_strategy(tmp_path / form, form, program, strategies, {})
        peaks[form] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks["CSV"] < 4 << 20
    assert peaks["Parquet"] < 16 << 20


def test_the_suffix_chooses_the_format() -> None:
    assert [format_of(Path(f"a.{suffix}")) for suffix in ("csv", "JSON", "parquet")] == ["CSV", "JSON", "Parquet"]
    with pytest.raises(BadInputError, match=r"has the suffix \.xml; choose \.csv, \.json or \.parquet"):
        format_of(Path("a.xml"))
