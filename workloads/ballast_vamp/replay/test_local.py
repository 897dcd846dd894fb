"""What the bench makes of vLLM's asynchronous engine, with a stand-in for the engine."""

import asyncio
import sys
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from ballast_vamp.replay import local, trace
from ballast_vamp.replay.drive import Played, Player
from ballast_vamp.replay.errors import ReplayError
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.trace import Turn

TURNS = [Turn(n, turn, 0.0, 0.0, 4 * turn, 2, 2, 2 * n + turn) for n in range(3) for turn in range(2)]


class StandIn:
    """Says one token at a time; dies after so many, or refuses a request, if told to."""

    def __init__(self, dies_after: int | None = None, refuses: str = "", layers: int = 16) -> None:
        self.dies_after, self.refuses, self.layers = dies_after, refuses, layers
        self.said = 0
        self.salts: set[str | None] = set()
        self.profiles: list[str] = []
        self.resets = [False, True]

    async def generate(self, prompt: Any, parameters: Any, name: str) -> AsyncIterator[Any]:
        self.salts.add(prompt.get("cache_salt"))
        if self.refuses and name.endswith(self.refuses):
            raise ValueError("too long")
        for token in parameters:
            await asyncio.sleep(0)
            self.said += 1
            if self.dies_after is not None and self.said > self.dies_after:
                raise RuntimeError("the engine is dead")
            yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=[token])])

    async def collective_rpc(self, _: str, args: tuple[str]) -> list[int]:
        self.profiles += args
        return [self.layers, self.layers]

    async def reset_prefix_cache(self) -> bool:
        return self.resets.pop(0)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    found = CollectorRegistry()
    module = ModuleType("vllm.v1.metrics.prometheus")
    module.get_prometheus_registry = lambda: found  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(local, "parameters", lambda ask: trace.answer(ask.seed, ask.output, ask.vocabulary))
    return found


def play(stand_in: StandIn, shift: Profile | None = None, salt: str = "") -> Played:
    async def go() -> Played:
        engine = local.LocalEngine(stand_in)
        engine.salt = salt
        return await Player(engine, trace.sessions(TURNS), 320, 0.01, shift).play()

    return asyncio.run(go())


def test_every_turn_is_answered() -> None:
    stand_in = StandIn()
    played = play(stand_in, Profile("flat64", 2), salt="run 1 ")
    assert len(played.turns) == 6
    assert all(said.forced for said in played.turns)
    assert stand_in.profiles == ["flat64#2"]
    assert stand_in.salts == {"run 1 "}


def test_an_engine_that_dies_fails_every_conversation() -> None:
    played = play(StandIn(dies_after=4))
    assert len(played.failures) == 3
    assert all("RuntimeError: the engine is dead" in told for told in played.failures)


def test_a_request_that_is_refused_costs_its_own_session_only() -> None:
    played = play(StandIn(refuses="1-0"))
    assert played.failures == ["session 1, turn 0: ValueError: too long"]
    assert len(played.turns) == 4


def test_a_profile_that_no_layer_asks_for_is_an_error() -> None:
    with pytest.raises(ReplayError, match="profile flat64#2 has no effect"):
        play(StandIn(layers=0), Profile("flat64", 2))


def test_rest_waits_until_experts_are_home_and_prefixes_forgotten(registry: CollectorRegistry) -> None:
    home = Gauge("vamp:expert_bytes_resident", "bytes", registry=registry)
    away = Gauge("vamp:expert_bytes_host", "bytes", registry=registry)
    home.set(6)
    away.set(2)
    stand_in = StandIn()

    async def go() -> dict[str, float]:
        resting = asyncio.create_task(local.LocalEngine(stand_in).rest())
        await asyncio.sleep(0.15)
        assert not resting.done()
        home.set(8)
        away.set(0)
        return await resting

    found = asyncio.run(go())
    assert found["experts_home_share"] == 1.0
    assert 0.15 <= found["rest_seconds"] < 5
    assert stand_in.resets == []


def test_rest_of_an_engine_without_vamp_says_nothing_of_experts() -> None:
    assert "experts_home_share" not in asyncio.run(local.LocalEngine(StandIn()).rest())
