"""The queue keeps its promises whatever the order of calls."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ballast_operator.queue import LONGEST_BACKOFF, Queue


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """Against a model: which keys owe a visit, and which are held."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.queue: Queue[str] = Queue(self.clock)
        self.owed: set[str] = set()
        self.later: dict[str, float] = {}
        self.held: set[str] = set()

    def teardown(self) -> None:
        self.loop.close()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)

    @rule(key=KEYS, seconds=st.integers(1, 20))
    def add_after(self, key: str, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self.later[key] = self.clock.now + seconds

    @rule(seconds=st.integers(1, 15))
    def pass_time(self, seconds: int) -> None:
        self.clock.now += seconds
        for due in [key for key, when in self.later.items() if when <= self.clock.now]:
            self.owed.add(due)
            del self.later[due]

    def ready(self) -> set[str]:
        return self.owed - self.held

    @precondition(lambda self: self.ready())
    @rule()
    def get(self) -> None:
        key = self.loop.run_until_complete(asyncio.wait_for(self.queue.get(), 1))
        assert key in self.ready(), "handed out a key that nobody asked for, or that a worker holds"
        self.owed.discard(key)
        self.held.add(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), well=st.booleans())
    def finish(self, data: st.DataObject, well: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.held.discard(key)
        if well:
            self.queue.done(key)
        else:
            self.later[key] = self.clock.now + self.queue.failed(key)

    @invariant()
    def nothing_is_lost(self) -> None:
        if not self.ready():
            with pytest.raises(asyncio.TimeoutError):
                self.loop.run_until_complete(asyncio.wait_for(self.queue.get(), 0.001))


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


async def test_a_key_added_while_held_comes_again_once() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


def test_failures_wait_longer_each_time_and_success_forgets_them() -> None:
    queue: Queue[str] = Queue(Clock())
    pauses = [queue.failed("a") for _ in range(30)]
    assert pauses[0] < 0.3 and pauses[1] < 0.6
    assert LONGEST_BACKOFF * 0.8 <= pauses[-1] <= LONGEST_BACKOFF * 1.2
    assert queue.failed("a", 30) <= 36
    queue.done("a")
    assert queue.failed("a") < 0.3


async def test_a_stuck_worker_and_a_waiting_key_show() -> None:
    clock = Clock()
    queue: Queue[str] = Queue(clock)
    queue.add("a")
    clock.now = 7
    assert queue.oldest_wait() == 7
    await queue.get()
    clock.now = 12
    assert (queue.oldest_wait(), queue.longest_hold()) == (0, 5)
