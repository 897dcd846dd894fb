"""The steps in which a rank moves pages, in order. A failure at any of them is undone or kept, never half done."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """prepare changes no mapping of the model or the cache; the others run on the idle device."""

    PREPARE = "prepare"
    SYNCHRONIZE = "synchronize"
    EXPERT = "expert"
    KV = "kv"
    ZERO = "zero"
    REPLY = "reply"
