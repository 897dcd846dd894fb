"""A list of inverses: what was done can be undone, in the opposite order, from any point at which it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Unrecoverable(Exception):
    """An inverse failed: addresses that kernels will read may have no memory. The process must end."""


class Journal:
    """What was done since it was made."""

    def __init__(self) -> None:
        self._inverses: list[Callable[[], object]] = []

    def do(self, action: Callable[[], T], inverse: Callable[[], object]) -> T:
        """Do something; its inverse is kept if it succeeded."""
        result = action()
        self._inverses.append(inverse)
        return result

    def undo(self) -> None:
        """Undo everything, the last first. Raises Unrecoverable if that fails."""
        while self._inverses:
            inverse = self._inverses.pop()
            try:
                inverse()
            except Exception as error:
                raise Unrecoverable(f"undoing a change of mappings failed: {error}") from error
