"""A trace against a stand-in for an engine: who is asked what and when, and what is measured of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from ballast_vamp.replay import outcome, readings, report, trace
from ballast_vamp.replay.drive import Ask, EngineError, Played, Player
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.trace import Turn

VOCABULARY = 320
TURNS = [
    Turn(0, 0, 0.0, 0.0, 0, 8, 3, 1),
    Turn(0, 1, 0.0, 0.02, 11, 4, 2, 2),
    Turn(1, 0, 0.05, 0.0, 0, 6, 1, 3),
]


@dataclass
class StandIn:
    """An engine that says what was recorded, one token a `pause`; `wrong` and `short` name requests it does badly."""

    pause: float = 0.005
    wrong: str = ""
    short: str = ""
    asked: list[Ask] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    page: str = "vllm:prefix_cache_queries_total 0\nvllm:prefix_cache_hits_total 0\n"

    async def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        self.asked.append(request)
        if self.short == request.name:
            raise EngineError("out of memory")
        for token in trace.answer(request.seed, request.output, request.vocabulary):
            await asyncio.sleep(self.pause)
            yield [0 if self.wrong == request.name else token]

    async def metrics(self) -> str:
        return self.page

    async def change_profile(self, profile: Profile) -> None:
        self.profiles.append(profile)


async def play(engine: StandIn, shift: Profile | None = None) -> Played:
    return await Player(engine, trace.sessions(TURNS), VOCABULARY, 0.01, shift).play()


async def test_a_prompt_is_everything_said_before_with_the_recorded_answers() -> None:
    engine = StandIn()
    played = await play(engine)
    asked = {request.name: list(request.prompt) for request in engine.asked}
    assert [len(asked[name]) for name in ("0-0", "0-1", "1-0")] == [8, 15, 6]
    assert asked["0-1"][:11] == asked["0-0"] + trace.answer(1, 3, VOCABULARY)
    assert len(played.turns) == 3
    assert all(said.forced for said in played.turns)
    assert played.failures == []


async def test_tokens_are_the_same_whatever_the_engine_says() -> None:
    one, other = StandIn(), StandIn(pause=0.001, wrong="0-0")
    await play(one)
    played = await play(other)
    assert {r.name: list(r.prompt) for r in one.asked} == {r.name: list(r.prompt) for r in other.asked}
    assert [said.forced for said in sorted(played.turns, key=lambda said: (said.session, said.turn))] == [
        False,
        True,
        True,
    ]


async def test_a_turn_waits_for_the_answer_before_it_and_a_session_for_its_time() -> None:
    played = await play(StandIn())
    first, second, other = sorted(played.turns, key=lambda said: (said.session, said.turn))
    assert second.due >= first.end + 0.02
    assert other.due >= 0.05
    assert other.tpot is None
    assert first.ttft == pytest.approx(0.005, abs=0.02)
    assert first.tpot == pytest.approx(0.005, abs=0.02)


async def test_a_failed_turn_ends_its_session_and_is_told() -> None:
    played = await play(StandIn(short="0-0"))
    assert played.failures == ["session 0, turn 0: out of memory"]
    found = outcome.outcome(played, TURNS)
    assert (found["turns"], found["missing"]) == (1, 2)
    (told,) = report.faults({"plain": [found]})
    assert "2 turns have no whole answer: session 0, turn 0: out of memory" in told


async def test_the_traffic_changes_once_when_half_of_it_is_over() -> None:
    engine = StandIn()
    await play(engine, Profile("next512", 1))
    assert engine.profiles == [Profile("next512", 1)]


PAGE = """\
# HELP x y
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0"} 2.0
vllm:num_preemptions_total{engine="1"} 1.0
vllm:prefix_cache_queries_total 100.0
vllm:prefix_cache_hits_total 60.0
vllm:external_prefix_cache_hits_total 15.0
vllm:kv_cache_usage_perc 0.5
vamp:expert_bytes_host 1048576.0
vamp:repartition_seconds_sum{phase="prepare"} 0.5
vamp:repartition_seconds_sum{phase="stall"} 0.25
vamp:disabled_info{message="a, \\"b\\"",reason="NoCuda"} 1.0
"""


def test_pages_become_counts_and_series() -> None:
    samples = [
        (0.0, "vllm:prefix_cache_queries_total 20.0\nvllm:prefix_cache_hits_total 20.0\n"),
        (1.0, ""),
        (2.0, PAGE),
    ]
    counts = readings.counted(samples)
    assert (counts["preemptions"], counts["prefix_queries"], counts["prefix_hits"]) == (3, 80, 40)
    assert counts["stall_seconds"] == 0.25
    assert readings.series(samples) == {
        "t": [0.0, 1.0, 2.0],
        "kv_usage": [None, None, 0.5],
        "expert_bytes_host": [None, None, 1048576.0],
    }
    assert readings.disabled(samples) == 'NoCuda: a, "b"'
    assert readings.disabled([(0.0, PAGE), (1.0, "vamp:active 1.0")]) is None


def test_the_last_sample_may_be_missing() -> None:
    assert readings.counted([(0.0, "vllm:num_preemptions_total 1.0\n"), (1.0, PAGE), (2.0, "")])["preemptions"] == 2


@pytest.mark.parametrize(("level", "value"), [(0.0, 1), (0.1, 1), (0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10)])
def test_a_quantile_is_a_value_that_was_measured(level: float, value: float) -> None:
    assert outcome.quantile([float(n) for n in range(10, 0, -1)], level) == value


def run(ttft: float, speed: float, **more: object) -> dict[str, object]:
    base = {"ttft_p50": ttft, "ttft_p90": ttft, "ttft_p99": ttft, "tpot_p50": 0.01, "tpot_p90": 0.01}
    base["delay_seconds"] = 10 * ttft
    shown = {"tokens_per_second": speed, "forced": True, "missing": 0, "failures": [], "vamp_disabled": None}
    bulky = {"ttft_quantiles": [ttft] * 101, "tpot_quantiles": [], "series": {"t": [ttft]}}
    return {**base, **shown, **bulky, "hardware": "h", "versions": {}, **more}


def test_a_median_and_a_ratio_are_over_runs_and_above_one_is_better() -> None:
    arms = report.summary(
        {"plain": [run(4, 10), run(2, 20), run(90, 10)], "vamp": [run(1, 12), run(0.5, 15), run(2, 11)]}
    )
    assert arms["plain"]["median"]["ttft_p90"] == 4
    assert arms["plain"]["series"] == {"t": [4]}
    found = report.ratios(arms)
    assert list(found) == ["vamp against plain"]
    assert found["vamp against plain"]["ttft_p90"] == 4
    assert found["vamp against plain"]["tokens_per_second"] == 1.2
    text = report.table({"arms": arms, "ratios": found})
    assert "vamp against plain" in text
    assert max(len(line) for line in text.splitlines()) < 140
    assert text.endswith("delay of vamp over the best fixed policy, plain: 0.250")
    assert "best fixed policy" not in report.table({"arms": {"vamp": arms["vamp"]}, "ratios": {}})


def test_arms_that_do_not_say_the_same_are_not_compared() -> None:
    (told,) = report.faults({"plain": [run(1, 1)], "vamp": [run(1, 1, forced=False)]})
    assert "plain [True], vamp [False]" in told
    assert report.faults({"plain": [run(1, 1)], "vamp": [run(1, 1)]}) == []
