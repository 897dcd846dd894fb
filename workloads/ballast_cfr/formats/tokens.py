"""The words of an .efg file, each with the place it stands at."""

import re
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ballast_cfr.errors import BadInputError

STRING, BRACE, WORD, END = "string", "brace", "word", "end"

# Nothing here is tried again in another way (+ after a repetition): what could be would be remembered, for each
# character of a text that never ends.
_TOKEN = re.compile(r'[\s,]*+(?:"((?:[^"\\]++|\\.)*+)"|([{}])|([^\s{}",]++))', re.DOTALL)
_BLANK = re.compile(r"[\s,]*+")
_SHOWN = 60  # characters of a word in a message


class Token(NamedTuple):
    """A word: its kind, its text (strings without their quotes), and where it starts."""

    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        shown = clip(self.text)
        return {END: "the end of the file", STRING: f'"{shown}"'}.get(self.kind, shown)


def clip(text: str) -> str:
    """A word from the file as a message shows it: on one line, and not all of it if it is long."""
    line = " ".join(text[: _SHOWN + 1].split())
    return line if len(text) <= _SHOWN else line[:_SHOWN] + "..."


class Tokens:
    """Reads words one after the other; commas are blanks."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.text = self._decode(content)
        self._at = 0
        self.next = self._read()

    def _decode(self, content: bytes) -> str:
        try:
            return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as broken:
            self.text = content[: broken.start].decode("utf-8-sig", "replace")
            message = f"the file is not UTF-8 text (byte 0x{content[broken.start]:02x})"
            raise self.error(len(self.text), message) from broken

    def _read(self) -> Token:
        match = _TOKEN.match(self.text, self._at)
        if match is None:
            rest = _BLANK.match(self.text, self._at)
            at = rest.end() if rest else self._at
            if at < len(self.text):
                raise self.error(at, "this quotation mark is never closed; the file seems cut off")
            return Token(END, "", at)
        self._at = match.end()
        if match[1] is not None:
            return Token(STRING, match[1].replace('\\"', '"'), match.start(1) - 1)
        return Token(BRACE, match[2], match.start(2)) if match[2] else Token(WORD, match[3], match.start(3))

    def take(self, kind: str, what: str, text: str | None = None) -> Token:
        """The next word, which must be of a kind (and text); `what` says in an error what was expected."""
        token = self.next
        if token.kind != kind or (text is not None and token.text != text):
            raise self.error(token.at, f"expected {what}, found {token}")
        self.next = self._read()
        return token

    def skip(self, kind: str, text: str | None = None) -> Token | None:
        """The next word if it is of a kind (and text), else None."""
        token = self.next
        if token.kind != kind or (text is not None and token.text != text):
            return None
        self.next = self._read()
        return token

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of a place, both from 1."""
        line = bisect_right(self._line_starts, at)
        return line, at - self._line_starts[line - 1] + 1

    def positions(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, 2) lines and columns of places (n,)."""
        starts = np.array(self._line_starts)
        line = np.searchsorted(starts, places, side="right")
        return np.stack([line, places - starts[line - 1] + 1], axis=1)

    def error(self, at: int, message: str) -> BadInputError:
        """What to raise for a place in the file."""
        line, column = self.position(at)
        return BadInputError(f"game {self.name}, line {line}, column {column}: {message}")
