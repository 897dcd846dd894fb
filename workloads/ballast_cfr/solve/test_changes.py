"""Payoffs, ranges, locks and masks change a game without compiling it again, and to the same bits."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast_cfr.compile.program import compile_game
from ballast_cfr.compile.validate import LARGEST
from ballast_cfr.errors import BadInputError, CheckpointMismatchError
from ballast_cfr.evaluate.best_response import evaluate
from ballast_cfr.game import CHANCE, Floats, Game
from ballast_cfr.games import builtin
from ballast_cfr.solve.batch import Batch
from ballast_cfr.solve.solver import Solver
from ballast_cfr.solve.variants import VARIANTS

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("leduc", {}),
    ("poker-river", {"hands": 8}),
    ("poker-turn", {"hands": 3}),
    ("goofspiel", {"order": "random"}),
]


def state(solver: Solver) -> bytes:
    parts = (*solver.average(), *solver.regrets(), *solver.current())
    return b"".join(part.tobytes() for part in parts) + np.array([solver.exploitability(), solver.value()]).tobytes()


def payoffs_of(game: Game, seed: int = 0) -> Floats:
    drawn = np.random.default_rng(seed).integers(-8, 9, len(game.terminals)) / 4
    return np.asarray(drawn, dtype=np.float64)


def with_payoffs(game: Game, payoff: Floats) -> Game:
    return replace(game, payoff=np.stack([payoff, -payoff], axis=1))


@pytest.mark.parametrize("form", ["sequence", "tree"])
@pytest.mark.parametrize(("name", "parameters"), GAMES)
def test_set_payoffs_equals_compiling_the_changed_game_to_the_bit(
    name: str, parameters: dict[str, Any], form: str
) -> None:
    game = builtin(name, parameters)
    solver = Solver(compile_game(game, form), "DCFR")
    solver.step(13)
    for seed in (1, 2):
        solver.set_payoffs(payoffs_of(game, seed))
    solver.reset()
    fresh = Solver(compile_game(with_payoffs(game, payoffs_of(game, 2)), form), "DCFR")
    for one in (solver, fresh):
        one.step(60)
    assert state(solver) == state(fresh)
    assert solver.settings() == fresh.settings()


def test_payoffs_where_there_were_none_are_no_less_exact() -> None:
    game = builtin("leduc")
    nothing = np.where(np.arange(len(game.terminals)) % 2 == 0, game.payoff[:, 0], 0.0)
    solver = Solver(compile_game(with_payoffs(game, nothing)))
    solver.step(5)
    solver.set_payoffs(game.payoff[:, 0])
    solver.reset()
    fresh = Solver(compile_game(game))
    for one in (solver, fresh):
        one.step(60)
    assert state(solver) == state(fresh)


def test_what_was_learnt_stays_when_payoffs_change() -> None:
    game = builtin("leduc")
    solver = Solver(compile_game(game))
    solver.step(400)
    before = solver.average()[0]
    solver.set_payoffs(game.payoff[:, 0] * 1.01)
    assert (solver.average()[0] == before).all()
    assert solver.exploitability() < 0.01


@pytest.mark.parametrize("form", ["sequence", "tree"])
@pytest.mark.parametrize(("name", "parameters"), GAMES[:3])
def test_root_ranges_equal_compiling_the_game_dealt_so(name: str, parameters: dict[str, Any], form: str) -> None:
    game = builtin(name, parameters)
    solver = Solver(compile_game(game, form))
    random = np.random.default_rng(3)
    first, second = (random.integers(0, 5, len(names)).astype(float) for names in solver.root_types())
    solver.set_root_ranges(first, second)
    fresh = Solver(compile_game(replace(game, chance=solver.program.game.chance), form))
    for one in (solver, fresh):
        one.step(60)
    assert state(solver) == state(fresh)


def test_ranges_scale_the_deals() -> None:
    solver = Solver(compile_game(builtin("kuhn")))
    assert solver.root_types() == (("J:", "Q:", "K:"), ("Q:p", "K:p", "J:p"))
    solver.set_root_ranges(np.array([1.0, 0.0, 3.0]), np.ones(3))
    game = solver.program.game
    decisions = np.flatnonzero((game.player[game.parent] == CHANCE) & (game.player == 0))
    dealt = {game.infoset_label[game.infoset[node]]: 0.0 for node in decisions}
    for node in decisions:
        dealt[game.infoset_label[game.infoset[node]]] += float(game.chance_reach[node])
    assert dealt == pytest.approx({"J:": 0.25, "Q:": 0.0, "K:": 0.75})
    solver.set_root_ranges(np.ones(3), np.ones(3))
    assert solver.program.game.chance == pytest.approx(builtin("kuhn").chance, rel=1e-15)


def without(game: Game, infoset: int, action: int) -> Game:
    """The game in which an action does not exist: its subtrees are gone."""
    gone = np.zeros(game.nodes, dtype=bool)
    gone[game.first_child[game.infoset == infoset] + action] = True
    for level in game.levels():
        if level.start:
            gone[level] |= gone[game.parent[level]]
    kept = ~gone
    n_children = np.bincount(game.parent[kept][1:], minlength=game.nodes)[kept]
    names = list(game.infoset_actions)
    names[infoset] = tuple(n for at, n in enumerate(names[infoset]) if at != action)
    return replace(
        game, player=game.player[kept], n_children=n_children.astype(np.int32), infoset=game.infoset[kept],
        chance=game.chance[kept], payoff=game.payoff[kept[game.terminals]], infoset_actions=names,
    )  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_masked_game_is_solved_as_the_game_without_those_actions(variant: str) -> None:
    game = builtin("leduc")
    masked, cut = Solver(compile_game(game), variant), Solver(compile_game(without(game, 5, 1)), variant)
    masked.step(3)
    masked.mask(5, [1])
    masked.reset()
    for solver in (masked, cut):
        solver.step(60)
    first = {
        i: masked.program.plex[p].first[np.flatnonzero(masked.program.plex[p].infoset == i)[0]]
        for p in (0, 1)
        for i in masked.program.plex[p].infoset
    }
    for player, plex in enumerate(cut.program.plex):
        ours, theirs = masked.average()[player], cut.average()[player]
        for at, infoset in enumerate(plex.infoset):
            left = theirs[plex.first[at] : plex.first[at + 1]]
            found = ours[first[infoset] : first[infoset] + len(game.infoset_actions[infoset])]
            if infoset == 5:
                assert found[1] == 0.0
                found = np.delete(found, 1)
            assert found.tobytes() == left.tobytes()
    assert masked.exploitability() == cut.exploitability()
    assert masked.value() == cut.value()


@pytest.mark.parametrize("form", ["sequence", "tree"])
def test_locking_to_one_action_is_masking_the_others(form: str) -> None:
    locked, masked = (Solver(compile_game(builtin("leduc"), form), "PCFRPlus") for _ in range(2))
    locked.lock("Ja:", [0.0, 1.0])
    masked.mask("Ja:", ["call"])
    for solver in (locked, masked):
        solver.step(50)
    assert state(locked) == state(masked)


@pytest.mark.parametrize("form", ["sequence", "tree"])
def test_against_a_locked_player_the_best_reply_is_found(form: str) -> None:
    program = compile_game(builtin("kuhn"), form)
    solver = Solver(program)
    random = np.random.default_rng(1)
    plex = program.plex[1]
    for at, infoset in enumerate(plex.infoset):
        solver.lock(int(infoset), random.dirichlet(np.ones(int(plex.first[at + 1] - plex.first[at]))))
    solver.step(2000)
    assert solver.exploitability() == pytest.approx(0, abs=1e-3)
    best = evaluate(program, solver.average()).upper
    assert solver.value() == pytest.approx(best, abs=2e-3)
    assert solver.evaluate().upper == pytest.approx(best, abs=1e-12)


def test_the_locked_strategy_is_the_average_even_where_it_is_never_reached() -> None:
    solver = Solver(compile_game(builtin("kuhn")))
    solver.lock("K:", [1.0, 0.0], player=0)
    solver.lock("K:pb", [0.25, 0.75])
    solver.lock("J:", [1.0, 0.0])
    solver.step(20)
    plex = solver.program.plex[0]
    labels = [solver.program.game.infoset_label[i] for i in plex.infoset]
    at = int(plex.first[labels.index("K:pb")])
    assert solver.average()[0][at : at + 2].tolist() == [0.25, 0.75]


def test_what_is_forbidden_stays_so_until_it_is_freed() -> None:
    twice, once = (Solver(compile_game(builtin("liars-dice", {"faces": 2}))) for _ in range(2))
    first = twice.program.game.infoset_actions[0]
    twice.mask(0, [0])
    twice.mask(0, [first[1]])
    once.mask(0, [0, 1])
    for solver in (twice, once):
        solver.step(50)
        assert solver.average()[0][:2].tolist() == [0.0, 0.0]
    assert state(twice) == state(once)
    with pytest.raises(BadInputError, match="would have no action left"):
        twice.mask(0, first[2:])
    twice.free(0)
    twice.mask(0, [2])
    assert twice.current()[0][:4].tolist() == [1 / 3, 1 / 3, 0.0, 1 / 3]
    twice.free(0)
    once.free(0)
    twice.mask(0, [])  # forbids nothing
    assert twice.settings() == once.settings()


@pytest.mark.parametrize("form", ["sequence", "tree"])
def test_the_average_forgets_what_is_forbidden(form: str) -> None:
    solver = Solver(compile_game(builtin("kuhn"), form))
    solver.step(100)
    solver.mask("K:pb", ["bet"], player=0)  # a call with the king, which wins
    plex = solver.program.plex[0]
    at = int(plex.first[[solver.program.game.infoset_label[i] for i in plex.infoset].index("K:pb")])
    assert solver.average()[0][at : at + 2].tolist() == [1.0, 0.0]
    found = solver.evaluate()
    assert found.lower <= found.value <= found.upper
    solver.step(10)
    assert solver.average()[0][at : at + 2].tolist() == [1.0, 0.0]
    assert solver.exploitability() >= 0


def test_a_freed_infoset_is_played_again() -> None:
    solver = Solver(compile_game(builtin("kuhn")))
    untouched = Solver(compile_game(builtin("kuhn")))
    solver.lock("K:", [1.0, 0.0])
    solver.free("K:")
    for one in (solver, untouched):
        one.step(50)
    assert state(solver) == state(untouched)


def test_resume_keeps_locks_payoffs_and_ranges_apart(tmp_path: Path) -> None:
    def made(lock: bool) -> Solver:
        solver = Solver(compile_game(builtin("leduc")), "DCFR")
        solver.set_payoffs(solver.program.game.payoff[:, 0] * 2)
        if lock:
            solver.lock("Ja:", [0.5, 0.5])
        return solver

    whole, half, resumed = made(True), made(True), made(True)
    whole.step(80)
    half.step(40)
    half.save(tmp_path / "c")
    resumed.load(tmp_path / "c")
    resumed.step(40)
    assert state(resumed) == state(whole)
    with pytest.raises(CheckpointMismatchError, match="held"):
        made(False).load(tmp_path / "c")
    with pytest.raises(CheckpointMismatchError, match="game"):
        Solver(compile_game(builtin("leduc")), "DCFR").load(tmp_path / "c")


def test_a_batch_is_so_many_solvers(tmp_path: Path) -> None:
    game = builtin("leduc")
    program = compile_game(game)
    rows = np.stack([payoffs_of(game, seed) for seed in range(3)])
    batch = Batch(program, 3, "CFRPlus", threads=2)
    batch.set_payoffs(rows)
    batch.mask("Ja:", ["raise"])
    batch.step(50)
    for at, row in enumerate(rows):
        alone = Solver(program)
        alone.set_payoffs(row)
        alone.mask("Ja:", ["raise"])
        alone.step(50)
        assert [part[at].tobytes() for part in batch.average()] == [part.tobytes() for part in alone.average()]
        assert batch.exploitability()[at] == alone.exploitability()
        assert batch.value()[at] == alone.value()
    with pytest.raises(BadInputError, match="payoffs are given for 2 instances, but the batch has 3"):
        batch.set_payoffs(rows[:2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.set_payoffs(np.ones(3)), r"payoffs have shape \(3,\), but must be 30 finite numbers"),
        (lambda s: s.set_payoffs(np.full(30, np.nan)), "finite numbers"),
        (lambda s: s.set_payoffs(np.full(30, 1e300)), r"one for each terminal, from -1e\+280 to 1e\+280"),
        (lambda s: s.set_root_ranges(np.ones(2), np.ones(3)), "range of player 0 must be 3 numbers, none negative"),
        (lambda s: s.set_root_ranges(np.ones(3), -np.ones(3)), "range of player 1 must be 3 numbers, none negative"),
        (lambda s: s.set_root_ranges(np.zeros(3), np.ones(3)), "leave no deal that can come"),
        (lambda s: s.lock("X:", [1, 0]), "has no information set 'X:'"),
        (lambda s: s.lock("K:", [1, 0], player=1), "has no information set 'K:' of player 1"),
        (lambda s: s.lock("K:", [1, 1]), "needs 2 probabilities that add up to 1"),
        (lambda s: s.mask("K:", ["fold"]), "has no action 'fold'; it has pass, bet"),
        (lambda s: s.mask("K:", [0, 1]), "would have no action left"),
    ],
)
def test_changes_that_make_no_sense_say_why(change: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        change(Solver(compile_game(builtin("kuhn"))))


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**900])
def test_only_the_proportions_of_ranges_count(scale: float) -> None:
    plain, scaled = (Solver(compile_game(builtin("kuhn"))) for _ in range(2))
    plain.set_root_ranges(np.array([1, 2, 3]), np.array([3, 1, 1]))
    scaled.set_root_ranges(np.array([1, 2, 3]) * scale, np.array([3, 1, 1]) * scale)
    for solver in (plain, scaled):
        solver.step(50)
    assert state(plain) == state(scaled)


def test_the_largest_payoffs_that_are_allowed_overflow_nowhere() -> None:
    for variant in VARIANTS:
        solver = Solver(compile_game(builtin("kuhn")), variant)
        solver.set_payoffs(solver.program.game.payoff[:, 0] * (LARGEST / 2))
        solver.step(1000)
        assert 0 < solver.exploitability() < 1e-2 * LARGEST


@pytest.mark.parametrize("factor", [1e-40, 1e40])
def test_mixed_precision_refuses_payoffs_that_32_bits_do_not_hold(factor: float) -> None:
    game = builtin("kuhn")
    words = rf"payoffs up to {re.escape(f'{2 * factor:g}')}, but with dtype Mixed .* must be from 1e-30 to 1e\+30"
    with pytest.raises(BadInputError, match=words):
        Solver(compile_game(replace(game, payoff=game.payoff * factor)), dtype="Mixed")
    solver = Solver(compile_game(game), dtype="Mixed")
    with pytest.raises(BadInputError, match=words):
        solver.set_payoffs(game.payoff[:, 0] * factor)


def test_mixed_precision_converges_as_far_as_it_should() -> None:
    program = compile_game(builtin("leduc"))
    exact, mixed = Solver(program), Solver(program, dtype="Mixed")
    for solver in (exact, mixed):
        solver.step(1000)
    assert 0.8 <= mixed.exploitability() / exact.exploitability() <= 1.25
    assert mixed.current()[0].tobytes() == mixed.current()[0].astype(np.float32).astype(float).tobytes()
    again = Solver(program, dtype="Mixed")
    again.step(1000)
    assert state(again) == state(mixed)
