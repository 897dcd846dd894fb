"""A batch's instances end as solves of their own would, in sequence and together, interrupted or not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ballast_cfr.batch import together
from ballast_cfr.batch.instances import Batch, Instance, read
from ballast_cfr.batch.sequence import check, prepare, solve_each
from ballast_cfr.batch.store import Store
from ballast_cfr.compile.program import Program, compile_game
from ballast_cfr.compile.variation import Variations
from ballast_cfr.errors import BadInputError, CheckpointMismatchError
from ballast_cfr.evaluate.best_response import Evaluation
from ballast_cfr.export.strategy import csv_text
from ballast_cfr.game import Floats
from ballast_cfr.games import builtin
from ballast_cfr.solve.schedule import Stop
from ballast_cfr.solve.solver import Solver

RULE = Stop(exploitability=2e-3, iterations=400)


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_game(builtin("leduc"))


@pytest.fixture
def batch(tmp_path: Path, program: Program) -> Batch:
    game, deals = program.game, Variations(program).deals
    label = game.infoset_label[int(program.plex[0].infoset[0])]
    actions = game.infoset_actions[int(program.plex[0].infoset[0])]
    lines: list[dict[str, Any]] = [
        {"name": "plain"},
        {"name": "paid", "payoffs": (game.payoff[:, 0] * 1.5).tolist()},
        {"name": "tight", "ranges": [{deals.names[0][0]: 0.25}, {}]},
        {"name": "locked", "locks": [{"infoset": label, "strategy": [1 / len(actions)] * len(actions), "player": 0}]},
        {"name": "masked", "masks": [{"infoset": label, "actions": [actions[-1]], "player": 0}]},
    ]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return read(path)


class OnCpu:
    """What `together` uses of CudaBatch, by solvers on the CPU, whose bits are the same."""

    at_work: ClassVar[set[int]] = set()
    most = 0

    def __init__(self, program: Program, size: int, gpu: int) -> None:
        self.gpu = gpu
        self.solvers = [Solver(program) for _ in range(size)]
        self.variations = Variations(program)
        self.iteration = 0
        self.engine = self

    def start(self, iterations: int) -> None:
        assert self.gpu not in self.at_work
        self.at_work.add(self.gpu)
        OnCpu.most = max(OnCpu.most, len(self.at_work))
        for solver in self.solvers:
            solver.iteration = self.iteration
            solver.step(iterations)
        self.iteration += iterations

    def finish(self) -> None:
        self.at_work.remove(self.gpu)

    def evaluations(self) -> list[Evaluation]:
        return [solver.evaluate() for solver in self.solvers]

    def average(self, index: int) -> tuple[Floats, Floats]:
        return self.solvers[index].average()

    def set_payoffs(self, index: int, payoffs: Floats) -> None:
        self.solvers[index].set_payoffs(payoffs)

    def set_root_ranges(self, index: int, first: Floats, second: Floats) -> None:
        self.solvers[index].set_root_ranges(first, second)

    def lock(self, index: int, player: int, infoset: int, strategy: Floats) -> None:
        self.solvers[index]._engine.lock(player, infoset, strategy)

    def mask(self, index: int, player: int, infoset: int, live: Any) -> None:
        self.solvers[index]._engine.mask(player, infoset, live)

    @property
    def programs(self) -> list[Program]:
        return [solver.program for solver in self.solvers]

    def held_digests(self) -> list[str | None]:
        return [solver._engine.held_digest() for solver in self.solvers]

    def arrays(self, index: int) -> dict[str, Floats]:
        return self.solvers[index]._engine.arrays()

    def restore(self, arrays: Mapping[str, Floats], index: int) -> None:
        self.solvers[index]._engine.restore(arrays)


def in_sequence(batch: Batch, store: Store, program: Program, ends_after: int | None = None) -> int | None:
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return ends_after is not None and asked > ends_after

    return solve_each(
        batch,
        store,
        lambda: Solver(program),
        RULE,
        interrupted=interrupted,
        begin=lambda _: None,
        progress=lambda *_: None,
    )


def all_together(batch: Batch, store: Store, program: Program, ends_after: int | None = None) -> int | None:
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return ends_after is not None and asked > ends_after

    return together.solve_together(
        batch, store, program, RULE, interrupted=interrupted, progress=lambda *_: False, group_size=3
    )


def alone(instance: Instance, program: Program) -> tuple[str, str, int]:
    """Strategy, reason and iteration of a solve of its own."""
    solver = Solver(program)
    prepare(solver, instance, Variations(program))
    outcome = solver.solve(RULE)
    return "".join(csv_text(solver.program, solver.average())), outcome.reason, outcome.iteration


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many GPUs there seem to be."""
    many = [1]
    monkeypatch.setattr(together, "CudaBatch", OnCpu)
    monkeypatch.setattr(together, "count", lambda: many[0])
    monkeypatch.setattr(OnCpu, "most", 0)
    return many


