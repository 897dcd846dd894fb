"""Play a trace against one engine: sessions arrive by the clock, and each waits for its own answers.

Open loop between sessions, closed loop within one, as agents are: a slow engine does not keep new users away, but it
does keep a user from asking the next question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from ballast_vamp.replay import trace
from ballast_vamp.replay.profiles import Profile
from ballast_vamp.replay.trace import Session, Turn


@dataclass(frozen=True)
class Ask:
    """One request. seed: of the recorded answer, which has `output` tokens."""

    name: str
    prompt: Sequence[int]
    output: int
    seed: int
    vocabulary: int

    @property
    def recorded(self) -> dict[str, int]:
        """Which answer it is, as `forced.Forced` reads it from the request."""
        return {"replay_seed": self.seed, "replay_length": self.output, "replay_vocabulary": self.vocabulary}


class Engine(Protocol):
    """What the bench needs of an engine, here or elsewhere."""

    def ask(self, request: Ask) -> AsyncIterator[Sequence[int]]:
        """Token ids of the answer as they come. Raises EngineError if it does not come to an end."""

    async def metrics(self) -> str:
        """The engine's numbers in Prometheus' text format."""

    async def change_profile(self, profile: Profile) -> None:
        """Route by another profile from now on."""


class EngineError(Exception):
    """The engine refused a request, or did not finish it."""


@dataclass(frozen=True)
class Said:
    """One turn as it went, in seconds. ttft: from the moment it was due to its first token; tpot: mean time between
    later tokens, None for an answer that came in one piece; forced: whether the engine said what was recorded."""

    session: int
    turn: int
    due: float
    ttft: float
    tpot: float | None
    end: float
    tokens: int
    forced: bool


@dataclass
class Played:
    """A trace as it went. samples: (seconds since the start, metrics page)."""

    turns: list[Said] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    samples: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Player:
    """One run. shift: the profile to change to when half of the turns are over."""

    engine: Engine
    sessions: Sequence[Session]
    vocabulary: int
    every: float = 0.5  # seconds between samples
    shift: Profile | None = None
    played: Played = field(default_factory=Played)
    _start: float = 0.0

    async def play(self) -> Played:
        self._start = time.perf_counter()
        await self._sample()
        sampling = asyncio.create_task(self._sampling())
        try:
            await asyncio.gather(*(self._session(said) for said in self.sessions))
            self.played.seconds = self._now()
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling
        await self._sample()
        return self.played

    def _now(self) -> float:
        return time.perf_counter() - self._start

    async def _session(self, said: Session) -> None:
        await asyncio.sleep(max(0.0, said[0].arrival_s - self._now()))
        history = trace.shared_prefix(said[0].prefix_tokens, self.vocabulary)
        for turn in said:
            if turn.turn:
                await asyncio.sleep(turn.gap_s)
            history += trace.appended(turn, self.vocabulary)
            try:
                await self._turn(turn, history)
            except EngineError as error:  # the rest of the conversation would ask for something else
                self.played.failures.append(f"session {turn.session}, turn {turn.turn}: {error}")
                return
            history += trace.answer(turn.seed, turn.output_tokens, self.vocabulary)

    async def _turn(self, turn: Turn, prompt: Sequence[int]) -> None:
        name = f"{turn.session}-{turn.turn}"
        request = Ask(name, list(prompt), turn.output_tokens, turn.seed, self.vocabulary)
        due, first, early, came = self._now(), 0.0, 0, list[int]()
        async for tokens in self.engine.ask(request):
            if tokens and not came:
                first, early = self._now(), len(tokens)
            came += tokens
        end = self._now()
        if len(came) != turn.output_tokens:
            raise EngineError(f"{len(came)} tokens came instead of {turn.output_tokens}")
        later = len(came) - early
        forced = came == trace.answer(turn.seed, turn.output_tokens, self.vocabulary)
        tpot = (end - first) / later if later else None
        said = Said(turn.session, turn.turn, due, first - due, tpot, end, len(came), forced)
        self.played.turns.append(said)
        if self.shift and 2 * len(self.played.turns) >= sum(len(said) for said in self.sessions):
            shift, self.shift = self.shift, None
            await self.engine.change_profile(shift)

    async def _sampling(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            await self._sample()

    async def _sample(self) -> None:
        now = self._now()
        self.played.samples.append((now, await self.engine.metrics()))
