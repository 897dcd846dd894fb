"""Conversations as numbers: the same tokens from the same line, prefixes that repeat, sizes that were measured."""

import random
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast_vamp.replay import presets, trace
from ballast_vamp.replay.errors import BadInputError
from ballast_vamp.replay.trace import Turn

FIRST = Turn(0, 0, 1.0, 0.0, 0, 5, 2, 11)
SECOND = Turn(0, 1, 1.0, 0.5, 7, 3, 4, 12)


def test_a_turn_continues_what_was_said_before_it() -> None:
    (said,) = trace.sessions([SECOND, FIRST][::-1])
    assert [turn.prompt_tokens for turn in said] == [5, 10]
    with pytest.raises(BadInputError, match=r"session 0, turn 1 has prefix_tokens 8, .* 7 tokens"):
        trace.sessions([FIRST, replace(SECOND, prefix_tokens=8)])
    with pytest.raises(BadInputError, match="no turn in it"):
        trace.sessions([])


def test_the_same_line_always_gives_the_same_tokens() -> None:
    assert trace.appended(FIRST, 320) == trace.appended(FIRST, 320)
    assert trace.appended(FIRST, 320) != trace.appended(replace(FIRST, seed=12), 320)
    assert trace.answer(11, 2, 320) == trace.answer(11, 9, 320)[:2]
    assert all(trace.FIRST_ID <= token < 320 for token in trace.ids("x", 1000, 320))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    trace.write(path, [FIRST, SECOND])
    assert trace.read(path) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nothing", "a turn is a JSON object with session, turn"),
        ("[]", "a turn is a JSON object"),
        ('{"session": 0}', "KeyError"),
        ('{"session": 0, "turn": 0, "arrival_s": 0, "gap_s": 0, "prefix_tokens": 0, "append_tokens": 0,'
         ' "output_tokens": 1, "seed": 1}', "append_tokens is 0, not an integer of at least 1"),
        ('{"session": 0, "turn": 0, "arrival_s": -1, "gap_s": 0, "prefix_tokens": 0, "append_tokens": 1,'
         ' "output_tokens": 1, "seed": 1}', "arrival_s is -1, not seconds"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_turn_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(BadInputError, match="line 2") as told:
        trace.read(path)
    assert words in str(told.value)


def test_demand_counts_contexts_of_sessions_that_are_there_at_once() -> None:
    one = [FIRST, SECOND]  # 14 tokens at its end, from second 1 on
    later = [replace(turn, session=1, arrival_s=100.0) for turn in one]
    beside = [replace(turn, session=1, arrival_s=1.0) for turn in one]
    assert trace.demand(one) == 14
    assert trace.demand(one + later) == 14
    assert trace.demand(one + beside) == 28
    assert trace.largest_context(one) == 14


def test_a_shared_prefix_counts_once() -> None:
    turns = [Turn(n, 0, 0.0, 0.0, 100, 10, 1, n) for n in range(3)]
    assert trace.demand(turns) == 100 + 3 * 11


def test_swe110_has_the_size_of_the_published_replays() -> None:
    turns = presets.generate("swe110")
    said = trace.sessions(turns)
    assert (len(said), len(turns)) == (110, 2103)
    assert trace.largest_context(turns) <= 66_000
    assert all(3 <= len(session) <= 50 for session in said)
    first = [session[0].append_tokens for session in said]
    appended = [turn.append_tokens for turn in turns if turn.turn]
    answered = [turn.output_tokens for turn in turns]
    gaps = [turn.gap_s for turn in turns if turn.turn]
    assert 2800 <= statistics.median(first) <= 3700
    assert 280 <= statistics.median(appended) <= 430
    assert 1500 <= statistics.quantiles(appended, n=10)[-1] <= 3500
    assert 85 <= statistics.median(answered) <= 140
    assert 1.2 <= statistics.median(gaps) <= 2.0
    assert 0.03 <= sum(gap >= 30 for gap in gaps) / len(gaps) <= 0.09


def test_tw_is_deep() -> None:
    said = trace.sessions(presets.generate("tw", sessions=200))
    assert 28 <= statistics.median(len(session) for session in said) <= 44
    assert max(len(session) for session in said) <= 120
    assert 17_000 <= statistics.median(session[-1].prompt_tokens for session in said) <= 32_000


def test_burst_has_little_then_three_times_as_much_then_little_again() -> None:
    arrivals = sorted(session[0].arrival_s for session in trace.sessions(presets.generate("burst", sessions=120)))
    before, during = sum(a < 30 for a in arrivals) / 30, sum(30 <= a < 90 for a in arrivals) / 60
    after = [a for a in arrivals if a >= 90]
    assert during > 3 * before
    assert during > 3 * len(after) / (after[-1] - 90)


def test_shared_system_begins_alike_and_one_giant_has_one() -> None:
    turns = presets.generate("shared-system")
    assert {turn.prefix_tokens for turn in turns if turn.turn == 0} == {8192}
    largest = sorted(session[-1].context_tokens for session in trace.sessions(presets.generate("one-giant")))
    assert largest[-1] > 95_000
    assert largest[-2] <= 24_000


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(presets.PRESETS)),
    st.integers(0, 1 << 30),
    st.integers(1, 12),
    st.sampled_from([0.01, 0.05, 0.3, 1]),
    st.sampled_from([1, 25]),
)
def test_every_trace_is_one_and_keeps_its_limit(name: str, seed: int, count: int, scale: float, speed: float) -> None:
    turns = presets.generate(name, seed, count, scale, speed)
    assert turns == presets.generate(name, seed, count, scale, speed)
    assert len(trace.sessions(turns)) == count
    preset = presets.PRESETS[name]
    longest = max(preset.longest, preset.giant) * scale + preset.shared * scale
    assert trace.largest_context(turns) <= longest + 2 * len(turns)  # no turn is shorter than a token


@pytest.mark.parametrize("wrong", [{"sessions": 0}, {"scale": 0.0}, {"speed": -1.0}])
def test_a_size_of_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInputError, match="greater than 0"):
        presets.generate("tw", **wrong)  # type: ignore[arg-type]


def test_a_lognormal_has_its_median_and_its_p90() -> None:
    rng = random.Random(0)
    drawn = [presets.Lognormal(350, 2500, 0, 1e9).draw(rng) for _ in range(20_000)]
    assert statistics.median(drawn) == pytest.approx(350, rel=0.05)
    assert statistics.quantiles(drawn, n=10)[-1] == pytest.approx(2500, rel=0.07)
    assert statistics.quantiles(drawn, n=100)[-1] == pytest.approx(12_000, rel=0.12)