@pytest.mark.parametrize(("way", "many"), [(in_sequence, 1), (all_together, 1), (all_together, 2)])
def test_each_ends_as_it_would_alone(
    way: Any, many: int, gpus: list[int], batch: Batch, program: Program, tmp_path: Path
) -> None:
    gpus[0] = many
    store = Store(tmp_path / "store", {}, (tmp_path / "out", "CSV"))
    assert way(batch, store, program) is None
    found = store.results()
    for instance in batch.instances:
        strategy, reason, iteration = alone(instance, program)
        assert store.strategy(instance.name).read_text() == strategy, instance.name
        assert (tmp_path / "out" / f"{instance.name}.csv").read_text() == strategy
        assert (found[instance.name].reason, found[instance.name].iteration) == (reason, iteration)
    assert not list((tmp_path / "store").rglob("*.ballast"))
    assert way is in_sequence or OnCpu.most == many
    assert len({store.strategy(name).read_text() for name in batch.names}) == len(batch.names)


@pytest.mark.parametrize(("way", "after"), [(in_sequence, 9), (all_together, 3)])
def test_an_interruption_changes_nothing(
    way: Any, after: int, gpus: list[int], batch: Batch, program: Program, tmp_path: Path
) -> None:
    whole, broken = Store(tmp_path / "whole", {}, None), Store(tmp_path / "broken", {}, None)
    assert way(batch, whole, program) is None
    times = 0
    while way(batch, broken, program, after) is not None:
        times += 1
        gpus[0] = 1 + times % 2  # as many as the next node has
        assert times < 200
    assert times >= 2
    for name in batch.names:
        assert broken.strategy(name).read_text() == whole.strategy(name).read_text(), name


def test_an_instance_may_be_called_like_a_file_of_ours(gpus: list[int], program: Program, tmp_path: Path) -> None:
    names = ["group-0", "batch", "lock", "checkpoint", "results", "under-way"]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(json.dumps({"name": name, "ranges": [{"Ja:": 0.5}, {}]}) for name in names))
    batch, store = read(path), Store(tmp_path / "store", {}, None)
    store.claim()
    assert in_sequence(batch, store, program, 5) is not None
    assert all_together(batch, store, program, 5) is not None
    assert in_sequence(batch, store, program) is None
    store.claim()
    assert store.results().keys() == set(names)
    assert len({store.strategy(name).read_text() for name in names}) == 1


def test_copies_do_not_go_where_the_batch_keeps_its_own_files(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "results", tmp_path / "x" / ".." / "under-way"):
        Store(tmp_path, {}, (tmp_path / "copies", "CSV"))
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(BadInputError, match=r"is where the batch keeps its own files, .*; choose another folder"):
            Store(tmp_path, {}, (folder, "JSON"))


def test_results_of_another_batch_are_not_taken(batch: Batch, tmp_path: Path) -> None:
    Store(tmp_path / "store", {"batch": batch.digest}, None).claim()
    Store(tmp_path / "store", {"batch": batch.digest}, None).claim()
    with pytest.raises(CheckpointMismatchError, match="batch"):
        Store(tmp_path / "store", {"batch": "another"}, None).claim()


@pytest.mark.parametrize("content", ["", "{", "[]", "\xff"])
def test_a_damaged_file_of_the_folder_is_refused_by_name(content: str, tmp_path: Path) -> None:
    store = Store(tmp_path, {"batch": "x"}, None)
    for path, words in ((tmp_path / "batch.json", "empty this one"), (tmp_path / "results" / "a.json", "delete it to")):
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(CheckpointMismatchError, match=f"checkpoint {path} is damaged; .*{words}"):
            store.claim() if path.parent == tmp_path else store.results()


@pytest.mark.parametrize("way", [in_sequence, all_together])
def test_what_the_game_has_not_is_named_with_its_line(
    way: Any, gpus: list[int], program: Program, tmp_path: Path
) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text('{"name": "a"}\n{"name": "b", "locks": [{"infoset": "none", "strategy": [1]}]}\n')
    with pytest.raises(BadInputError, match=r"^batch batch.jsonl, line 2: game leduc.* has no information set 'none'"):
        way(read(path), Store(tmp_path / "store", {}, None), program)


HELD = '{"name": "a"}\n{"name": "b", %s}\n'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('"payoffs": [1]', "payoffs have shape"),
        ('"ranges": [{"Ja:": 0, "Jb:": 0, "Qa:": 0, "Qb:": 0, "Ka:": 0, "Kb:": 0}, {}]', "leave no deal that can come"),
        ('"locks": [{"infoset": "none", "strategy": [1]}]', "has no information set 'none'"),
        ('"locks": [{"infoset": "Ja:", "strategy": [1]}]', "needs 2 probabilities"),
        ('"masks": [{"infoset": "Ja:", "actions": ["fold"]}]', "has no action 'fold'"),
        (
            '"masks": [{"infoset": "Ja:", "actions": ["call"]}, {"infoset": "Ja:", "actions": ["raise"], "player": 0}]',
            'information set "Ja:" of player 0 is held twice; give it one lock or one mask',
        ),
    ],
)
def test_every_line_is_checked_before_the_first_solve(given: str, words: str, program: Program, tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text(HELD % given)
    with pytest.raises(BadInputError, match=f"^batch batch.jsonl, line 2: .*{words}"):
        check(read(path), program)
