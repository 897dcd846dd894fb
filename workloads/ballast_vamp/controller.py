"""When pages move. Asked before every step, and when a request finds no block; free of vLLM, so that tests need none.

pressure    free blocks without a prefix will not last: the cheapest of four options is taken, a chunk at a time.
            An order is prepared in one step and committed before the next, so that copies run beside a step.
emergency   a request is about to be preempted or left waiting: prepared and committed at once.
quiet       little of the cache is in use for some seconds: blocks are taken back from the top, experts come home.
swap        an expert on the host is hotter than one at home.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ballast_vamp import cost
from ballast_vamp.balloon import Balloon
from ballast_vamp.commit import Coordinator, Outcome, Result, grow, shrink
from ballast_vamp.cost import Link, Mix, Option, Outlook, Prefill, Pressure
from ballast_vamp.learn import Fading
from ballast_vamp.metrics import Metrics
from ballast_vamp.rank import Direction, Order
from ballast_vamp.reasons import Reason

LOW_USAGE = 0.6
QUIET_SECONDS = 5.0
OBSERVE_SECONDS = 0.5
CALM_SECONDS = 5.0  # between two looks while nothing presses: each waits for the workers
HOME_SECONDS = 60.0  # an engine without requests steps for its experts' sake no longer than that
DWELL_SECONDS = 2.0  # between a grow and a shrink, either way
DWELL_COMMITS = 10  # or so many times what a commit takes
BACK_OFF_SECONDS = 1.0  # after a failure, doubled up to
BACK_OFF_MOST = 30.0
FLAT = 0.05  # share of the traffic on the coldest quarter of the bytes, above which nothing is cold enough
HANDLE_SECONDS = 67e-6
NEVER = float("-inf")
NOTHING = 0.05  # request-seconds that are not worth a thought
HORIZON_SECONDS = 30.0
IDLE_GAP_MOST = 4.0  # without any request, prefixes are given up within half a minute even where gaps were long


@dataclass(frozen=True)
class Shape:
    """Of the engine. step: blocks of a chunk. block_bytes: over all layers."""

    step: int
    block_tokens: int
    block_bytes: int
    dry: bool = False
    always: bool = False  # prices are shown, and not heeded


@dataclass(frozen=True)
class Now:
    """What the scheduler sees. need: blocks that will be wanted in the next second or so."""

    running: int
    waiting: int
    need: int
    context: float
    mix: Mix
    prefill: Prefill
    reuse: float
    gap: float
    held: float | None = None  # share of evicted blocks that a KV connector had when they were asked for; None: no such


def _nobody(_: range) -> bool:
    return False


@dataclass
class Controller:
    """observe asks the ranks for an Outlook on so many more blocks. copiers tells who copies from blocks that no
    request holds that these are about to lose their memory, and says whether there is anybody; they are done with it
    when the step that follows was launched."""

    balloon: Balloon
    coordinator: Coordinator
    observe: Callable[[Mix, int], Outlook]
    shape: Shape
    dma: float
    zero_copy: float
    metrics: Metrics = field(default_factory=Metrics)
    clock: Callable[[], float] = time.monotonic
    copiers: Callable[[range], bool] = _nobody

    def __post_init__(self) -> None:
        self.outlook: Outlook | None = None
        self.flat = False
        self.handle = Fading(HANDLE_SECONDS)
        self.horizon = Fading(HORIZON_SECONDS)
        self.home = self.balloon.physical
        self._observed = self._grew = self._shrank = NEVER
        self._quiet_since, self._pressed_since, self._active = -NEVER, NEVER, NEVER
        self._retry_at = dict.fromkeys(Direction, NEVER)  # one that cannot be done does not hold up the others
        self._back_off = dict.fromkeys(Direction, BACK_OFF_SECONDS)
        self._settle = False  # ranks may have memory that no block is handed out for: experts could come home
        self._decided: tuple[float, Option] = (NEVER, Option.NONE)

    # --- before every step

    def tick(self, now: Now) -> None:
        """Finish what was prepared, then look whether anything should move."""
        at = self.clock()
        if self.coordinator.pending:
            self._commit()
            return
        stirring = self.balloon.physical > self.home or self._pressed_since > NEVER
        if at - self._observed >= (OBSERVE_SECONDS if stirring else CALM_SECONDS):
            self.look(now)
        pressed = self.balloon.blank(now.need) < now.need
        self._follow(pressed, at)
        if now.running or now.waiting:
            self._active = at
        if pressed:
            if self.balloon.shrinking:
                self.balloon.cancel_shrink()
            self._grow_ahead(now, at)
        elif self.balloon.shrinking:
            if self.balloon.sweep() and self._copied():
                self.balloon.finish_shrink()
                self._start(shrink(self.balloon.physical))
        elif not self.shape.dry and self._quiet(at) and at >= self._retry_at[Direction.SHRINK]:
            self._come_home(now, at)
        self._swap(at)

    def _swap(self, at: float) -> None:
        """Exchange hot experts on the host for cold ones at home, if that pays and nothing else moves."""
        idle = not self.coordinator.pending and not self.balloon.shrinking and not self.shape.dry
        if idle and self.outlook is not None and self.outlook.swaps and at >= self._retry_at[Direction.SWAP]:
            self._start(Order(Direction.SWAP, self.balloon.physical))

    def busy(self) -> bool:
        """Whether experts are still on their way home, so that an idle engine must go on stepping."""
        away = bool(self.coordinator.pending) or self.balloon.physical > self.home or self._settle
        return away and not self.shape.dry and self.clock() - self._quiet_since < HOME_SECONDS

    def _copied(self) -> bool:
        """Whether nobody copies from the held blocks any more. Who might is told once, and asked for no answer."""
        if self.balloon.told:
            return True
        self.balloon.told = True
        return not self.copiers(range(self.balloon.cut, self.balloon.physical))

    def _come_home(self, now: Now, at: float) -> None:
        """Take the next blocks back, or, where none is left to take, bring home what a failure left on the host."""
        if self.balloon.physical > self.home:
            cut = max(self.home, self.balloon.physical - self.shape.step)
            if self._lost_prefixes(now, cut, at) <= self._saved_reads(now, cut) + NOTHING:
                self.balloon.begin_shrink(cut)
            else:  # what is cached there is counted block by block: not in every step
                self._retry_at[Direction.SHRINK] = at + OBSERVE_SECONDS
        elif self._settle:
            self._start(shrink(self.balloon.physical))

    def _lost_prefixes(self, now: Now, cut: int, at: float) -> float:
        """Request-seconds to compute what is cached from `cut` on; half as likely after each gap without requests."""
        chance: float = now.reuse * 2.0 ** -((at - self._active) / min(max(now.gap, 0.1), IDLE_GAP_MOST))
        tokens = self.balloon.cached_above(cut) * self.shape.block_tokens
        return chance * (1 + now.running + now.waiting) * now.prefill.seconds(tokens, now.context)

    def _saved_reads(self, now: Now, cut: int) -> float:
        """Request-seconds that steps would no longer wait for the experts which come home with these blocks."""
        if self.outlook is None:
            return 0.0
        part = (self.balloon.physical - cut) / max(1, self.balloon.physical - self.home)
        read = now.mix.decode_rate * self.outlook.decode_now + now.mix.prefill_rate * self.outlook.prefill_now
        return now.running * self.horizon.value * part * read / self.zero_copy

    def _quiet(self, at: float) -> bool:
        return at - self._quiet_since >= QUIET_SECONDS and at - self._grew >= DWELL_SECONDS

    def _follow(self, pressed: bool, at: float) -> None:
        """Learn how long pressure lasts, and how long it has been quiet."""
        low = not pressed and self.balloon.usage < LOW_USAGE
        if pressed and self._pressed_since == NEVER:
            self._pressed_since = at
        elif low and self._pressed_since > NEVER:
            self.horizon.add(max(1.0, at - self._pressed_since))
            self._pressed_since = NEVER
        self._quiet_since = min(self._quiet_since, at) if low else -NEVER

    def look(self, now: Now) -> None:
        """Ask the ranks what the next chunk would bring."""
        before, self._observed = self._observed, self.clock()
        self.outlook = self.observe(now.mix, self.shape.step)
        self.flat = self.outlook.learned and self.outlook.flat > FLAT
        if before > NEVER:
            read = now.mix.decode_rate * self.outlook.decode_now + now.mix.prefill_rate * self.outlook.prefill_now
            if now.running:
                self.metrics.add("vamp:cold_bytes_read", read * (self._observed - before))

    # --- growing

    def _grow_ahead(self, now: Now, at: float) -> None:
        commit = self.handle.value * (self.outlook.handles if self.outlook else 0)
        dwell = max(DWELL_SECONDS, DWELL_COMMITS * commit)
        if (
            at < self._retry_at[Direction.GROW]
            or at - self._shrank < dwell
            or (not self.balloon.parked and not self.shape.dry)
        ):
            return
        if self._decide(now, cached=True) is Option.OFFLOAD and not self.shape.dry:
            self._start(grow(min(self.balloon.physical + self.shape.step, self.balloon.virtual)))

    def emergency(self, now: Now, victim_tokens: int, victim_blocks: int) -> bool:
        """A request found no block. Returns whether there are more now; if not, it is preempted or waits."""
        at = self.clock()
        if self.shape.dry or at < self._retry_at[Direction.GROW] or not self.balloon.parked:
            if self.shape.dry:
                self._decide(now, cached=False, victim=(victim_tokens, victim_blocks))
            return False
        if self.balloon.shrinking:
            self.balloon.cancel_shrink()
            return True
        if self.coordinator.pending and self.coordinator.pending[0].order.direction is Direction.GROW:
            return self._commit()
        if self.outlook is None or not self.outlook.blocks or not self.outlook.learned:
            self.look(now)
        if self._decide(now, cached=False, victim=(victim_tokens, victim_blocks)) is not Option.OFFLOAD:
            return False
        return self.grow(self.shape.step) > 0

    def grow(self, blocks: int) -> int:
        """Offload for so many more blocks, now; returns how many were handed out."""
        before = self.balloon.physical
        if self.balloon.shrinking:
            self.balloon.cancel_shrink()
        order = grow(min(before + blocks, self.balloon.virtual))
        self._take(order.direction, self.coordinator.carry_out(order))
        return self.balloon.physical - before

    def _decide(self, now: Now, cached: bool, victim: tuple[int, int] = (0, 0)) -> Option:
        """The cheapest option for one more chunk. Its prices go to the metrics; the option is counted."""
        outlook = self.outlook
        if outlook is None or not outlook.learned or not outlook.blocks:
            return self._count(Option.NONE if not victim[1] else Option.PREEMPT)
        pressure = Pressure(
            running=now.running,
            waiting=now.waiting,
            horizon=self.horizon.value,
            tokens=outlook.blocks * self.shape.block_tokens,
            context=now.context,
            reuse=now.reuse,
            gap=now.gap,
            cached=cached,
            victim_tokens=victim[0],
            victim_blocks=victim[1],
            wait=self._wait(now),
            fetch_bytes=None if now.held is None else outlook.blocks * self.shape.block_bytes,
            held=1.0 if now.held is None else now.held,
        )
        link = Link(self.zero_copy, self.dma, self.handle.value)
        prices = cost.costs(now.mix, link, outlook, pressure, now.prefill)
        for option, price in prices.items():
            self.metrics.set("vamp:decision_cost_seconds", price, option=option)
        return self._count(Option.OFFLOAD if self.shape.always else cost.choose(prices))

    def _wait(self, now: Now) -> float:
        """Seconds a preempted request waits for blocks again: about as long as it took others to give some up."""
        return now.gap / max(1, now.running)

    def _count(self, option: Option) -> Option:
        """Count a decision once for as long as it stays the same within an observation."""
        at, last = self._decided
        if option is not last or self.clock() - at >= OBSERVE_SECONDS:
            self._decided = (self.clock(), option)
            self.metrics.add("vamp:decision", option=option)
        return option

    def shrink(self, blocks: int) -> int:
        """Take so many blocks back, now, if no request holds one of them and nobody may copy from one; returns how many
        were."""
        before = self.balloon.physical
        target = max(self.home, before - blocks)
        if self.balloon.shrinking:
            self.balloon.cancel_shrink()
        if target == before:
            return 0
        self.balloon.begin_shrink(target)
        if not self.balloon.sweep() or not self._copied():
            self.balloon.cancel_shrink()
            return 0
        self.balloon.finish_shrink()
        order = shrink(target)
        self._take(order.direction, self.coordinator.carry_out(order))
        return before - self.balloon.physical

    # --- orders

    def _start(self, order: Order) -> None:
        """Have an order prepared; it is committed before the next step."""
        outcome = self.coordinator.prepare(order)
        if outcome is not None:
            self._take(order.direction, outcome)

    def _commit(self) -> bool:
        direction = self.coordinator.pending[0].order.direction
        return self._take(direction, self.coordinator.commit())

    def _take(self, direction: Direction, outcome: Outcome) -> bool:
        """Hand out what an order brought, or wait before the next one. Returns whether blocks were handed out."""
        ok, new = outcome.result is Result.OK, 0
        if ok and direction is Direction.GROW:
            new = self.balloon.unpark(outcome.capacity)
        self._record(direction, outcome, new)
        if direction is Direction.SHRINK:
            self._shrank = self.clock()
            self._settle = not ok or outcome.changed
        elif not ok:
            self._settle = True
        if not ok or (direction is not Direction.SHRINK and not outcome.changed and not new):
            self._retry_at[direction] = self.clock() + self._back_off[direction]
            self._back_off[direction] = min(2 * self._back_off[direction], BACK_OFF_MOST)
            return False
        self._back_off[direction] = BACK_OFF_SECONDS
        self._observed = NEVER  # what was asked before has come to pass
        if new:
            self._grew = self.clock()
        return new > 0

    def _record(self, direction: Direction, outcome: Outcome, new: int) -> None:
        if outcome.changed or new or outcome.result is not Result.OK:
            self.metrics.add("vamp:repartition", direction=direction, result=outcome.result)
            self.metrics.observe("vamp:repartition_seconds", outcome.prepare, phase="prepare")
        elif direction is Direction.GROW:
            self.metrics.add("vamp:repartition", direction=direction, result=Result.REFUSED)
        if outcome.changed:
            self.metrics.observe("vamp:repartition_seconds", outcome.stall, phase="stall")
            self.handle.add(outcome.stall / max(1, outcome.handles))

    def reason(self) -> tuple[Reason, str] | None:
        """Why VAMP stays out for now, if it does."""
        if self.shape.dry:
            return Reason.DRY_RUN, "VAMP_MODE is DryRun: decisions are made and shown, and memory is left alone"
        if self.flat and self.outlook is not None and self.balloon.physical <= self.home:
            share = round(100 * self.outlook.flat, 1)
            words = f"the coldest quarter of the experts takes {share} % of the tokens; none is cold enough to move"
            return Reason.ROUTING_TOO_FLAT, words
        return None
