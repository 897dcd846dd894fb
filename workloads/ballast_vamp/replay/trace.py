"""A trace: conversations as numbers, one turn a line, from which the same token ids always come.

A turn's prompt is everything that its session said before, answers included, and `append_tokens` new ones. The answer
is `output_tokens` recorded ids, whatever a model would say: so prompts, prefixes and lengths are the same in every arm.
A first turn with `prefix_tokens` begins with a prefix that all sessions of the trace share, as a system prompt is.
Sessions arrive by the clock (`arrival_s`); within one, a turn follows `gap_s` after the end of the one before.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ballast_vamp.replay.errors import BadInputError

FIRST_ID = 3  # below are the specials of most tokenizers
SECONDS_A_TOKEN = 0.02  # of an unhurried engine, from which the demand for KV is reckoned


@dataclass(frozen=True)
class Turn:
    """One question and its answer. arrival_s: of its session, after the start; gap_s: after the turn before."""

    session: int
    turn: int
    arrival_s: float
    gap_s: float
    prefix_tokens: int
    append_tokens: int
    output_tokens: int
    seed: int

    @property
    def prompt_tokens(self) -> int:
        return self.prefix_tokens + self.append_tokens

    @property
    def context_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


Session = Sequence[Turn]


def ids(key: str, count: int, vocabulary: int) -> list[int]:
    """`count` token ids below `vocabulary`, always the same for a key. Shorter draws are beginnings of longer ones."""
    return random.Random(key).choices(range(FIRST_ID, vocabulary), k=count)


def shared_prefix(count: int, vocabulary: int) -> list[int]:
    """What every session of a trace begins with."""
    return ids("shared prefix", count, vocabulary)


def appended(turn: Turn, vocabulary: int) -> list[int]:
    """The new tokens of the turn's prompt."""
    return ids(f"{turn.seed} asks", turn.append_tokens, vocabulary)


def answer(seed: int, count: int, vocabulary: int) -> list[int]:
    """The recorded answer of the turn with this seed."""
    return ids(f"{seed} answers", count, vocabulary)


def sessions(turns: Iterable[Turn]) -> list[Session]:
    """Turns by session, in order of arrival. Raises BadInputError where a session does not continue itself."""
    found: dict[int, list[Turn]] = {}
    for turn in turns:
        said = found.setdefault(turn.session, [])
        expected = said[-1].context_tokens if said else turn.prefix_tokens
        if turn.turn != len(said) or turn.prefix_tokens != expected:
            raise BadInputError(
                f"trace: session {turn.session}, turn {turn.turn} has prefix_tokens {turn.prefix_tokens}, but what was "
                f"said before it are {len(said)} turns and {expected} tokens; put the session's turns in order"
            )
        said.append(turn)
    if not found:
        raise BadInputError("trace: no turn in it; make one with `python -m ballast_vamp trace`")
    return sorted(found.values(), key=lambda said: (said[0].arrival_s, said[0].session))


def largest_context(turns: Iterable[Turn]) -> int:
    """Tokens of the longest prompt with its answer."""
    return max(turn.context_tokens for turn in turns)


def demand(turns: Iterable[Turn]) -> int:
    """Most tokens of KV that sessions under way have at one time, if every answer takes SECONDS_A_TOKEN a token.

    A session holds its whole context from its arrival to its last answer, thinking times included; a prefix that all
    share counts once. This is what an engine must keep to never compute a token twice.
    """
    steps: list[tuple[float, int]] = []
    shared = 0
    for said in sessions(turns):
        now, shared = said[0].arrival_s, said[0].prefix_tokens
        for turn in said:
            now += turn.gap_s if turn.turn else 0.0
            steps.append((now, turn.append_tokens + turn.output_tokens))
            now += turn.output_tokens * SECONDS_A_TOKEN
        steps.append((now, shared - said[-1].context_tokens))
    held = most = 0
    for _, change in sorted(steps):
        held += change
        most = max(most, held)
    return most + shared


def write(path: Path, turns: Iterable[Turn]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(asdict(turn)) + "\n" for turn in turns))


def read(path: Path) -> list[Turn]:
    """The turns of a file. Raises BadInputError with the line that is none."""
    if not path.is_file():
        raise BadInputError(f"trace {path} does not exist; make one with `python -m ballast_vamp trace`")
    return [_turn(path, number, line) for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip()]


_INTEGERS = ("session", "turn", "prefix_tokens", "append_tokens", "output_tokens", "seed")


def _turn(path: Path, number: int, line: str) -> Turn:
    try:
        found = json.loads(line)
        turn = Turn(**{field.name: found[field.name] for field in fields(Turn)})
    except (ValueError, TypeError, KeyError) as error:
        names = ", ".join(field.name for field in fields(Turn))
        raise BadInputError(f"trace {path}, line {number}: {error!r}; a turn is a JSON object with {names}") from error
    for name in _INTEGERS:
        value, least = getattr(turn, name), 1 if name in ("append_tokens", "output_tokens") else 0
        if not isinstance(value, int) or value < least:
            raise BadInputError(f"trace {path}, line {number}: {name} is {value!r}, not an integer of at least {least}")
    for name in ("arrival_s", "gap_s"):
        value = getattr(turn, name)
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise BadInputError(f"trace {path}, line {number}: {name} is {value!r}, not seconds of at least 0")
    return turn
