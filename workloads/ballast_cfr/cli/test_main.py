import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ballast_cfr.cli.bench import Block, summarise
from ballast_cfr.cli.main import main
from ballast_cfr.cli.progress import Bar
from ballast_cfr.compile.program import compile_game
from ballast_cfr.formats import checkpoint
from ballast_cfr.games import builtin
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver


def test_solve_prints_the_facts_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "leduc", "--variant", "cfr_plus", "--iterations", "100", "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    known = {key: facts[key] for key in ("game", "nodes", "infosets", "iteration", "device", "variant")}
    assert known == {
        "game": "leduc", "nodes": 9457, "infosets": 936, "iteration": 100, "device": "cpu", "variant": "CFRPlus",
    }  # fmt: skip
    assert facts["exploitability"] == pytest.approx(0.01342, rel=1e-3)
    assert facts["valueBounds"][0] <= facts["value"] <= facts["valueBounds"][1]


def test_solve_eval_and_export_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, strategy, again = (str(tmp_path / name) for name in ("c", "s.csv", "again.csv"))
    solve = ["solve", "kuhn", "--game-parameter", "cards=4", "--exploitability", "1e-3", "--quiet"]
    assert main([*solve, "--output", strategy, "--checkpoint", checkpoint]) == 0
    assert main(["export", checkpoint, again]) == 0
    assert Path(strategy).read_text() == Path(again).read_text()
    assert main(["eval", "kuhn", strategy, "--game-parameter", "cards=4", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["exploitability"] <= 1e-3


def test_resume_goes_on_from_a_checkpoint_alone(tmp_path: Path) -> None:
    checkpoint, resumed, whole = (tmp_path / name for name in ("c", "resumed.csv", "whole.csv"))
    solve = ["solve", "leduc", "--variant", "DCFR", "--quiet"]
    assert main([*solve, "--iterations", "40", "--checkpoint", str(checkpoint)]) == 0
    assert main(["resume", str(checkpoint), "--iterations", "90", "--quiet", "--output", str(resumed)]) == 0
    assert main([*solve, "--iterations", "90", "--output", str(whole)]) == 0
    assert resumed.read_text() == whole.read_text()


def test_export_writes_a_builtin_game_as_efg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "kuhn", str(tmp_path / "kuhn.efg")]) == 0
    assert main(["validate", str(tmp_path / "kuhn.efg"), "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["nodes"], facts["infosets"], facts["span"]) == (58, [6, 6], 4.0)
    assert facts["digest"] == builtin("kuhn").digest


def test_export_writes_a_game_for_fast_loading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "goofspiel.cfrg")
    assert main(["export", "goofspiel", file, "--game-parameter", "cards=5"]) == 0
    assert main(["validate", file, "--json", "-"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["nodes"], facts["digest"]) == (26_931, builtin("goofspiel", {"cards": 5}).digest)
    assert facts["iteration_ms"] > 0


def test_export_can_be_partial(tmp_path: Path) -> None:
    checkpoint, part = str(tmp_path / "c"), tmp_path / "part.csv"
    assert (
        main(["solve", "leduc", "--quiet", "--iterations", "50", "--checkpoint", checkpoint, "--dtype", "mixed"]) == 0
    )
    wanted = ["--player", "1", "--prefix", "Qa:", "--min-reach", "0.01"]
    assert main(["export", checkpoint, str(part), *wanted]) == 0
    lines = part.read_text().splitlines()[1:]
    assert lines
    assert all(line.startswith("1,Qa:") and float(line.rpartition(",")[2]) >= 0.01 for line in lines)


def test_the_example_game_is_kuhn() -> None:
    example = Path(__file__).parents[3] / "docs/examples/games/kuhn.efg"
    assert main(["validate", str(example), "--json", "/dev/null"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["solve", "chess", "--iterations", "1"], 42, "game chess is not built in"),
        (["solve", "kuhn"], 42, "no end is given"),
        (["solve", "missing.efg", "--iterations", "1"], 42, "cannot be read"),
        (["validate", "{root}/three.efg"], 42, "has 3 players, but only two-player games can be solved"),
        (["resume", "{root}/none", "--iterations", "1"], 42, "does not exist"),
        (["resume", "{root}/three.efg", "--iterations", "1"], 43, "is not a checkpoint of this solver"),
        (["solve", "kuhn", "--iterations", "1", "--output", "{root}/s.xml"], 42, "choose .csv, .json or .parquet"),
    ],
)
def test_failures_are_one_sentence_and_a_code(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "three.efg").write_text('EFG 2 R "t" { "A" "B" "C" } t "" 1 "" { 1 1 -2 }')
    assert main([part.format(root=tmp_path) for part in arguments]) == code
    said = capsys.readouterr().err.strip().splitlines()
    assert words in said[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["solve", "kuhn", "--iterations", "9", "--output", "{file}/s.csv"],
            1,
            "output .* cannot be written: file exists",
        ),
        (
            ["solve", "kuhn", "--iterations", "9", "--checkpoint", "{file}/c"],
            1,
            "checkpoint .* cannot be written: file ex",
        ),
        (["solve", "kuhn", "--iterations", "9", "--json", "{root}"], 1, "json .* cannot be written: it is a folder"),
        (
            ["validate", "kuhn", "--json", "{root}"],
            1,
            "json .* cannot be written: is a directory; choose another place",
        ),
        (["export", "kuhn", "{file}/k.efg"], 1, "output .* cannot be written: file exists"),
        (["plot", "kuhn", "{file}/k.png"], 1, "plot .* cannot be written: file exists"),
        (["plot", "kuhn", "{root}/k.gif"], 42, "choose .png, .svg, .csv"),
        (
            ["plot", "kuhn", "{root}/k.csv", "--iterations", "0"],
            42,
            "the number of iterations is 0, but must be at least",
        ),
        (["bench", "--blocks", "-1"], 42, "the number of blocks is -1, but must be at least 1"),
        (["bench", "--json", "{file}/b"], 1, "json .* cannot be written: file exists"),
        (["export", "{root}/none", "s.xml"], 42, "choose .csv, .json or .parquet"),
        (
            ["export", "{root}/none", "s.csv", "--min-reach", "nan"],
            42,
            "the least reach is nan, but must be a probability",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_any_work(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main([part.format(root=tmp_path, file=file) for part in arguments]) == code
    said = capsys.readouterr()
    assert re.search(words, said.err.strip())
    assert (said.out, said.err.count("\n")) == ("", 1)


def cli(*arguments: str | bytes, out: int = subprocess.PIPE) -> tuple[int, str]:
    """Exit code, and what was said on standard error."""
    command = [sys.executable, "-m", "ballast_cfr", *arguments]
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace")
    return done.returncode, done.stderr


def test_a_reader_that_has_gone_ends_it_quietly() -> None:
    read, write = os.pipe()
    os.close(read)
    assert cli("validate", "kuhn", out=write) == (128 + signal.SIGPIPE, "")
    os.close(write)


def test_output_that_finds_no_room_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        said = "validate: standard output cannot be written: no space left on device\n"
        assert cli("validate", "kuhn", "--json", "-", out=full.fileno()) == (1, said)


def test_a_file_whose_name_is_no_text_can_be_solved_and_exported(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/caf\xe9.efg"
    assert cli("export", "kuhn", file) == (0, "")
    assert cli("export", file, str(tmp_path / "again.efg")) == (0, "")
    assert cli("solve", file, "--iterations", "5", "--output", str(tmp_path / "s.json")) == (0, "")
    assert json.loads((tmp_path / "s.json").read_text())["summary"]["game"] == "caf\\xe9.efg"


def test_ctrl_c_while_loading_shows_no_traceback() -> None:
    command = [sys.executable, "-m", "ballast_cfr", "validate", "goofspiel", "--game-parameter", "cards=6"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 130)


@pytest.mark.parametrize("command", ["resume", "export"])
def test_the_checkpoint_of_a_group_is_not_taken_for_a_solves(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "group-0.ballast"
    checkpoint.write(file, {"settings": {"games": [], "held": []}, "iteration": 1, "seconds": 1.0}, {})
    rest = ["--iterations", "9"] if command == "resume" else [str(tmp_path / "s.csv")]
    assert main([command, str(file), *rest]) == 43
    assert "is not of one solve, but perhaps of a group of a batch" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_shows_rate_exploitability_and_eta() -> None:
    stream = Terminal()
    rule = Stop(exploitability=1e-3)
    bar = Bar(rule, stream=stream)
    solver = Solver(compile_game(builtin("leduc")))
    bar.shown_at = -1.0
    solver.solve(rule, progress=bar.show)
    bar.close()
    assert "\n" not in stream.getvalue()
    line = bar.line(bar.monitor.see(solver))
    assert f"iteration {solver.iteration:,} (" in line
    assert "exploitability 9." in line
    assert "100%" in line
    assert line.endswith("eta 0:00")


def test_progress_elsewhere_is_a_line_now_and_then() -> None:
    stream = io.StringIO()
    rule = Stop(iterations=2000)
    bar = Bar(rule, stream=stream)
    Solver(compile_game(builtin("leduc"))).solve(rule, progress=bar.show)
    bar.close()
    assert stream.getvalue() == ""
    bar.shown_at = -100.0
    Solver(compile_game(builtin("kuhn"))).solve(rule, progress=bar.show)
    assert stream.getvalue().count("\n") == 1


def test_quiet_says_nothing() -> None:
    stream = Terminal()
    bar = Bar(Stop(iterations=10), quiet=True, stream=stream)
    Solver(compile_game(builtin("kuhn"))).solve(Stop(iterations=10), progress=bar.show)
    bar.close()
    assert stream.getvalue() == ""


def test_bench_compares_like_with_like() -> None:
    rows = [Block("g", "ballast", 200, wall, wall) for wall in (1.0, 2.0, 3.0)]
    rows += [Block("g", "openspiel", 200, wall, wall * 2) for wall in (100.0, 300.0, 200.0)]
    ours, theirs = summarise(rows)
    assert (ours.p10_wall, ours.median_cpu, ours.ratio_median_cpu) == (1.0, 2.0, 1.0)
    assert (theirs.p10_wall, theirs.median_cpu) == (100.0, 400.0)
    assert (theirs.ratio_p10_wall, theirs.ratio_median_cpu) == (100.0, 200.0)


def test_bench_runs_without_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--games", "kuhn", "--blocks", "3", "--iterations", "50", "--json", str(tmp_path / "b")]) == 0
    assert "| kuhn | ballast | 3 |" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "b").read_text())["rows"]) == 3


def test_bench_to_standard_output_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--games", "kuhn", "--blocks", "2", "--iterations", "5", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_unknown_peers_and_games_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--games", "kuhn", "--peers", "gambit"]) == 42
    assert "peer gambit is unknown; choose one of openspiel, liteefg, noregret, or none" in capsys.readouterr().err
    assert main(["bench", "--games", "some.efg"]) == 42
    assert "give a built-in one, such as goofspiel:cards=5" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("name", ["openspiel", "liteefg", "noregret"])
def test_peers_are_measured_beside_us(name: str, tmp_path: Path) -> None:
    report = tmp_path / "b.json"
    assert (
        main(
            ["bench", "--games", "kuhn", "--peers", name, "--blocks", "3", "--iterations", "20", "--json", str(report)]
        )
        == 0
    )
    facts = json.loads(report.read_text())
    assert [row["solver"] for row in facts["rows"]] == ["ballast", name] * 3
    assert facts["table"][1]["ratio_median_cpu"] > 1
    assert facts["machine"]["versions"][name]
