"""What to give up under pressure: four prices in one currency, request-seconds of delay, for the same blocks of cache.

Let dB be the blocks that one chunk of experts would give, R running and Q waiting requests, H the seconds that
pressure is expected to last, W(T) cold bytes read by a step of T tokens, lambda_T such steps a second.

    offload  R (copied / BW_dma + handles t_vmm) + R H sum_T lambda_T (W_after(T) - W_before(T)) / BW_zc
    evict    P (1 + R + Q) t_pf(tokens(dB), ctx) max(1, H / gap)      each kept block saves a prefill at every reuse
    preempt  dB / blocks(victim) ((1 + R) t_pf(computed(victim)) + wait)
    fetch    P (1 + R) bytes(dB) / BW_dma max(1, H / gap)             where a KV connector keeps copies elsewhere;
             the part of the blocks that it no longer has when they are asked for costs what evicting them does

P is how often an evicted block is asked for again and gap how soon; both are measured, as all others are. Offloading
is done only where it is a fifth cheaper than the best alternative, since it is the one that takes time to undo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MARGIN = 0.8


class Option(StrEnum):
    """What can be given up; `none` where nothing has to be."""

    OFFLOAD = "offload"
    EVICT = "evict"
    PREEMPT = "preempt"
    FETCH = "fetch"
    NONE = "none"


@dataclass(frozen=True)
class Mix:
    """Steps as they are now: new tokens of a step, and steps a second, without prompts and with them."""

    decode_tokens: float
    decode_rate: float
    prefill_tokens: float
    prefill_rate: float


@dataclass(frozen=True)
class Link:
    """The way to host memory. zero_copy, dma: bytes/s. handle: seconds to remap one."""

    zero_copy: float
    dma: float
    handle: float


@dataclass(frozen=True)
class Outlook:
    """What a rank says the next chunk would bring. Cold bytes read by a step: now and after; blocks gained.

    learned: whether routing was seen long enough. flat: share of the traffic on the coldest quarter of the bytes.
    away: bytes of experts on the host. swaps: pairs that are worth an exchange.
    """

    blocks: int
    handles: int
    copied: int
    decode_now: float
    decode_after: float
    prefill_now: float
    prefill_after: float
    learned: bool
    flat: float
    away: int = 0
    swaps: int = 0


@dataclass(frozen=True)
class Pressure:
    """The engine's side. tokens: of dB blocks. reuse, gap: P and seconds. victim: tokens and blocks it would free."""

    running: int
    waiting: int
    horizon: float
    tokens: int
    context: float
    reuse: float
    gap: float
    cached: bool  # whether cached blocks would have to go
    victim_tokens: int = 0
    victim_blocks: int = 0
    wait: float = 0.0
    fetch_bytes: int | None = None  # of dB blocks, where a connector could bring them back
    held: float = 1.0  # share of the evicted blocks that were asked for again that it still had


@dataclass(frozen=True)
class Prefill:
    """Seconds to compute n tokens at a context: linear n + attention n context."""

    linear: float
    attention: float

    def seconds(self, tokens: float, context: float) -> float:
        return self.linear * tokens + self.attention * tokens * context


def read_seconds(mix: Mix, link: Link, outlook: Outlook) -> float:
    """Seconds a second that steps would wait longer for cold experts, were the next chunk offloaded."""
    decode = mix.decode_rate * (outlook.decode_after - outlook.decode_now)
    prefill = mix.prefill_rate * (outlook.prefill_after - outlook.prefill_now)
    return (decode + prefill) / link.zero_copy


def costs(mix: Mix, link: Link, outlook: Outlook, pressure: Pressure, prefill: Prefill) -> dict[Option, float]:
    """The price of each option that there is."""
    p = pressure
    others = 1 + p.running + p.waiting
    running = max(p.running, 1)
    again = max(1.0, p.horizon / max(p.gap, 1e-3))
    once = outlook.copied / link.dma + outlook.handles * link.handle
    prices = {Option.OFFLOAD: running * (once + p.horizon * read_seconds(mix, link, outlook))}
    if p.cached:
        prices[Option.EVICT] = p.reuse * others * prefill.seconds(p.tokens, p.context) * again
        if p.fetch_bytes is not None:
            fetched = p.reuse * (1 + p.running) * p.fetch_bytes / link.dma * again
            prices[Option.FETCH] = p.held * fetched + (1 - p.held) * prices[Option.EVICT]
    if p.victim_blocks:
        one = (1 + p.running) * prefill.seconds(p.victim_tokens, p.victim_tokens / 2) + p.wait
        prices[Option.PREEMPT] = max(1.0, outlook.blocks / p.victim_blocks) * one
    return prices


def choose(prices: Mapping[Option, float]) -> Option:
    """The cheapest; offloading only by a margin. Eviction and fetching are what vLLM does by itself."""
    rest = {option: price for option, price in prices.items() if option is not Option.OFFLOAD}
    if not rest:
        return Option.OFFLOAD if Option.OFFLOAD in prices else Option.NONE
    best = min(rest, key=lambda option: rest[option])
    if Option.FETCH in rest and Option.EVICT in rest:  # a block that a connector holds is fetched, not computed
        best = min((best, Option.FETCH), key=lambda option: rest[option])
    return Option.OFFLOAD if prices.get(Option.OFFLOAD, float("inf")) <= MARGIN * rest[best] else best
