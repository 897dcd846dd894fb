"""A solve that was cut anywhere and resumed is the solve that was not cut."""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.errors import CheckpointMismatchError, FileError
from ballast_cfr.formats import checkpoint
from ballast_cfr.games import builtin
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import UPDATES, VARIANTS


@pytest.fixture(scope="module")
def leduc() -> Program:
    return compile_game(builtin("leduc"))


def bits(solver: Solver) -> list[bytes]:
    return [array.tobytes() for pair in (solver.average(), solver.current(), solver.regrets()) for array in pair]


@pytest.mark.parametrize("form", ["sequence", "tree"])
@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_resume_at_random_iterations_is_equal_to_the_bit(variant: str, updates: str, form: str, tmp_path: Path) -> None:
    program = compile_game(builtin("leduc"), form)
    whole = Solver(program, variant, updates=updates)
    whole.step(300)
    random = Random(f"{variant}{updates}{form}")
    file = tmp_path / "c"
    for cut in sorted(random.sample(range(1, 300), 4)):
        piece = Solver(program, variant, updates=updates)
        if file.exists():
            piece.load(file)
        piece.step(cut - piece.iteration)
        piece.save(file)
    last = Solver(program, variant, updates=updates)
    last.load(file)
    last.step(300 - last.iteration)
    assert bits(last) == bits(whole)
    assert last.exploitability() == whole.exploitability()


def test_a_target_is_met_at_the_same_iteration_after_a_resume(leduc: Program, tmp_path: Path) -> None:
    rule = Stop(exploitability=2e-3)
    whole = Solver(leduc)
    expected = whole.solve(rule)
    file = tmp_path / "c"
    for _ in range(300):
        piece = Solver(leduc)
        if file.exists():
            piece.load(file)
        calls = iter([False, False, True])
        outcome = piece.solve(rule, interrupted=lambda calls=calls: next(calls))  # type: ignore[misc]
        piece.save(file)
        if outcome.reason != "Interrupted":
            break
    assert (outcome.reason, outcome.iteration) == ("TargetReached", expected.iteration)
    assert bits(piece) == bits(whole)


def test_seconds_go_on_counting(leduc: Program, tmp_path: Path) -> None:
    first = Solver(leduc)
    first.solve(Stop(seconds=0.1))
    first.save(tmp_path / "c")
    second = Solver(leduc)
    second.load(tmp_path / "c")
    assert second.seconds == first.seconds
    assert second.solve(Stop(seconds=0.1)).reason == "TimeLimit"
    assert second.iteration == first.iteration


def saved(program: Program, tmp_path: Path) -> Path:
    solver = Solver(program)
    solver.step(5)
    solver.save(tmp_path / "c")
    return tmp_path / "c"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"variant": "DCFR"}, "holds variant CFRPlus where this solve has DCFR, and parameters"),
        ({"updates": "Simultaneous"}, "holds updates Alternating where this solve has Simultaneous"),
        ({"tie_tol": 0}, "holds tieTolerance 64.0 where this solve has 0.0"),
        ({"parameters": {"gamma": 2}}, 'holds parameters {"gamma": 1.0} where this solve has {"gamma": 2.0}'),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused_naming_both(
    leduc: Program, tmp_path: Path, other: dict[str, object], words: str
) -> None:
    with pytest.raises(CheckpointMismatchError) as raised:
        Solver(leduc, **other).load(saved(leduc, tmp_path))  # type: ignore[arg-type]
    assert words in str(raised.value)


def test_a_checkpoint_of_another_game_is_refused(leduc: Program, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointMismatchError, match=r"holds game [0-9a-f]{16}... where this solve has [0-9a-f]{16}..."
    ):
        Solver(compile_game(builtin("kuhn"))).load(saved(leduc, tmp_path))


def test_every_damaged_byte_is_noticed(leduc: Program, tmp_path: Path) -> None:
    whole = saved(leduc, tmp_path).read_bytes()
    random = Random(1)
    for at in [0, 7, 8, 20, len(whole) - 1, *random.sample(range(len(whole)), 20)]:
        (tmp_path / "c").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointMismatchError):
            Solver(leduc).load(tmp_path / "c")


@pytest.mark.parametrize("keep", [0, 5, 16, 100, -1])
def test_a_cut_off_checkpoint_is_refused(leduc: Program, tmp_path: Path, keep: int) -> None:
    file = saved(leduc, tmp_path)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CheckpointMismatchError, match=r"is not a checkpoint|is damaged"):
        Solver(leduc).load(file)


def test_a_later_version_is_named(leduc: Program, tmp_path: Path) -> None:
    file = saved(leduc, tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[:7] + b"\x02" + content[8:])
    with pytest.raises(CheckpointMismatchError, match="has format version 2, but this solver reads version 1"):
        Solver(leduc).load(file)


def test_the_old_checkpoint_stays_if_writing_fails(
    leduc: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(leduc, tmp_path)
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ballast_cfr.writing.os.fsync", full)
    solver = Solver(leduc)
    solver.load(file)
    solver.step(1)
    with pytest.raises(
        FileError, match=r"checkpoint .* cannot be written: no space left on device; make room or choose"
    ):
        solver.save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_checkpoint_cut_off_anywhere_is_refused(leduc: Program, tmp_path: Path) -> None:
    content = saved(leduc, tmp_path).read_bytes()
    cut = tmp_path / "cut"
    for length in (0, 6, 7, 8, 15, 16, 40, len(content) - 1):
        cut.write_bytes(content[:length])
        with pytest.raises(CheckpointMismatchError, match=r"is damaged|is not a checkpoint"):
            checkpoint.read(cut)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("arrays", None, "not iterable"),
        ("arrays", [], "bytes are left over"),
        ("settings", None, "settings is None"),
        ("iteration", -1, "iteration is -1"),
        ("iteration", "9", "iteration is '9'"),
        ("seconds", float("nan"), "seconds is nan"),
    ],
)
def test_a_checkpoint_made_by_hand_is_refused(key: str, value: Any, words: str, leduc: Program, tmp_path: Path) -> None:
    file = saved(leduc, tmp_path)
    content = file.read_bytes()
    length = int.from_bytes(content[8:16], "little")
    text = json.dumps({**json.loads(content[16 : 16 + length]), key: value}).encode()
    made = content[:8] + len(text).to_bytes(8, "little") + text + content[16 + length : -32]
    file.write_bytes(made + hashlib.sha256(made).digest())
    with pytest.raises(CheckpointMismatchError, match=f"checkpoint {file} does not fit the format .*{words}"):
        Solver(leduc).load(file)


def test_the_header_is_json_that_people_can_read(leduc: Program, tmp_path: Path) -> None:
    content = saved(leduc, tmp_path).read_bytes()
    length = int.from_bytes(content[8:16], "little")
    header = json.loads(content[16 : 16 + length])
    assert header["iteration"] == 5
    assert header["settings"]["variant"] == "CFRPlus"
    assert [array["name"] for array in header["arrays"]] == [
        "regret0", "strategy0", "average0", "regret1", "strategy1", "average1",
    ]  # fmt: skip
