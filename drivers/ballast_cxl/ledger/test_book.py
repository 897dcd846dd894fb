"""The rules of the ledger, with processes that die anywhere, act on old reads, and wake up late."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from ballast_api.cxlblade import CXLBladeStatus, Geometry, ReservationState
from ballast_cxl import placement
from ballast_cxl.grid import Grid
from ballast_cxl.ledger import book

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ME = book.Actor("me", NOW, 10)
YOU = book.Actor("you", NOW, 10)
EMPTY = CXLBladeStatus(geometry=Geometry(channels=2, blocks_per_channel=4, block_size="1Gi"))


def reserved(uid: str = "u1", blocks: tuple[int, ...] = (0, 1), status: CXLBladeStatus = EMPTY) -> CXLBladeStatus:
    return book.reserve(status, ME, uid=uid, namespace="a", name=uid, blocks=blocks, claim=None)


def composed(uid: str = "u1") -> CXLBladeStatus:
    return book.composed(reserved(uid), ME, uid, "m0")


def scrubbed() -> CXLBladeStatus:
    """Overwritten by a node that is still connected."""
    status = book.retire(composed(), "u1", NOW)
    status = book.attached(book.attach(status, ME, "u1", "n1", "p0", scrub=True), ME, "u1", "n1")
    return book.zeroed(status, "u1", entry(status).attachments[0].generation)


def cut_off(status: CXLBladeStatus) -> CXLBladeStatus:
    return book.detached(book.detach(status, ME, "u1", "n1", fence=False), ME, "u1", "n1")


def entry(status: CXLBladeStatus, uid: str = "u1") -> Any:
    found = book.find(status, uid)
    assert found is not None
    return found


def test_a_held_block_is_refused_whatever_the_state_of_its_holder() -> None:
    states = [reserved(), composed(), book.quarantine(composed(), "u1", "x"), book.forgotten(composed(), "u1", "m0")]
    states.append(book.retire(composed(), "u1", NOW))
    for status in states:
        with pytest.raises(book.Overlap, match=r"held by a/u1"):
            reserved("u2", (1, 2), status)


def test_reserving_twice_is_reserving_once() -> None:
    status = reserved()
    assert reserved(status=status) is status


def test_nobody_else_does_what_somebody_is_at() -> None:
    status = reserved()
    with pytest.raises(book.Busy) as busy:
        book.begin(status, YOU, "u1", "Compose")
    assert 8 < busy.value.seconds <= 10


def test_after_its_deadline_an_operation_is_taken_over_and_the_late_one_may_say_nothing() -> None:
    late = book.Actor("you", NOW + timedelta(seconds=11), 10)
    status = book.begin(reserved(), late, "u1", "Compose")
    with pytest.raises(book.Busy, match="taken over"):
        book.composed(status, ME, "u1", "m7")
    assert entry(book.composed(status, late, "u1", "m8")).memory_id == "m8"


def test_a_port_carries_one_region() -> None:
    status = book.attached(book.attach(composed(), ME, "u1", "n1", "p0", scrub=False), ME, "u1", "n1")
    status = book.composed(reserved("u2", (2, 3), status), ME, "u2", "m1")
    with pytest.raises(book.Refused, match="port p0 to node n1 carries another region"):
        book.attach(status, ME, "u2", "n1", "p0", scrub=False)


@pytest.mark.parametrize("change", [lambda b, u: book.forgotten(b, u, "m0"), lambda b, u: book.quarantine(b, u, "x")])
def test_what_is_not_composed_is_not_attached(change: Any) -> None:
    with pytest.raises(book.Refused):
        book.attach(change(composed(), "u1"), ME, "u1", "n1", "p0", scrub=False)


def test_a_region_in_use_is_not_given_up() -> None:
    status = book.attached(book.attach(composed(), ME, "u1", "n1", "p0", scrub=False), ME, "u1", "n1")
    with pytest.raises(book.Refused, match="still connected"):
        book.retire(status, "u1", NOW)


def test_nothing_that_was_composed_is_freed_before_it_is_zeros() -> None:
    for status in (composed(), book.retire(composed(), "u1", NOW), book.quarantine(scrubbed(), "u1", "x")):
        with pytest.raises(book.Refused, match=r"not overwritten with zeros|still connected"):
            book.begin(status, ME, "u1", "Free")
    with pytest.raises(book.Refused, match="still connected"):
        book.begin(scrubbed(), ME, "u1", "Free")
    status = book.begin(cut_off(scrubbed()), ME, "u1", "Free")
    assert book.freed(status, ME, "u1").reservations == []
    lost = book.forgotten(status, "u1", "m0")  # in the middle of it
    with pytest.raises(book.Refused, match="not overwritten with zeros"):
        book.freed(lost, ME, "u1")


def test_only_an_administrator_gives_up_what_is_in_quarantine() -> None:
    status = book.quarantine(composed(), "u1", "Retained")
    with pytest.raises(book.Refused, match="is in quarantine"):
        book.retire(status, "u1", NOW)
    assert entry(book.retire(status, "u1", NOW, let_go=True)).state is ReservationState.SCRUBBING


def test_zeros_that_a_former_connection_wrote_prove_nothing() -> None:
    status = book.retire(composed(), "u1", NOW)
    status = book.attached(book.attach(status, ME, "u1", "n1", "p0", scrub=True), ME, "u1", "n1")
    former = entry(status).attachments[0].generation
    status = book.attach(cut_off(status), ME, "u1", "n1", "p0", scrub=True)
    with pytest.raises(book.Refused, match=f"has connection {former} no more"):
        book.zeroed(status, "u1", former)


def test_a_memory_that_was_not_found_says_nothing_of_the_one_that_came_after_it() -> None:
    status = book.forgotten(book.retire(composed(), "u1", NOW), "u1", "m0")
    status = book.composed(book.begin(status, ME, "u1", "Compose"), ME, "u1", "m1")
    with pytest.raises(book.Busy, match="composed anew, as memory m1"):
        book.forgotten(status, "u1", "m0")


def test_losing_the_memory_while_it_is_overwritten_begins_anew() -> None:
    status = book.forgotten(scrubbed(), "u1", "m0")
    assert (entry(status).state, entry(status).zeroed) == (ReservationState.SCRUBBING, False)


def test_zeros_of_a_region_in_quarantine_prove_nothing() -> None:
    status = book.quarantine(scrubbed(), "u1", "fence failed")
    with pytest.raises(book.Refused, match="zeros prove nothing"):
        book.zeroed(status, "u1", entry(status).attachments[0].generation)


def test_each_connection_has_a_number_of_its_own() -> None:
    status = book.attached(book.attach(composed(), ME, "u1", "n1", "p0", scrub=False), ME, "u1", "n1")
    first = book.port_of(entry(status), "n1")
    status = book.detached(book.detach(status, ME, "u1", "n1", fence=False), ME, "u1", "n1")
    status = book.attach(status, ME, "u1", "n1", "p0", scrub=False)
    second = book.port_of(entry(status), "n1")
    assert first and second and second.generation > first.generation


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"blocks": [0, 1]}, "block 0 is held by"),
        ({"blocks": [99]}, "holds block 99 of 8"),
        ({"generation": 999}, "generation of the future"),
        ({"state": ReservationState.COMPOSED}, "Composed without a memory"),
        ({"uid": "u1"}, "u1 has several entries"),
    ],
)
def test_a_broken_ledger_is_seen(change: dict[str, Any], fault: str) -> None:
    status = reserved("u2", (2, 3), composed())
    broken = [e.model_copy(update=change) if e.uid == "u2" else e for e in status.reservations]
    assert any(fault in found for found in book.faults(status.model_copy(update={"reservations": broken})))


class Races(RuleBasedStateMachine):
    """Three processes without a leader, on one ledger by compare-and-swap, with an appliance that does what it is told.

    A process reads the ledger and acts on that read at some later time; it calls the appliance only with the right to
    do so, may die after any call, and goes on after its deadline only if nobody took over. The appliance composes
    blocks that are in use without a word, so that an overlap would be seen.
    """

    reads = Bundle("reads")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.grid = Grid(2, 8, 1 << 30)
        geometry = Geometry(channels=2, blocks_per_channel=8, block_size="1Gi")
        self.status = CXLBladeStatus(geometry=geometry)
        self.memories: dict[str, frozenset[int]] = {}
        self.dirty: set[int] = set()
        self.made = 0
        self.regions = 0
        self.composes: dict[str, int] = {}

    def commit(self, read: CXLBladeStatus, new: CXLBladeStatus) -> bool:
        """Compare-and-swap."""
        assert book.faults(new) == []
        if read.epoch != self.status.epoch:
            return False
        self.status = new
        return True

    def actor(self, name: int) -> book.Actor:
        return book.Actor(f"process-{name}", self.now, 10)

    @initialize()
    def begin(self) -> None:
        self.status = self.status.model_copy(update={"epoch": 1})

    @rule(target=reads)
    def read(self) -> CXLBladeStatus:
        return self.status

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(read=consumes(reads), who=st.integers(0, 2), rows=st.sampled_from([1, 1, 2, 4]))
    def reserve(self, read: CXLBladeStatus, who: int, rows: int) -> None:
        blocks = placement.contiguous(self.grid, rows * self.grid.row_bytes, book.held(read))
        if blocks is None:
            return
        self.regions += 1
        uid = f"u{self.regions}"
        new = book.reserve(read, self.actor(who), uid=uid, namespace="a", name=uid, blocks=blocks, claim=None)
        self.commit(read, new)

    @rule(read=consumes(reads), who=st.integers(0, 2), which=st.integers(0, 9), dies=st.booleans(), held=st.booleans())
    def compose(self, read: CXLBladeStatus, who: int, which: int, dies: bool, held: bool) -> None:
        """Look, adopt or compose, look, write down. held: with the right from the reservation itself."""
        found = self.pick(read, which, ReservationState.RESERVED, memory=False)
        if found is None:
            return
        actor = self.actor(who)
        if not (held and found.holder == actor.name and found.uid not in self.composes):
            try:
                begun = book.begin(read, actor, found.uid, "Compose")
            except book.Busy:
                return
            if not self.commit(read, begun):
                return
        elif read.epoch != self.status.epoch:
            return
        wanted = frozenset(found.blocks)
        memory = next((name for name, blocks in self.memories.items() if blocks == wanted), None)
        if memory is None:
            self.made += 1
            memory = f"m{self.made}"
            self.memories[memory] = wanted
            self.composes[found.uid] = self.composes.get(found.uid, 0) + 1
        if dies:
            return
        self.write(lambda status: book.composed(status, actor, found.uid, memory))

    @rule(read=consumes(reads), which=st.integers(0, 9))
    def use(self, read: CXLBladeStatus, which: int) -> None:
        """A tenant writes into what the ledger says is its own."""
        found = self.pick(self.status, which, ReservationState.COMPOSED, memory=True)
        if found:
            self.dirty |= set(found.blocks)

    @rule(read=consumes(reads), which=st.integers(0, 9))
    def retire(self, read: CXLBladeStatus, which: int) -> None:
        found = self.pick(read, which, ReservationState.COMPOSED, memory=True)
        if found:
            self.commit(read, book.retire(read, found.uid, self.now))

    @rule(read=consumes(reads), which=st.integers(0, 9))
    def scrub(self, read: CXLBladeStatus, which: int) -> None:
        found = self.pick(self.status, which, ReservationState.SCRUBBING, memory=True)
        if found is None:
            return
        self.dirty -= set(found.blocks)
        try:
            status = book.attach(self.status, self.actor(0), found.uid, "n1", f"p-{found.uid}", scrub=True)
        except (book.Busy, book.Refused):
            return
        status = book.attached(status, self.actor(0), found.uid, "n1")
        connection = book.port_of(entry(status, found.uid), "n1")
        assert connection
        status = book.zeroed(status, found.uid, connection.generation)
        status = book.detach(status, self.actor(0), found.uid, "n1", fence=False)
        self.status = book.detached(status, self.actor(0), found.uid, "n1")

    @rule(read=consumes(reads), who=st.integers(0, 2), which=st.integers(0, 9), dies=st.booleans())
    def free(self, read: CXLBladeStatus, who: int, which: int, dies: bool) -> None:
        actor, candidates = self.actor(who), [e for e in read.reservations if e.zeroed or e.memory_id is None]
        if not candidates:
            return
        found = candidates[which % len(candidates)]
        try:
            begun = book.begin(read, actor, found.uid, "Free")
        except (book.Busy, book.Refused):
            return
        if not self.commit(read, begun):
            return
        wanted = frozenset(found.blocks)
        memory = next((name for name, blocks in self.memories.items() if blocks == wanted), None)
        if found.memory_id is None and memory:
            self.write(lambda status: book.composed(status, actor, found.uid, memory))
            return
        if memory:
            del self.memories[memory]
        if not dies:
            self.write(lambda status: book.freed(status, actor, found.uid))

    def write(self, step: Any) -> None:
        """A change on the newest read, as the store retries it."""
        try:
            new = step(self.status)
        except (book.Busy, book.Refused):
            return
        assert self.commit(self.status, new)

    def pick(self, status: CXLBladeStatus, which: int, state: ReservationState, *, memory: bool) -> Any:
        found = [e for e in status.reservations if e.state is state and (e.memory_id is not None) == memory]
        return found[which % len(found)] if found else None

    @invariant()
    def no_block_is_in_two_memories(self) -> None:
        blocks = [block for memory in self.memories.values() for block in memory]
        assert len(blocks) == len(set(blocks))

    @invariant()
    def every_memory_is_somebodys(self) -> None:
        known = {frozenset(e.blocks) for e in self.status.reservations}
        assert set(self.memories.values()) <= known

    @invariant()
    def each_region_is_composed_once(self) -> None:
        assert all(count == 1 for count in self.composes.values())

    @invariant()
    def what_is_free_is_clean(self) -> None:
        assert self.dirty <= book.held(self.status)


TestRaces = Races.TestCase
TestRaces.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
