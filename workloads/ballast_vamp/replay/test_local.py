"""The loop around vLLM's synchronous engine, with a stand-in for the engine: one thread, and no question left open."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ballast_vamp.replay import local, trace
from ballast_vamp.replay.drive import Played, Player
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.trace import Turn

TURNS = [Turn(n, turn, 0.0, 0.0, 4 * turn, 2, 2, 2 * n + turn) for n in range(3) for turn in range(2)]


class StandIn:
    """Says one token a step to everybody; fails at a step, or refuses a request, if told to."""

    def __init__(self, fails_at: int | None = None, refuses: str = "") -> None:
        self.fails_at, self.refuses = fails_at, refuses
        self.steps = 0
        self.threads: set[int] = set()
        self.said: dict[str, tuple[list[int], int]] = {}
        self.profiles: list[str] = []

    def add_request(self, name: str, _: Any, parameters: Any) -> None:
        self.threads.add(threading.get_ident())
        if name == self.refuses:
            raise ValueError("too long")
        self.said[name] = (parameters, 0)

    def step(self) -> Iterator[Any]:
        self.threads.add(threading.get_ident())
        self.steps += 1
        if self.steps == self.fails_at:
            raise RuntimeError("out of memory")
        outputs = []
        for name, (tokens, count) in list(self.said.items()):
            finished = count + 1 == len(tokens)
            piece = SimpleNamespace(token_ids=[tokens[count]])
            outputs.append(SimpleNamespace(request_id=name, outputs=[piece], finished=finished))
            self.said[name] = (tokens, count + 1)
            if finished:
                del self.said[name]
        return iter(outputs)


@pytest.fixture(autouse=True)
def without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    from prometheus_client import CollectorRegistry

    module = ModuleType("vllm.v1.metrics.prometheus")
    module.get_prometheus_registry = CollectorRegistry  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(local, "parameters", lambda ask: trace.answer(ask.seed, ask.output, ask.vocabulary))


def play(stand_in: StandIn, shift: Profile | None = None) -> Played:
    rpc = lambda method, args: stand_in.profiles.append(args[0])  # noqa: E731
    engine = local.LocalEngine(SimpleNamespace(llm_engine=stand_in, collective_rpc=rpc))
    return engine.play(Player(engine, trace.sessions(TURNS), 320, 0.01, shift).play())


def test_every_turn_is_answered_and_the_engine_stays_on_its_thread() -> None:
    stand_in = StandIn()
    played = play(stand_in, Profile("flat64", 2))
    assert len(played.turns) == 6
    assert all(said.forced for said in played.turns)
    assert stand_in.threads == {threading.get_ident()}
    assert stand_in.profiles == ["flat64#2"]


def test_an_engine_that_fails_fails_every_question_and_ends() -> None:
    played = play(StandIn(fails_at=2))
    assert len(played.turns) < 6
    assert len(played.failures) == 3
    assert all("RuntimeError: out of memory" in told for told in played.failures)


def test_a_request_that_is_refused_costs_its_own_session_only() -> None:
    played = play(StandIn(refuses="1-0"))
    assert played.failures == ["session 1, turn 0: ValueError: too long"]
    assert len(played.turns) == 4


def test_conversations_that_fail_end_the_engine_too() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("a bug")

    engine = local.LocalEngine(SimpleNamespace(llm_engine=StandIn()))
    with pytest.raises(KeyError, match="a bug"):
        engine.play(fail())
